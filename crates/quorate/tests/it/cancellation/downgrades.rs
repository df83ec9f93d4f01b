//! Downgrades of writers to readers, dropped after each possible poll, whatever the nodes do.

use std::task::Poll;

use quorate::memory::Behaviour;

use super::fixture::{Fixture, NAME, STEP, client, combinations, pass, poll, settle};

#[tokio::test(start_paused = true)]
async fn dropped_downgrade_leaves_no_key() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for behaviours in combinations(&[Answer, Fail, Hang, Mute], 3) {
        for polls in 0..=POLLS_MAX {
            for is_back_before in [true, false] {
                if drop_after(polls, &behaviours, is_back_before).await {
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_downgrade_on_five_nodes_leaves_no_key() {
    use Behaviour::{Answer, Hang, Mute};
    for behaviours in combinations(&[Answer, Hang, Mute], 5) {
        for polls in 0..=POLLS_MAX {
            if drop_after(polls, &behaviours, false).await {
                break;
            }
        }
    }
}

/// Polls the call this often, drops it, and checks the keys. A waiting writer then acquires the
/// lock. Returns true if the call had already ended.
async fn drop_after(polls: usize, behaviours: &[Behaviour], is_back_before: bool) -> bool {
    let fixture = Fixture::new(&vec![Behaviour::Answer; behaviours.len()]);
    let writer = fixture.client.rwlock(NAME).write().await.expect("it is free");
    let others = client(&fixture.nodes);
    let lock = others.rwlock(NAME);
    let next = tokio::spawn(async move { lock.write().await });
    pass(STEP).await;
    fixture.behave(behaviours);
    let mut call = Box::pin(writer.downgrade());
    let mut ended = None;
    for _ in 0..polls {
        if let Poll::Ready(outcome) = poll(call.as_mut()) {
            ended = Some(outcome);
            break;
        }
        pass(STEP).await;
    }
    let is_over = ended.is_some();
    if is_back_before {
        fixture.answer_again();
        settle().await;
        assert!(!next.is_finished() || !is_held(ended.as_ref()), "{polls} polls, {behaviours:?}");
    }
    drop((call, ended));
    fixture.answer_again();
    let next = tokio::time::timeout(super::fixture::TTL / 2, next).await;
    let next = next.unwrap_or_else(|_| panic!("{polls} polls, {behaviours:?}: it is not free"));
    next.expect("no panic").expect("it is free").release().await.expect("it was held");
    settle().await;
    assert_eq!(fixture.holding(), 0, "{polls} polls, {behaviours:?}");
    is_over
}

fn is_held<T, E>(ended: Option<&Result<T, E>>) -> bool {
    ended.is_some_and(Result::is_ok)
}

/// The silent nodes are given up by then.
const POLLS_MAX: usize = 6;

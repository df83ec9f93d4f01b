//! The ends of guards: dropped, released, aborted or unwound, whatever the nodes do at that time.

use std::{task::Poll, time::Duration};

use quorate::{Client, Guard, error::ReleaseError, memory::Behaviour, memory::MemoryNodes};
use quorate_testkit::{Server, eventually};

use super::fixture::{Fixture, NAME, STEP, combinations, pass, poll, settle};
use crate::links::executor::block_on;

#[tokio::test(start_paused = true)]
async fn dropped_guard_leaves_no_key_whatever_the_nodes_do() {
    for behaviours in combinations(&ALL, 5) {
        let fixture = Fixture::new(&[Behaviour::Answer; 5]);
        let guard = fixture.hold().await;
        fixture.behave(&behaviours);
        drop(guard);
        settle().await;
        fixture.answer_again();
        assert_eq!(fixture.holding(), 0, "{behaviours:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_release_still_releases() {
    for behaviours in combinations(&ALL, 3) {
        for polls in 0..=RELEASE_POLLS_MAX {
            let fixture = Fixture::new(&[Behaviour::Answer; 3]);
            let guard = fixture.hold().await;
            fixture.behave(&behaviours);
            let mut release = Box::pin(guard.release());
            for _ in 0..polls {
                if poll(release.as_mut()).is_ready() {
                    break;
                }
                pass(STEP).await;
            }
            drop(release);
            fixture.answer_again();
            settle().await;
            assert_eq!(fixture.holding(), 0, "{polls} polls, {behaviours:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn release_without_a_majority_is_reported_and_retried() {
    use Behaviour::{Answer, Fail, Hang};
    for away in [Fail, Hang] {
        let fixture = Fixture::new(&[Answer; 3]);
        let mut release = Box::pin(fixture.hold().await.release());
        fixture.behave(&[Answer, away, away]);
        let mut ended = poll(release.as_mut());
        while ended.is_pending() {
            pass(STEP).await;
            ended = poll(release.as_mut());
        }
        assert!(
            matches!(ended, Poll::Ready(Err(ReleaseError::NoQuorum { .. }))),
            "{away:?}: {ended:?}"
        );
        fixture.answer_again();
        assert_eq!(fixture.holding(), 0, "{away:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn guard_whose_nodes_come_and_go_leaves_no_key() {
    use Behaviour::Answer;
    for (first, second) in ALL.iter().flat_map(|one| ALL.iter().map(move |other| (*one, *other))) {
        let fixture = Fixture::new(&[Answer, Answer, first]);
        let guard = fixture.hold().await;
        fixture.behave(&[first, Answer, second]);
        drop(guard);
        pass(STEP).await;
        fixture.behave(&[second, first, first]);
        settle().await;
        fixture.answer_again();
        assert_eq!(fixture.holding(), 0, "{first:?}, then {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_task_releases_its_lock() {
    let fixture = Fixture::new(&[Behaviour::Answer; 3]);
    let guard = fixture.hold().await;
    let task = tokio::spawn(hold_forever(guard));
    pass(STEP).await;
    assert_eq!(fixture.holding(), 3);

    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn aborted_waiter_leaves_no_key() {
    use Behaviour::{Answer, Hang};
    let fixture = Fixture::new(&[Answer, Hang, Hang]);
    let mutex = fixture.mutex();
    let task = tokio::spawn(async move { mutex.lock().await.map(hold_forever) });
    pass(STEP).await;
    assert_eq!(fixture.holding(), 1, "on the node that answers");

    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    fixture.answer_again();
    settle().await;
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn panic_while_holding_releases() {
    let fixture = Fixture::new(&[Behaviour::Answer; 3]);
    let guard = fixture.hold().await;
    let task = tokio::spawn(async move {
        guard.check().expect("just taken");
        panic!("the work went wrong");
    });
    assert!(task.await.is_err_and(|error: tokio::task::JoinError| error.is_panic()));
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_dropped_inside_with_releases() {
    let fixture = Fixture::new(&[Behaviour::Answer; 3]);
    let mutex = fixture.mutex();
    let mut with = Box::pin(mutex.with(async |_| std::future::pending::<()>().await));
    assert!(poll(with.as_mut()).is_pending());
    assert_eq!(fixture.holding(), 3);
    drop(with);
    assert_eq!(fixture.holding(), 0);
}

#[test]
fn guard_dropped_outside_any_runtime_releases() {
    let nodes = MemoryNodes::new(3);
    let client = Client::builder().memory(&nodes).build().unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    assert_eq!(nodes.names(0), [NAME]);
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!((0..3).all(|node| nodes.names(node).is_empty()));
}

#[test]
fn guard_dropped_outside_any_runtime_releases_on_a_server() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    assert!(server.get(NAME).is_some());
    std::thread::spawn(move || drop(guard)).join().unwrap();
    eventually("the key is gone", PATIENCE, || server.lock_keys().is_empty());
}

async fn hold_forever(guard: Guard) {
    std::future::pending::<()>().await;
    drop(guard);
}

const ALL: [Behaviour; 4] = [Behaviour::Answer, Behaviour::Fail, Behaviour::Hang, Behaviour::Mute];

/// The silent nodes are given up by then.
const RELEASE_POLLS_MAX: usize = 5;

/// Well below the ttl, after which the key would be gone anyway.
const PATIENCE: Duration = Duration::from_secs(5);

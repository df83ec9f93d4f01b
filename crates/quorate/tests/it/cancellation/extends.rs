//! Extensions that are dropped: nothing is released, and the client promises nothing that the nodes
//! do not keep.

use std::time::Duration;

use quorate::{Guard, Mutex, memory::Behaviour};

use super::fixture::{Fixture, STEP, client, combinations, pass, poll};

#[tokio::test(start_paused = true)]
async fn dropped_extension_releases_nothing() {
    for_each_drop(async |fixture, guard, case| {
        // A shorter lease counts as soon as anything may have been sent.
        let most = if case.polls > 0 { case.ttl.min(HELD) } else { HELD };
        let left = guard.remaining();
        let is_longer = case.is_over && case.ttl > HELD;
        assert!(!left.is_zero() && (left < most || is_longer), "{left:?} {case:?}");
        fixture.answer_again();
        pass(STEP).await;
        guard.check().expect("the lease is still held");
        assert_eq!(fixture.holding(), fixture.nodes.len(), "{case:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lease_never_outlasts_its_keys_after_a_dropped_extension() {
    for_each_drop(async |fixture, guard, case| {
        let rival = client(&fixture.nodes);
        let rival = rival.mutex(guard.name());
        fixture.answer_again();
        // If the keys expire first, another owner acquires the lock: the lease must have ended by
        // then.
        while guard.check().is_ok() {
            assert!(!is_free(&rival).await, "the keys expired before the lease: {case:?}");
            pass((guard.remaining() / 2).max(SHORTEST_CHECK)).await;
        }
    })
    .await;
}

/// How an extension was dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "some of it is read by Debug only, for the message of a failed test")]
struct Case {
    behaviours: Vec<Behaviour>,
    ttl: Duration,
    polls: usize,
    is_over: bool,
}

/// Takes the lock, extends it while the nodes behave in every way, drops the extension after each
/// possible poll, and passes the guard on.
async fn for_each_drop(check: impl AsyncFn(&Fixture, &Guard, &Case)) {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for behaviours in combinations(&[Answer, Fail, Hang, Mute], 3) {
        for ttl in [SHORTER, LONGER] {
            for polls in 0..=POLLS_MAX {
                let fixture = Fixture::new(&[Answer; 3]);
                let guard =
                    fixture.mutex().ttl(HELD).no_renew().lock().await.expect("all nodes answer");
                fixture.behave(&behaviours);
                let is_over = extend_partly(&guard, ttl, polls).await;
                let case = Case { behaviours: behaviours.clone(), ttl, polls, is_over };
                check(&fixture, &guard, &case).await;
                if is_over {
                    break;
                }
            }
        }
    }
}

/// Polls an extension this often and drops it. True if it had ended by then.
async fn extend_partly(guard: &Guard, ttl: Duration, polls: usize) -> bool {
    let mut extending = Box::pin(guard.extend(ttl));
    for _ in 0..polls {
        if poll(extending.as_mut()).is_ready() {
            return true;
        }
        pass(STEP).await;
    }
    false
}

/// True if another client could acquire the lock; it releases it at once.
async fn is_free(rival: &Mutex) -> bool {
    rival.try_lock().await.expect("all nodes answer").is_some()
}

/// The ttl with which the lock is taken.
const HELD: Duration = Duration::from_secs(10);

const SHORTER: Duration = Duration::from_millis(500);
const LONGER: Duration = Duration::from_secs(30);

/// Extensions that have not ended by then only repeat what they did before.
const POLLS_MAX: usize = 8;

/// How near to the end of the lease the last check is.
const SHORTEST_CHECK: Duration = Duration::from_millis(1);

//! The future of a call, dropped after each possible poll, whatever the nodes do.

use std::{pin::Pin, task::Poll, time::Duration};

use quorate::{
    Client, GuardAll, MutexAll,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};

use super::pair;
use crate::{cancellation::fixture::poll, mode::Mode};

in_both_modes! { paused:
    no_key_is_left_whatever_the_nodes_do,
    no_key_is_left_where_another_holds_some_of_the_locks,
    no_key_is_left_by_a_call_dropped_when_its_last_lock_is_released,
}

async fn no_key_is_left_whatever_the_nodes_do(mode: Mode) {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for number in 0..4_usize.pow(3) {
        let behaviours = [1, 4, 16].map(|div| [Answer, Fail, Hang, Mute][number / div % 4]);
        drop_after_each_poll(&Case { mode, behaviours, taken: &[] }).await;
    }
}

/// On all nodes, or on one of them.
async fn no_key_is_left_where_another_holds_some_of_the_locks(mode: Mode) {
    use Behaviour::{Answer, Hang};
    let all: [&[(&str, usize)]; 4] = [
        &[("a", 0), ("a", 1), ("a", 2)],
        &[("b", 0), ("b", 1), ("b", 2)],
        &[("a", 0), ("b", 2)],
        &[("b", 0), ("b", 1)],
    ];
    for number in 0..8 {
        let behaviours = [1, 2, 4].map(|bit| if number & bit == 0 { Answer } else { Hang });
        for taken in all {
            drop_after_each_poll(&Case { mode, behaviours, taken }).await;
        }
    }
}

/// The last lock is released while the call waits for it, at each step. The call is dropped before
/// it can handle the grant.
async fn no_key_is_left_by_a_call_dropped_when_its_last_lock_is_released(mode: Mode) {
    for polls in 1..=POLLS_MAX {
        for polls_after in 0..2 {
            let nodes = MemoryNodes::new(3);
            let (alice, bob) = (client(mode, &nodes), client(mode, &nodes));
            let guard = alice.mutex("b").lock().await.unwrap();
            let bobs = pair(&bob);
            let mut calling = Call::Lock.start(&bobs);
            for _ in 0..polls {
                assert!(poll(calling.as_mut()).is_pending(), "b is held");
                pass(STEP).await;
            }
            drop(guard);
            pass(STEP).await;
            for _ in 0..polls_after {
                if poll(calling.as_mut()).is_ready() {
                    break;
                }
            }
            drop(calling);
            settle().await;
            for node in 0..3 {
                assert_eq!(nodes.names(node), [""; 0], "{polls} polls, then {polls_after}");
            }
        }
    }
}

struct Case {
    mode: Mode,
    behaviours: [Behaviour; 3],
    /// What another program holds, and on which nodes.
    taken: &'static [(&'static str, usize)],
}

async fn drop_after_each_poll(case: &Case) {
    for call in [Call::TryLock, Call::Lock, Call::LockTimeout] {
        for back in [Back::BeforeDrop, Back::RightAfterDrop, Back::AfterTimeout] {
            for polls in 0..=POLLS_MAX {
                if drop_after(polls, case, call, back).await {
                    break;
                }
            }
        }
    }
}

/// Polls the call this often, drops it, and checks for keys. True if the call had ended
/// by then, so that more polls would show nothing new.
async fn drop_after(polls: usize, case: &Case, call: Call, back: Back) -> bool {
    let nodes = MemoryNodes::new(3);
    let bob = client(case.mode, &nodes);
    case.taken.iter().for_each(|(name, node)| nodes.plant(*node, name, b"another"));
    case.behaviours.iter().enumerate().for_each(|(node, to)| nodes.set(node, *to));
    let set = pair(&bob);
    let mut calling = call.start(&set);
    let mut ended = None;
    for _ in 0..polls {
        if let Poll::Ready(outcome) = poll(calling.as_mut()) {
            ended = Some(outcome);
            break;
        }
        pass(STEP).await;
    }
    let is_over = ended.is_some();
    let answer_again = || (0..3).for_each(|node| nodes.set(node, Behaviour::Answer));
    match back {
        Back::BeforeDrop => {
            answer_again();
            settle().await;
            drop((calling, ended));
        }
        Back::RightAfterDrop => {
            drop((calling, ended));
            answer_again();
        }
        Back::AfterTimeout => {
            drop((calling, ended));
            settle().await;
            answer_again();
        }
    }
    settle().await;
    for node in 0..3 {
        let mut names = nodes.names(node);
        names.sort();
        let taken = case.taken.iter().filter(|(_, on)| *on == node).map(|(name, _)| *name);
        let taken: Vec<&str> = taken.collect();
        let behaviours = case.behaviours;
        assert_eq!(names, taken, "{polls} polls of {call:?}, {back:?}, {behaviours:?}");
    }
    is_over
}

#[derive(Clone, Copy, Debug)]
enum Call {
    TryLock,
    Lock,
    LockTimeout,
}

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Option<GuardAll>, LockError>> + 'a>>;

impl Call {
    fn start(self, set: &MutexAll) -> Calling<'_> {
        match self {
            Self::TryLock => Box::pin(set.try_lock()),
            Self::Lock => Box::pin(async { set.lock().await.map(Some) }),
            Self::LockTimeout => {
                Box::pin(async { set.lock_timeout(2 * VOTE_TIMEOUT).await.map(Some) })
            }
        }
    }
}

/// When the nodes answer again.
#[derive(Clone, Copy, Debug)]
enum Back {
    /// While the call is pending, and is not polled: it is dropped with its outcome inside.
    BeforeDrop,
    /// Usually before the vote timeout: late grants meet a call that was dropped.
    RightAfterDrop,
    /// When the engine has given up the silent nodes.
    AfterTimeout,
}

/// A client whose engine runs on the paused runtime.
fn client(mode: Mode, nodes: &MemoryNodes) -> Client {
    let settings = Client::builder().memory(nodes).ttl(TTL).vote_timeout(VOTE_TIMEOUT);
    mode.of(settings).danger_engine_on_this_runtime().build().unwrap()
}

/// Lets time pass, and the engine run what is due.
async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
}

async fn settle() {
    pass(VOTE_TIMEOUT).await;
    pass(VOTE_TIMEOUT).await;
}

/// Longer than any of these tests runs on the paused clock: no key expires.
const TTL: Duration = Duration::from_secs(60);

const VOTE_TIMEOUT: Duration = Duration::from_millis(50);

/// Two polls and more fit into a vote timeout.
const STEP: Duration = Duration::from_millis(20);

/// Calls that have not ended by then only repeat what they did before.
const POLLS_MAX: usize = 14;

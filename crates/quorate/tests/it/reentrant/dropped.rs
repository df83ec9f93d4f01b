//! The future of a call, dropped after each possible poll, whatever the nodes do.

use std::{pin::Pin, task::Poll, time::Duration};

use quorate::{
    Client, Guard, Mutex,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};

use super::entry;
use crate::cancellation::fixture::poll;

#[tokio::test(start_paused = true)]
async fn nothing_is_left_on_a_free_lock() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for number in 0..4_usize.pow(3) {
        let behaviours = [1, 4, 16].map(|div| [Answer, Fail, Hang, Mute][number / div % 4]);
        drop_after_each_poll(behaviours, Holder::Nobody).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_but_the_outer_entry() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for number in 0..4_usize.pow(3) {
        let behaviours = [1, 4, 16].map(|div| [Answer, Fail, Hang, Mute][number / div % 4]);
        drop_after_each_poll(behaviours, Holder::ItsIdentity).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_where_another_holds_the_lock() {
    use Behaviour::{Answer, Hang, Mute};
    for number in 0..3_usize.pow(3) {
        let behaviours = [1, 3, 9].map(|div| [Answer, Hang, Mute][number / div % 3]);
        drop_after_each_poll(behaviours, Holder::Another).await;
        drop_after_each_poll(behaviours, Holder::AnotherOnOne).await;
    }
}

/// The lock is released while entries wait for it, at each step, and one of them is dropped before
/// it can handle the grant.
#[tokio::test(start_paused = true)]
async fn entry_that_leaves_when_granted_keeps_the_others() {
    for polls in 1..=POLLS_MAX {
        for polls_after in 0..2 {
            let nodes = MemoryNodes::new(3);
            let (alice, bob) = (client(&nodes), client(&nodes));
            let guard = alice.mutex("a").lock().await.expect("it is free");
            let mutex = entry(&bob, "x");
            let (mut goes, mut stays) = (Call::Lock.start(&mutex), Call::Lock.start(&mutex));
            for _ in 0..polls {
                assert!(poll(goes.as_mut()).is_pending() && poll(stays.as_mut()).is_pending());
                pass(STEP).await;
            }
            drop(guard);
            pass(STEP).await;
            for _ in 0..polls_after {
                if poll(goes.as_mut()).is_ready() {
                    break;
                }
            }
            drop(goes);
            settle().await;
            let Poll::Ready(got) = poll(stays.as_mut()) else { panic!("{polls}: its turn came") };
            let got = got.expect("the nodes answer").expect("it has waited");
            got.verify().await.expect("it is held");
            let report = alice.inspect("a").await.expect("the nodes answer");
            assert!(report.shared_with.is_empty() && report.waiting_total == 0, "{report:?}");
            drop(got);
            settle().await;
            assert_empty(&nodes, &format!("{polls} polls, then {polls_after}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_leaves_nothing_whatever_the_nodes_do() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for number in 0..4_usize.pow(3) {
        let behaviours = [1, 4, 16].map(|div| [Answer, Fail, Hang, Mute][number / div % 4]);
        let nodes = MemoryNodes::new(3);
        let client = client(&nodes);
        let outer = entry(&client, "x").lock().await.expect("it is free");
        let inner = entry(&client, "x").lock().await.expect("its identity has it");
        behaviours.iter().enumerate().for_each(|(node, to)| nodes.set(node, *to));
        drop(inner);
        settle().await;
        (0..3).for_each(|node| nodes.set(node, Answer));
        settle().await;
        outer.verify().await.expect("it is another entry");
        let report = client.inspect("a").await.expect("the nodes answer");
        assert!(report.shared_with.is_empty(), "{behaviours:?}: {report:?}");
        drop(outer);
        settle().await;
        assert_empty(&nodes, &format!("{behaviours:?}"));
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holder {
    Nobody,
    ItsIdentity,
    Another,
    /// On one node; the others are free.
    AnotherOnOne,
}

async fn drop_after_each_poll(behaviours: [Behaviour; 3], held: Holder) {
    for call in [Call::TryLock, Call::Lock, Call::LockTimeout] {
        for back in [Back::BeforeDrop, Back::RightAfterDrop, Back::AfterTimeout] {
            for polls in 0..=POLLS_MAX {
                if drop_after(polls, behaviours, held, call, back).await {
                    break;
                }
            }
        }
    }
}

/// Polls the call that often, drops it, and looks for what is left. True if the call
/// had ended by then, so that more polls would show nothing new.
async fn drop_after(
    polls: usize,
    behaviours: [Behaviour; 3],
    held: Holder,
    call: Call,
    back: Back,
) -> bool {
    let nodes = MemoryNodes::new(3);
    let (alice, bob) = (client(&nodes), client(&nodes));
    let guard = match held {
        Holder::Nobody => None,
        Holder::ItsIdentity => Some(entry(&alice, "x").lock().await.expect("it is free")),
        Holder::Another => Some(entry(&alice, "y").lock().await.expect("it is free")),
        Holder::AnotherOnOne => {
            nodes.plant(2, "a", b"another");
            None
        }
    };
    behaviours.iter().enumerate().for_each(|(node, to)| nodes.set(node, *to));
    let mutex = entry(&bob, "x");
    let mut calling = call.start(&mutex);
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
    let what = format!("{polls} polls of {call:?}, {back:?}, {behaviours:?}, {held:?}");
    if let Some(guard) = guard {
        guard.verify().await.expect("it is held");
        let report = alice.inspect("a").await.expect("the nodes answer");
        let is_alone = report.shared_with.is_empty() && report.waiting_total == 0;
        assert!(is_alone, "{what}: {report:?}");
        drop(guard);
        settle().await;
    }
    if held == Holder::AnotherOnOne {
        nodes.forget(2);
    }
    assert_empty(&nodes, &what);
    is_over
}

fn assert_empty(nodes: &MemoryNodes, what: &str) {
    for node in 0..nodes.len() {
        assert_eq!(nodes.names(node), [""; 0], "node {node}: {what}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    TryLock,
    Lock,
    LockTimeout,
}

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Option<Guard>, LockError>> + 'a>>;

impl Call {
    fn start(self, mutex: &Mutex) -> Calling<'_> {
        match self {
            Self::TryLock => Box::pin(mutex.try_lock()),
            Self::Lock => Box::pin(async { mutex.lock().await.map(Some) }),
            Self::LockTimeout => {
                Box::pin(async { mutex.lock_timeout(2 * VOTE_TIMEOUT).await.map(Some) })
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
fn client(nodes: &MemoryNodes) -> Client {
    let settings = Client::builder().memory(nodes).ttl(TTL).vote_timeout(VOTE_TIMEOUT);
    settings.danger_engine_on_this_runtime().build().expect("the settings are valid")
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

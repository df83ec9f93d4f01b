//! The future of a lock call, dropped after each possible poll, whatever the nodes do.

use std::{pin::Pin, task::Poll};

use quorate::{Guard, Mutex, error::LockError, memory::Behaviour};

use super::fixture::{Fixture, NAME, STEP, VOTE_TIMEOUT, combinations, pass, poll, settle};

#[tokio::test(start_paused = true)]
async fn no_key_is_left_by_nodes_that_answer_fail_or_hang() {
    use Behaviour::{Answer, Fail, Hang};
    sweep(&combinations(&[Answer, Fail, Hang], 5)).await;
}

#[tokio::test(start_paused = true)]
async fn no_key_is_left_by_nodes_that_answer_hang_or_lose_their_answers() {
    use Behaviour::{Answer, Hang, Mute};
    sweep(&combinations(&[Answer, Hang, Mute], 5)).await;
}

#[tokio::test(start_paused = true)]
async fn no_key_is_left_by_three_nodes_that_do_whatever_they_can() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    sweep(&combinations(&[Answer, Fail, Hang, Mute], 3)).await;
}

#[tokio::test(start_paused = true)]
async fn no_key_is_left_by_five_nodes_that_do_whatever_they_can() {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for behaviours in combinations(&[Answer, Fail, Hang, Mute], 5) {
        let case = Case { behaviours, taken: Vec::new() };
        for back in [Back::BeforeDrop, Back::RightAfterDrop, Back::AfterTimeout] {
            drop_after_each_poll(&case, Call::TryLock, back).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_left_where_another_holds_the_lock_on_some_nodes() {
    use Behaviour::{Answer, Hang};
    for behaviours in combinations(&[Answer, Hang], 3) {
        for taken in 0..1 << behaviours.len() {
            let taken = (0..behaviours.len()).filter(|node| taken >> node & 1 == 1).collect();
            drop_everywhere(&Case { behaviours: behaviours.clone(), taken }).await;
        }
    }
}

async fn sweep(combinations: &[Vec<Behaviour>]) {
    for behaviours in combinations {
        let case = Case { behaviours: behaviours.clone(), taken: Vec::new() };
        drop_everywhere(&case).await;
    }
}

/// What the nodes are like.
#[derive(Debug)]
struct Case {
    behaviours: Vec<Behaviour>,
    /// The nodes on which another program holds the lock.
    taken: Vec<usize>,
}

async fn drop_everywhere(case: &Case) {
    for call in [Call::TryLock, Call::Lock, Call::LockTimeout] {
        for back in [Back::BeforeDrop, Back::RightAfterDrop, Back::AfterTimeout, Back::OneByOne] {
            drop_after_each_poll(case, call, back).await;
        }
    }
}

async fn drop_after_each_poll(case: &Case, call: Call, back: Back) {
    for polls in 0..=POLLS_MAX {
        if drop_after(polls, case, call, back).await {
            break;
        }
    }
}

/// Polls the call this often, drops it, and checks for keys. True if the call had ended
/// by then, so that more polls would show nothing new.
async fn drop_after(polls: usize, case: &Case, call: Call, back: Back) -> bool {
    let fixture = Fixture::new(&case.behaviours);
    case.taken.iter().for_each(|node| fixture.nodes.plant(*node, NAME, b"another"));
    let mutex = fixture.mutex();
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
    match back {
        Back::BeforeDrop => {
            fixture.answer_again();
            settle().await;
            drop((calling, ended));
        }
        Back::RightAfterDrop => {
            drop((calling, ended));
            fixture.answer_again();
        }
        Back::AfterTimeout => {
            drop((calling, ended));
            settle().await;
            fixture.answer_again();
        }
        Back::OneByOne => {
            fixture.nodes.set(0, Behaviour::Answer);
            drop((calling, ended));
            for node in 1..fixture.nodes.len() {
                pass(STEP).await;
                fixture.nodes.set(node, Behaviour::Answer);
            }
        }
    }
    settle().await;
    for node in (0..fixture.nodes.len()).filter(|node| !case.taken.contains(node)) {
        let names = fixture.nodes.names(node);
        assert!(names.is_empty(), "{polls} polls of {call:?}, {back:?}, {case:?}: node {node}");
    }
    is_over
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
    /// The first before the drop, the last long after it.
    OneByOne,
}

/// Calls that have not ended by then only repeat what they did before.
const POLLS_MAX: usize = 10;

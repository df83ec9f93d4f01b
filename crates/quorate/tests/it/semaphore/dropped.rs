//! The future of a call, dropped after each possible poll, whatever the nodes do.

use std::{pin::Pin, task::Poll, time::Duration};

use quorate::{
    Client, Permit, Permits, Semaphore,
    error::LockError,
    memory::{Behaviour, MemoryNodes},
};

use crate::{cancellation::fixture::poll, mode::Mode};

in_both_modes! { paused:
    no_key_is_left_whatever_the_nodes_do,
    no_key_is_left_where_others_have_permits_or_are_first_in_the_queue,
    no_key_is_left_by_a_call_dropped_when_permits_are_released,
    no_key_is_left_by_a_call_dropped_with_some_of_its_permits,
}

async fn no_key_is_left_whatever_the_nodes_do(mode: Mode) {
    use Behaviour::{Answer, Fail, Hang, Mute};
    for number in 0..4_usize.pow(3) {
        let behaviours = [1, 4, 16].map(|div| [Answer, Fail, Hang, Mute][number / div % 4]);
        drop_after_each_poll(&Case { mode, behaviours, taken: &[] }).await;
    }
}

async fn no_key_is_left_where_others_have_permits_or_are_first_in_the_queue(mode: Mode) {
    use Behaviour::{Answer, Hang};
    let all: [&[&str]; 4] =
        [&["jobs#1"], &["jobs#1", "jobs#2"], &["jobs#queue"], &["jobs#1", "jobs#2", "jobs#queue"]];
    for number in 0..8 {
        let behaviours = [1, 2, 4].map(|bit| if number & bit == 0 { Answer } else { Hang });
        for taken in all {
            drop_after_each_poll(&Case { mode, behaviours, taken }).await;
        }
    }
}

/// Both permits are released while the call waits for them, at each step; the call is dropped
/// before it can handle the grant.
async fn no_key_is_left_by_a_call_dropped_when_permits_are_released(mode: Mode) {
    for call in [Call::Acquire, Call::AcquireMany, Call::AcquireManyFixed] {
        for polls in 1..=POLLS_MAX {
            for polls_after in 0..AFTER_MAX {
                let nodes = MemoryNodes::new(3);
                let (alice, bob) = (client(mode, &nodes), client(mode, &nodes));
                let (alices, bobs) = (jobs(&alice), jobs(&bob));
                let guards = (alices.acquire().await.unwrap(), alices.acquire().await.unwrap());
                let mut calling = call.start(&bobs);
                for _ in 0..polls {
                    assert!(poll(calling.as_mut()).is_pending(), "all are taken");
                    pass(STEP).await;
                }
                drop(guards);
                pass(STEP).await;
                for _ in 0..polls_after {
                    if poll(calling.as_mut()).is_ready() {
                        break;
                    }
                    pass(Duration::ZERO).await;
                }
                drop(calling);
                settle().await;
                for node in 0..3 {
                    let what = format!("{polls} polls of {call:?}, then {polls_after}");
                    assert_eq!(nodes.names(node), [""; 0], "{what}");
                }
            }
        }
    }
}

/// Alice releases one of her two permits, and perhaps the other one later. Bob wants both.
async fn no_key_is_left_by_a_call_dropped_with_some_of_its_permits(mode: Mode) {
    for (polls, polls_between, polls_after) in (1..8)
        .flat_map(|one| (0..4).flat_map(move |two| (0..AFTER_MAX).map(move |it| (one, two, it))))
    {
        let nodes = MemoryNodes::new(3);
        let (alice, bob) = (client(mode, &nodes), client(mode, &nodes));
        let (alices, bobs) = (jobs(&alice), jobs(&bob));
        let (one, other) = (alices.acquire().await.unwrap(), alices.acquire().await.unwrap());
        let mut calling = Call::AcquireMany.start(&bobs);
        for _ in 0..polls {
            assert!(poll(calling.as_mut()).is_pending(), "all are taken");
            pass(STEP).await;
        }
        drop(one);
        for _ in 0..polls_between {
            pass(STEP).await;
            assert!(poll(calling.as_mut()).is_pending(), "one is taken");
        }
        // Some of these calls are dropped before the other one is released.
        let mut ended = None;
        let other = if polls_after == 0 {
            Some(other)
        } else {
            drop(other);
            None
        };
        for _ in 0..polls_after {
            pass(STEP).await;
            if let Poll::Ready(outcome) = poll(calling.as_mut()) {
                ended = Some(outcome);
                break;
            }
        }
        drop((calling, ended));
        settle().await;
        let left: Vec<&str> = other.iter().map(|permit| permit.name()).collect();
        for node in 0..3 {
            let what = format!("{polls}, {polls_between} and {polls_after} polls");
            assert_eq!(nodes.names(node), left, "{what}");
        }
    }
}

struct Case {
    mode: Mode,
    behaviours: [Behaviour; 3],
    /// What others hold on all nodes.
    taken: &'static [&'static str],
}

async fn drop_after_each_poll(case: &Case) {
    for call in Call::ALL {
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
    for node in 0..3 {
        case.taken.iter().for_each(|name| nodes.plant(node, name, b"another"));
        nodes.set(node, case.behaviours[node]);
    }
    let semaphore = jobs(&bob);
    let mut calling = call.start(&semaphore);
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
        let behaviours = case.behaviours;
        assert_eq!(names, case.taken, "{polls} polls of {call:?}, {back:?}, {behaviours:?}");
    }
    is_over
}

#[derive(Clone, Copy, Debug)]
enum Call {
    TryAcquire,
    Acquire,
    AcquireTimeout,
    /// Both permits.
    TryAcquireMany,
    AcquireMany,
    AcquireManyTimeout,
    /// Both permits, in fixed leases.
    AcquireManyFixed,
}

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Vec<Permit>, LockError>> + 'a>>;

impl Call {
    const ALL: [Self; 7] = [
        Self::TryAcquire,
        Self::Acquire,
        Self::AcquireTimeout,
        Self::TryAcquireMany,
        Self::AcquireMany,
        Self::AcquireManyTimeout,
        Self::AcquireManyFixed,
    ];

    fn start(self, semaphore: &Semaphore) -> Calling<'_> {
        let wait = 2 * VOTE_TIMEOUT;
        let all = |it: Permits| it.into_permits();
        match self {
            Self::TryAcquire => {
                Box::pin(async { Ok(semaphore.try_acquire().await?.into_iter().collect()) })
            }
            Self::Acquire => Box::pin(async { Ok(vec![semaphore.acquire().await?]) }),
            Self::AcquireTimeout => {
                Box::pin(async move { Ok(vec![semaphore.acquire_timeout(wait).await?]) })
            }
            Self::TryAcquireMany => Box::pin(async move {
                Ok(semaphore.try_acquire_many(2).await?.map(all).unwrap_or_default())
            }),
            Self::AcquireMany => Box::pin(async move { semaphore.acquire_many(2).await.map(all) }),
            Self::AcquireManyTimeout => {
                Box::pin(async move { semaphore.acquire_many_timeout(2, wait).await.map(all) })
            }
            Self::AcquireManyFixed => {
                Box::pin(async move { semaphore.clone().no_renew().acquire_many(2).await.map(all) })
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

fn jobs(client: &Client) -> Semaphore {
    client.semaphore("jobs", 2)
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

/// By then a call has acquired the released permits.
const AFTER_MAX: usize = 4;

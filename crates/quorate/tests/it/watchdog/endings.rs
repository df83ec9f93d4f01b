//! A lease whose holder is gone is not renewed.

use std::{future::pending, sync::Arc, time::Duration};

use quorate::{
    Client, Guard,
    memory::{
        Behaviour::{Answer, Fail},
        MemoryNodes,
    },
};
use quorate_testkit::{Server, eventually};
use tokio::runtime::Runtime;

use super::{
    fixture::{NAME, PausedFixture, TTL, pass},
    journal::Journal,
};
use crate::{faults::fixture::PATIENCE, links::executor::block_on, mode::Mode};

in_both_modes! {
    server_receives_no_renewal_of_a_released_lock,
}

#[tokio::test(start_paused = true)]
async fn released_lock_is_not_renewed() {
    for way in WAYS {
        let fixture = PausedFixture::new(3);
        let guard = fixture.hold().await;
        pass(TTL).await;
        let task = tokio::spawn(async move { way.end(guard).await });
        pass(TTL / 5).await;
        task.abort();
        pass(TTL / 5).await;
        assert_eq!(fixture.holding(), 0, "{way:?}");
        let renewals = fixture.journal.count("renewed");
        pass(10 * TTL).await;
        assert_eq!(fixture.journal.count("renewed"), renewals, "{way:?}");
        assert_eq!(fixture.journal.count("lost"), 0, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_retried_for_the_longest_extension() {
    for mode in [Mode::Queue, Mode::Classic] {
        let fixture = PausedFixture::new_in(mode, 3);
        let guard = fixture.hold().await;
        guard.extend(5 * TTL).await.unwrap();
        guard.extend(TTL).await.unwrap();
        fixture.nodes.set(2, Fail);
        guard.release().await.unwrap();
        // The last extension has expired by then, and the node has the key by the one before it.
        pass(3 * TTL).await;
        fixture.nodes.set(2, Answer);
        assert_eq!(fixture.holding(), 0, "{mode:?}");
    }
}

/// It was down when the lock was acquired, so nothing was sent to it by then.
#[tokio::test(start_paused = true)]
async fn node_that_got_the_key_by_a_renewal_is_released() {
    let fixture = PausedFixture::new(3);
    fixture.nodes.set(2, Fail);
    let guard = fixture.hold().await;
    fixture.nodes.set(2, Answer);
    pass(TTL / 2).await;
    assert_eq!(fixture.holding(), 3, "it stores the lock with the next renewal");
    fixture.nodes.set(2, Fail);
    guard.release().await.unwrap();
    fixture.nodes.set(2, Answer);
    assert_eq!(fixture.holding(), 0);
}

fn server_receives_no_renewal_of_a_released_lock(mode: Mode) {
    let server = Server::start();
    let journal = Journal::default();
    let settings = mode.of(Client::builder().quarantine(false)).nodes([server.url()]).ttl(SHORT);
    let client = block_on(settings.observer(journal.clone()).connect()).unwrap();
    let witness = Witness::start();
    // In the default mode sessions send commands all the time; only the script that renews has this
    // command.
    let renewing = match mode {
        Mode::Queue => "mget",
        Mode::Classic => "evalsha",
    };
    for way in WAYS {
        let guard = block_on(client.mutex(NAME).lock()).unwrap();
        let renewals = journal.count("renewed");
        eventually("it is renewed", PATIENCE, || journal.count("renewed") > renewals);
        let runtime = Runtime::new().unwrap();
        let task = runtime.spawn(async move { way.end(guard).await });
        match way {
            Way::RuntimeGoes => drop(runtime),
            Way::Abort => task.abort(),
            // A panic is an error of the task, and is expected here.
            Way::Release | Way::Drop | Way::Panic => drop(runtime.block_on(task)),
        }
        eventually("the key is gone", PATIENCE, || server.lock_keys().is_empty());
        let calls = server.command_calls(renewing);
        witness.wait_for(SHORT);
        assert_eq!(server.command_calls(renewing), calls, "{way:?}");
        assert!(server.lock_keys().is_empty(), "{way:?}");
    }
    assert_eq!(journal.count("lost"), 0);
}

/// How a lock is released.
#[derive(Clone, Copy, Debug)]
enum Way {
    Release,
    Drop,
    Abort,
    Panic,
    RuntimeGoes,
}

impl Way {
    async fn end(self, guard: Guard) {
        match self {
            Self::Release => guard.release().await.expect("it was held"),
            Self::Drop => drop(guard),
            Self::Abort | Self::RuntimeGoes => {
                pending::<()>().await;
                drop(guard);
            }
            Self::Panic => {
                guard.check().expect("it is held");
                panic!("the work goes wrong");
            }
        }
    }
}

/// Another client whose lock is renewed meanwhile: its watchdog shows that time has passed, and
/// that watchdogs work.
struct Witness {
    journal: Journal,
    _held: Arc<Guard>,
}

impl Witness {
    fn start() -> Self {
        let journal = Journal::default();
        let settings = Client::builder().memory(&MemoryNodes::new(1)).observer(journal.clone());
        let client = settings.ttl(SHORT).build().expect("the settings are valid");
        let held = block_on(client.mutex("witness").lock()).expect("it is free");
        Self { journal, _held: Arc::new(held) }
    }

    /// Waits for enough renewals that `time` has passed: there are no more than six in a ttl.
    fn wait_for(&self, time: Duration) {
        let enough = self.journal.count("renewed") + 6 * time.div_duration_f64(SHORT) as usize;
        eventually("the witness is renewed", PATIENCE, || self.journal.count("renewed") > enough);
    }
}

#[test]
fn lock_released_while_its_renewal_begins_is_not_reported_lost() {
    // A renewal that runs after the release finds no key: that is no loss.
    let journal = Journal::default();
    let settings = Client::builder().memory(&MemoryNodes::new(1)).observer(journal.clone());
    let client = settings.ttl(RENEWED_SOON).build().unwrap();
    let take = |number| block_on(client.mutex(format!("order:{number}")).lock()).unwrap();
    for _ in 0..ROUNDS {
        let guards: Vec<_> = (0..MANY).map(take).collect();
        let renewed = journal.count("renewed");
        eventually("renewals have begun", PATIENCE, || journal.count("renewed") > renewed);
        drop(guards);
    }
    let lines = journal.lines();
    assert!(!lines.iter().any(|line| line.ends_with(" gone")), "{lines:?}");
}

const WAYS: [Way; 5] = [Way::Release, Way::Drop, Way::Abort, Way::Panic, Way::RuntimeGoes];
const SHORT: Duration = Duration::from_millis(400);
const ROUNDS: usize = 5;
const MANY: u32 = 300;
const RENEWED_SOON: Duration = Duration::from_millis(400);

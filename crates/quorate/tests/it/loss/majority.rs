//! A majority of real servers stands still while a lock is held.

use std::time::Duration;

use quorate::{Client, ClientBuilder, Guard};
use quorate_testkit::{Server, eventually};

use crate::{
    faults::cluster::{PATIENCE, connect_to_all},
    keeper::journal::Journal,
    links::executor::block_on,
};

#[test]
fn the_loss_is_told_before_any_node_lets_go_of_the_key() {
    // What is told takes a moment to arrive on a busy machine: the allowance is for that as well.
    let stage = Stage::start(|settings| settings.drift(10_000, ALLOWANCE));
    let mut decided = 0;
    for round in 0..ROUNDS {
        let (guard, renewals, kept_until) = stage.hold_without_majority();
        block_on(guard.lost());
        let told_at = stage.time_us();
        assert!(stage.servers[0].pttl(NAME) > 0, "round {round}: the running node has it");
        // If one more renewal came through before the nodes stood still, they keep it for longer.
        if stage.renewals() == renewals {
            decided += 1;
            let late = told_at.saturating_sub(kept_until);
            assert_eq!(late, 0, "round {round}: {late} microseconds too late");
        }
        stage.resume();
        drop(guard);
    }
    assert!(decided > ROUNDS / 2, "only {decided} of {ROUNDS} rounds say anything");
}

#[test]
fn no_look_at_the_guard_says_held_once_a_node_has_let_go_of_the_key() {
    let stage = Stage::start(|settings| settings);
    for round in 0..LOOKING_ROUNDS {
        let (guard, renewals, kept_until) = stage.hold_without_majority();
        eventually("the key is over", PATIENCE, || {
            let now = stage.time_us();
            let is_held = guard.check().is_ok() && stage.renewals() == renewals;
            assert!(!is_held || now < kept_until, "round {round}");
            now > kept_until
        });
        stage.resume();
        drop(guard);
    }
}

/// Three servers and a client of them.
struct Stage {
    servers: Vec<Server>,
    client: Client,
    journal: Journal,
}

impl Stage {
    fn start(more: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let servers = Server::start_many(3);
        let journal = Journal::default();
        let settings = Client::builder().nodes(servers.iter().map(Server::url)).ttl(TTL);
        let client = connect_to_all(more(settings).observer(journal.clone()));
        Self { servers, client, journal }
    }

    /// Holds the lock and stops a majority right after a renewal. Says how many renewals there
    /// were, and until when those nodes keep the key, on their clock.
    fn hold_without_majority(&self) -> (Guard, usize, u64) {
        let guard = block_on(self.client.mutex(NAME).lock_timeout(PATIENCE)).expect("it is free");
        let before = self.renewals();
        eventually("it is renewed", PATIENCE, || self.renewals() > before);
        let renewals = self.renewals();
        let kept_until = |server: &Server| {
            // The time is read first, so this is never later than it is.
            let now = server.time_us();
            now + u64::try_from(server.pttl(NAME)).expect("it has the key") * 1_000
        };
        let kept_until = self.servers[1..].iter().map(kept_until).min().expect("two servers");
        self.servers[1..].iter().for_each(Server::pause);
        (guard, renewals, kept_until)
    }

    fn resume(&self) {
        self.servers[1..].iter().for_each(Server::resume);
    }

    /// How many renewals were confirmed.
    fn renewals(&self) -> usize {
        self.journal.count("renewed orders:42 done")
    }

    /// The clock of the servers, which run on one machine.
    fn time_us(&self) -> u64 {
        self.servers[0].time_us()
    }
}

const NAME: &str = "orders:42";
const TTL: Duration = Duration::from_millis(400);
const ALLOWANCE: Duration = Duration::from_millis(100);

/// More of them show no more, but take longer.
const ROUNDS: usize = 20;
const LOOKING_ROUNDS: usize = 5;

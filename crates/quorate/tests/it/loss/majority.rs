//! A majority of real servers is stopped while a lock is held.

use std::{
    env,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorate::{
    Client, ClientBuilder, Guard,
    observe::{Event, Observer, Outcome},
};
use quorate_testkit::{Server, eventually, redis::cmd};

use crate::{
    faults::fixture::{PATIENCE, connect_to_all},
    links::executor::block_on,
};

#[test]
fn loss_is_reported_before_any_key_expires() {
    let is_full = env::var_os(FULL).is_some_and(|value| value == "1");
    let rounds = if is_full { FULL_ROUNDS } else { ROUNDS };
    let fixture = Fixture::start(|settings| {
        // On a busy machine the reporter has to wait for the processor: the allowance is for that.
        if is_full { settings } else { settings.drift(10_000, ALLOWANCE) }
    });
    let (mut decided, mut round) = (0, 0);
    while decided < rounds {
        round += 1;
        assert!(round <= 3 * rounds, "only {decided} of {round} rounds were conclusive");
        let (guard, renewals, kept_until) = fixture.hold_without_majority();
        block_on(guard.lost());
        assert!(fixture.servers[0].pttl(NAME) > 0, "round {round}: the running node has it");
        if fixture.log.renewals() == renewals {
            decided += 1;
            let late = fixture.log.lost_at().saturating_sub(kept_until);
            assert_eq!(late, Duration::ZERO, "round {round}");
        }
        fixture.resume();
        drop(guard);
    }
    println!("reported in time in {decided} of {round} rounds");
}

#[test]
fn check_never_succeeds_after_a_key_has_expired() {
    let fixture = Fixture::start(|settings| settings);
    for round in 0..LOOKING_ROUNDS {
        let (guard, renewals, kept_until) = fixture.hold_without_majority();
        let mut was_held_too_long = false;
        eventually("the key has expired", PATIENCE, || {
            // Read before the check, so it is not later than that.
            let now = unix_time();
            was_held_too_long |= guard.check().is_ok() && now >= kept_until;
            now > kept_until
        });
        block_on(guard.lost());
        let is_decided = fixture.log.renewals() == renewals;
        assert!(!(is_decided && was_held_too_long), "round {round}");
        fixture.resume();
        drop(guard);
    }
}

/// Three servers and a client of them. All run on one machine, so they have the same clock.
struct Fixture {
    servers: Vec<Server>,
    client: Client,
    log: Log,
}

impl Fixture {
    fn start(more: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let servers = Server::start_many(3);
        let log = Log::default();
        let settings =
            Client::builder().quarantine(false).nodes(servers.iter().map(Server::url)).ttl(TTL);
        let client = connect_to_all(more(settings).observer(log.clone()));
        Self { servers, client, log }
    }

    /// Holds the lock and stops a majority right after a renewal. Returns how many renewals there
    /// were, and until when those nodes keep the key. If there are more renewals in the end, one
    /// arrived before the nodes stopped, and they keep it for longer.
    fn hold_without_majority(&self) -> (Guard, usize, Duration) {
        let guard = block_on(self.client.mutex(NAME).lock_timeout(PATIENCE)).expect("it is free");
        let before = self.log.renewals();
        eventually("it is renewed", PATIENCE, || self.log.renewals() > before);
        let renewals = self.log.renewals();
        let kept_until = self.servers[1..].iter().map(kept_until).min().expect("two servers");
        self.servers[1..].iter().for_each(Server::pause);
        (guard, renewals, kept_until)
    }

    fn resume(&self) {
        self.servers[1..].iter().for_each(Server::resume);
    }
}

/// When the key expires on the server, since 1970.
fn kept_until(server: &Server) -> Duration {
    let script = "local now = redis.call('TIME') \
                  return now[1] * 1000 + math.floor(now[2] / 1000) + redis.call('PTTL', KEYS[1])";
    let mut eval = cmd("EVAL");
    let ms: u64 =
        eval.arg(script).arg(1).arg(NAME).query(&mut server.connection()).expect("a time");
    // Cut to milliseconds twice.
    Duration::from_millis(ms - 1)
}

/// The time of this machine's clock, since 1970.
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970")
}

/// An observer that records when events were reported. Clones are the same log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<(usize, Duration)>>);

impl Log {
    /// How many renewals were confirmed.
    fn renewals(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// When the last loss was reported.
    fn lost_at(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl Observer for Log {
    fn observe(&self, event: &Event<'_>) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Renewed { outcome: Outcome::Done, .. } => told.0 += 1,
            Event::Lost { .. } => told.1 = unix_time(),
            _ => {}
        }
    }
}

const NAME: &str = "orders:42";
const TTL: Duration = Duration::from_millis(400);
const ALLOWANCE: Duration = Duration::from_millis(150);

/// More of them show little more, but take longer.
const ROUNDS: usize = 20;

/// Set to 1 where nothing else runs: more rounds, and only the allowance that users have.
const FULL: &str = "QUORATE_FULL";
const FULL_ROUNDS: usize = 100;
const LOOKING_ROUNDS: usize = 5;

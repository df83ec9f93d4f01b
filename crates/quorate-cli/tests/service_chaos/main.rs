//! The service while instances and servers crash: three instances on five servers, clients that
//! fail over, and a check of all responses.
//!
//! `QUORATE_CHAOS_SECONDS` sets the duration of the load, `QUORATE_CHAOS_SEED` repeats the choices
//! of a run (not their timing).

#![cfg(test)]

mod client;
mod dice;
mod faults;
#[path = "../service"]
mod service {
    #[expect(dead_code, unused_imports, reason = "the tests of the service use the rest of it")]
    pub(crate) mod fixture;
}
mod chaos;
mod tally;

use std::{
    env,
    io::{self, Write as _},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorate_testkit::history::{History, Moment, Recorder, Until};

use self::{chaos::Fixture, client::Client, dice::Dice, service::fixture, tally::Tally};

#[test]
fn locks_stay_exclusive_while_instances_and_servers_crash() {
    let seconds = number_in("QUORATE_CHAOS_SECONDS").unwrap_or(SECONDS);
    let seed = number_in("QUORATE_CHAOS_SEED").unwrap_or_else(seed_of_now);
    let (fixture, tally, recorder) = (Fixture::start(), Tally::default(), Recorder::in_memory());
    let end = Moment::now().after(Duration::from_secs(seconds));
    let mut dice = Dice::new(seed);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let client = Client::new(number, &fixture, &tally, &recorder, dice.split());
            scope.spawn(move || client.run(end));
        }
        let (fixture, tally) = (&fixture, &tally);
        let [mut one, mut two, mut three] = [dice.split(), dice.split(), dice.split()];
        scope.spawn(move || faults::crash_instances(fixture, tally, &mut one, end));
        scope.spawn(move || faults::crash_servers(fixture, tally, &mut two, false, end));
        scope.spawn(move || faults::crash_servers(fixture, tally, &mut three, true, end));
    });
    let history = recorder.history();
    say(&format!("seed {seed}, {seconds} s of load: {tally}\n{}", history.report()));
    history.assert_kept(Until::Believed);
    tally.assert_kept();
    tally.assert_tried();
    assert_service_works(&fixture, &tally, &history, dice);
}

/// After the faults every lock can be acquired, with a larger fence than all before.
fn assert_service_works(fixture: &Fixture, tally: &Tally, history: &History, dice: Dice) {
    fixture.await_ready();
    let recorder = Recorder::in_memory();
    let mut client = Client::new(CLIENTS, fixture, tally, &recorder, dice);
    for lock in client::LOCKS {
        let fence = client.acquire_and_release(lock);
        let before = history.claims().iter().filter(|claim| claim.lock == lock);
        let largest = before.filter_map(|claim| claim.fence).max().unwrap_or_default();
        assert!(fence > largest, "{lock}: the fence {fence} follows {largest}");
    }
    tally.assert_kept();
}

fn number_in(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} must be a whole number, not {text:?}")))
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

/// Sleeps: for the duration of work, or of an outage.
fn pass(time: Duration) {
    let end = Moment::now().after(time);
    while Moment::now() < end {
        thread::park_timeout(end.since(Moment::now()));
    }
}

fn say(text: &str) {
    writeln!(io::stdout(), "{text}").expect("standard output is there");
}

/// Enough for several crashes of each kind.
const SECONDS: u64 = 10;

const CLIENTS: usize = 12;

//! Clocks and timers that went wrong in the background.

use std::{env, process::Command, time::Duration};

use quorate::{Client, memory::MemoryNodes};
use quorate_testkit::eventually;

use crate::{
    faults::cluster::PATIENCE,
    links::executor::block_on,
    watchdog::{
        fixture::{NAME, PausedFixture, TTL, build, pass, settings},
        journal::Journal,
    },
};

#[test]
fn time_passes_on_every_paused_runtime_of_a_process() {
    // Runtimes shared the origin of the first one: what lay before it was all the same moment.
    if env::var_os(ALONE).is_none() {
        // Only the first client of a process sets the origin, so this needs one of its own.
        let name = "regressions::keepers::time_passes_on_every_paused_runtime_of_a_process";
        let mut alone = Command::new(env::current_exe().unwrap());
        let ended = alone.args(["--exact", name]).env(ALONE, "yes").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    }
    let client = || build(settings(&MemoryNodes::new(1)));
    paused().block_on(async {
        tokio::time::advance(Duration::from_secs(60 * 60)).await;
        drop(client().mutex(NAME).lock().await.unwrap());
    });
    paused().block_on(async {
        let guard = client().mutex(NAME).lock().await.unwrap();
        // All at once, so that nothing is renewed meanwhile.
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        assert!(guard.check().is_err(), "its ttl is over: {guard:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn the_keepers_timers_do_not_multiply() {
    // Each timer that came too late to matter set another one, for ever.
    let fixture = PausedFixture::new(1);
    for number in 0..LOCKS {
        // Many of them are due before all others so far.
        let ttl = MAX - Duration::from_millis(11 * number);
        drop(fixture.client.mutex(format!("order:{number}")).ttl(ttl).lock().await.unwrap());
    }
    let guard = fixture.hold().await;
    pass(2 * MAX).await;
    guard.check().unwrap();
    let waiting = timers(&fixture.client);
    assert!(waiting < 10, "{waiting} timers for one lock");
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_is_no_jump_of_the_wall_clock() {
    // The two were compared, so that every lease was at risk whenever a test let time pass.
    let fixture = PausedFixture::new(3);
    let renewed = fixture.hold().await;
    let fixed = fixture.client.mutex("fixed").ttl(5 * TTL).no_renew().lock().await.unwrap();
    pass(4 * TTL).await;
    assert!(!renewed.is_at_risk() && !fixed.is_at_risk());
    assert_eq!(fixture.journal.count("at risk"), 0);
}

#[test]
fn a_lock_that_is_released_while_its_renewal_begins_is_not_lost() {
    // The renewal left behind the release, found no key, and was told as a loss.
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

/// How many timers the client's engine has set.
fn timers(client: &Client) -> usize {
    let shown = format!("{client:?}");
    let (_, rest) = shown.split_once("waiting: ").expect("the timers are shown");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().expect("a runtime")
}

const ALONE: &str = "QUORATE_TEST_ALONE";
const LOCKS: u64 = 5_000;
const MAX: Duration = Duration::from_secs(60);
const ROUNDS: usize = 5;
const MANY: u32 = 300;
const RENEWED_SOON: Duration = Duration::from_millis(400);

//! Clients whose clock is the runtime's paused clock.

use std::{env, time::Duration};

use quorate::{Client, error::ConfigError, memory::MemoryNodes};
use quorate_testkit::processes::this_test;

use super::fixture::{NAME, PausedFixture, TTL, build, pass, settings};

#[tokio::test]
async fn clients_with_different_clocks_cannot_share_memory_nodes() {
    // The keys of one client would expire by the clock of the other.
    let refuses = |built: Result<Client, ConfigError>| match built {
        Err(ConfigError::InvalidSetting { setting, .. }) => setting == "memory",
        Ok(_) | Err(_) => false,
    };
    let nodes = MemoryNodes::new(3);
    let _first = Client::builder().memory(&nodes).build().unwrap();
    assert!(refuses(settings(&nodes).build()));
    let _second = Client::builder().memory(&nodes).build().unwrap();

    let nodes = MemoryNodes::new(3);
    let _first = build(settings(&nodes));
    assert!(refuses(Client::builder().memory(&nodes).build()));
    let _second = build(settings(&nodes));
}

#[test]
fn time_passes_on_every_paused_runtime_of_a_process() {
    // Each runtime needs its own origin: all moments before the origin are the same moment.
    if env::var_os(ALONE).is_none() {
        // Only the first client of a process sets the origin, so this needs one of its own.
        let name = "watchdog::clocks::time_passes_on_every_paused_runtime_of_a_process";
        let ended = this_test(name).env(ALONE, "yes").output().unwrap();
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
        // In one jump, so that nothing is renewed in between.
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        assert!(guard.check().is_err(), "its ttl has passed: {guard:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn paused_clock_is_not_a_jump_of_the_wall_clock() {
    // A lease is at risk after a jump of the wall clock, which the paused clock does not follow.
    let fixture = PausedFixture::new(3);
    let renewed = fixture.hold().await;
    let fixed = fixture.client.mutex("fixed").ttl(5 * TTL).no_renew().lock().await.unwrap();
    pass(4 * TTL).await;
    assert!(!renewed.is_at_risk() && !fixed.is_at_risk());
    assert_eq!(fixture.journal.count("at risk"), 0);
}

fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().expect("a runtime")
}

const ALONE: &str = "QUORATE_TEST_ALONE";

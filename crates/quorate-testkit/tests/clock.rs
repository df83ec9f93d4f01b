//! What a test can rely on when a server has a clock of its own.

use std::time::{Duration, SystemTime};

use quorate_testkit::{Flavour, Server, eventually, redis};

#[test]
fn clock_is_right_and_runs_until_it_is_set() {
    on_each(|server| {
        let before = SystemTime::now();
        let shown = SystemTime::UNIX_EPOCH + Duration::from_micros(server.time_us());
        let apart = shown.duration_since(before).unwrap_or_else(|error| error.duration());
        assert!(apart < SOON, "{apart:?}");
        let start = server.time_us();
        eventually("it runs", SOON, || server.time_us() > start);
    });
}

#[test]
fn clock_stops_and_continues_from_there() {
    on_each(|server| {
        server.clock().stop();
        let stopped_at = server.clock().time_us();
        assert_eq!(stopped_at % 1_000, 0);
        shows(server, stopped_at);
        server.clock().forward(Duration::from_millis(1));
        shows(server, stopped_at + 1_000);
        server.clock().back(DAY);
        shows(server, stopped_at + 1_000 - MICROS_OF_DAY);
        server.clock().run();
        eventually("it runs", SOON, || server.time_us() > stopped_at + 2_000 - MICROS_OF_DAY);
        assert!(server.time_us() < stopped_at, "it goes on from where it stood");
    });
}

#[test]
fn redis_sees_a_clock_that_stands_still_to_the_microsecond() {
    let server = Server::builder().own_clock().start();
    server.clock().stop();
    server.clock().forward(Duration::from_micros(7));
    let stopped_at = server.clock().time_us();
    assert_eq!([server.time_us(), server.time_us()], [stopped_at; 2]);
}

#[test]
fn keys_live_by_it() {
    on_each(|server| {
        server.clock().stop();
        shows(server, server.clock().time_us());
        let mut connection = server.connection();
        redis::cmd("SET")
            .arg("a")
            .arg("1")
            .arg("PX")
            .arg(86_400_000)
            .exec(&mut connection)
            .unwrap();
        server.clock().back(DAY);
        shows(server, server.clock().time_us());
        assert_eq!(server.pttl("a"), 2 * 86_400_000);
        server.clock().forward(2 * DAY);
        shows(server, server.clock().time_us());
        assert_eq!(server.pttl("a"), 0, "a key goes in the millisecond after its end");
        server.clock().forward(Duration::from_millis(1));
        shows(server, server.clock().time_us());
        assert_eq!(server.pttl("a"), -2);
    });
}

#[test]
fn it_outlives_a_restart() {
    on_each(|server| {
        server.clock().forward(DAY);
        server.clock().stop();
        server.restart();
        shows(server, server.clock().time_us());
    });
}

#[test]
fn others_keep_the_time_of_the_machine() {
    let (set, other) = (Server::builder().own_clock().start(), Server::start());
    set.clock().forward(DAY);
    let set_us = set.time_us();
    assert!(other.time_us() + MICROS_OF_DAY / 2 < set_us);
}

#[test]
#[should_panic(expected = "this server was started with `.own_clock()`")]
fn server_without_one_cannot_be_set() {
    Server::start().clock().stop();
}

/// Waits until the server shows the millisecond that begins at `time_us`, and sees that it stays.
fn shows(server: &Server, time_us: u64) {
    let is_shown = || server.time_us() / 1_000 == time_us / 1_000;
    eventually("the server sees its clock", SOON, is_shown);
    assert!((0..20).all(|_| is_shown()), "it does not stand still");
}

fn on_each(test: impl Fn(&Server)) {
    for flavour in Flavour::ALL {
        test(&Server::builder().flavour(flavour).own_clock().start());
    }
}

const SOON: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(86_400);
const MICROS_OF_DAY: u64 = 86_400_000_000;

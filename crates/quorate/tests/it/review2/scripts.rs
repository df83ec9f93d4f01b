//! Servers that have forgotten the scripts.

use quorate_testkit::redis::cmd;

use crate::conformance::fixture::{Fixture, on_servers};

/// `try_lock` said that somebody had a lock that nobody had: the fence was to be confirmed, and the
/// script for that was forgotten.
#[test]
fn a_free_lock_is_had_by_one_try_although_its_fence_is_confirmed_by_a_forgotten_script() {
    on_servers(&[3, 5], async |fixture| {
        let client = fixture.connect(fixture.builder()).await;
        for _ in 0..3 {
            differ_in_fences(fixture);
            flush_scripts(fixture);
            let guard = client.mutex(NAME).try_lock().await.expect("all nodes answer");
            guard.expect("nobody has it").release().await.expect("it is held");
            fixture.wait_until_empty(fixture.all());
        }
    });
}

/// No two nodes have the same fence, and each is ahead of every ticket.
fn differ_in_fences(fixture: &Fixture) {
    for (number, server) in (1..).zip(fixture.servers()) {
        let ahead = server.time_us() + number * 1_000_000;
        let set = cmd("SET")
            .arg(format!("quorate:f:{{{NAME}}}"))
            .arg(format!("{ahead:016}"))
            .exec(&mut server.connection());
        set.expect("it is stored");
    }
}

fn flush_scripts(fixture: &Fixture) {
    for server in fixture.servers() {
        let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the scripts are gone");
    }
}

const NAME: &str = "a";

//! Many leases are renewed in one request, and each of them is checked separately.

use std::time::Duration;

use quorate::{Client, Guard, error::LostReason};
use quorate_testkit::{
    Server, eventually,
    redis::{cmd, pipe},
};

use super::journal::Journal;
use crate::{faults::fixture::PATIENCE, links::executor::block_on, mode::Mode};

in_both_modes! {
    leases_that_are_due_together_travel_together,
    overwritten_key_does_not_void_the_other_leases,
}

fn leases_that_are_due_together_travel_together(mode: Mode) {
    let (server, journal, guards) = hold_many(mode);
    let calls = server.command_calls("evalsha");
    let renewed = journal.count("renewed");
    eventually("each was renewed five times", PATIENCE, || {
        journal.count("renewed") > renewed + 5 * guards.len()
    });
    let calls = server.command_calls("evalsha") - calls;
    let renewed = (journal.count("renewed") - renewed) as u64;
    assert!(calls * 10 < renewed, "{calls} requests for {renewed} renewals");
    assert!(calls * BATCH_MAX >= renewed, "{calls} requests for {renewed} renewals");
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    assert_eq!(journal.count("lost"), 0);
}

fn overwritten_key_does_not_void_the_other_leases(mode: Mode) {
    let (server, journal, guards) = hold_many(mode);
    let mut connection = server.connection();
    let mut overwrite = pipe();
    overwrite.atomic().del("order:7").hset("order:7", "owner", "another");
    overwrite.exec(&mut connection).unwrap();
    cmd("SET").arg("order:150").arg("another's").exec(&mut connection).unwrap();
    cmd("DEL").arg("order:299").exec(&mut connection).unwrap();
    // In the default mode a key that was only deleted is acquired again, since no other owner held
    // it.
    let odd = match mode {
        Mode::Queue => &["order:7", "order:150"][..],
        Mode::Classic => &["order:7", "order:150", "order:299"],
    };
    eventually("they are lost", PATIENCE, || journal.count("lost") == odd.len());

    let renewed = journal.count("renewed");
    eventually("the others are renewed", PATIENCE, || {
        journal.count("renewed") > renewed + 5 * guards.len()
    });
    for guard in &guards {
        match guard.check() {
            Ok(()) => assert!(!odd.contains(&guard.name()), "{}", guard.name()),
            Err(lost) => {
                assert!(odd.contains(&guard.name()), "{}: {lost}", guard.name());
                assert_eq!(lost.reason, LostReason::Gone);
            }
        }
    }
    drop(guards);
    eventually("ours are gone", PATIENCE, || server.lock_keys().len() == 2);
    assert_eq!(server.get("order:150").as_deref(), Some(&b"another's"[..]));
}

/// Holds many locks on one server. The client and its journal stay with the guards.
fn hold_many(mode: Mode) -> (Server, Journal, Vec<Guard>) {
    let server = Server::start();
    let journal = Journal::default();
    let settings = mode.of(Client::builder().quarantine(false)).nodes([server.url()]).ttl(TTL);
    let client =
        block_on(settings.observer(journal.clone()).connect()).expect("the server is there");
    let take = |number| block_on(client.mutex(format!("order:{number}")).lock());
    let guards = (0..LOCKS).map(take).collect::<Result<_, _>>().expect("it is free");
    (server, journal, guards)
}

const LOCKS: usize = 300;
const TTL: Duration = Duration::from_secs(3);
const BATCH_MAX: u64 = 128;

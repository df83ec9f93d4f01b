//! Reports about locks while nodes are down, full, or deny access.

use std::time::{Duration, Instant};

use quorate::{
    Client,
    error::{InspectError, NodeAnswer, NodeError},
    inspect::{LockReport, Observation},
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::{Server, eventually, redis::cmd};

use super::{
    fixture::{ProxyFixture, connect_to_all, settings},
    refusals::tell,
};
use crate::{
    conformance::fixture::{LONG, PATIENCE},
    links::executor::block_on,
};

#[test]
fn unreachable_minority_is_named_and_the_others_report() {
    for nodes in [3, 5] {
        let fixture = ProxyFixture::start(nodes);
        let client = fixture.connect();
        let guard = block_on(client.mutex("a").ttl(LONG).lock()).expect("it is free");
        fixture.servers[0].kill();
        let is_gone = || client.node_status()[0].answer != NodeAnswer::Attached;
        eventually("the loss is seen", PATIENCE, is_gone);
        let report = inspect_until(&client, |report| report.votes == nodes - 1);
        assert!(report.is_held(), "{report:?}");
        assert_eq!(report.holder.and_then(|it| it.fence), guard.fence());
        assert!(
            matches!(report.nodes[0].observation, Observation::NodeError(_)),
            "{:?}",
            report.nodes
        );
        let list = block_on(client.locks("").all()).expect("most nodes answer");
        assert!(list.is_complete && list.locks.len() == 1, "{list:?}");
        assert!(matches!(list.nodes[0].answer, NodeAnswer::NodeError(_)), "{:?}", list.nodes);
        assert_eq!(list.nodes[1].answer, NodeAnswer::Attached);

        for server in &fixture.servers[1..nodes - 1] {
            server.kill();
        }
        let last = |report: &LockReport| report.votes == 1;
        let report = inspect_until(&client, last);
        assert!(!report.is_held(), "one node cannot know: {report:?}");
        let only = format!(", on 1 of {nodes} nodes only");
        assert!(report.to_string().ends_with(&only), "{report}");
        let list = block_on(client.locks("").all()).expect("one node answers");
        assert!(!list.is_complete && list.locks.len() == 1, "{list:?}");
    }
}

#[test]
fn error_without_answers_names_the_reason_of_each_node() {
    let fixture = ProxyFixture::start(3);
    let client = fixture.connect();
    fixture.servers.iter().for_each(Server::kill);
    let is_gone = || client.node_status().iter().all(|it| it.answer != NodeAnswer::Attached);
    eventually("the loss is seen", PATIENCE, is_gone);
    for error in [
        block_on(client.inspect("a")).expect_err("no node answers"),
        block_on(client.locks("").all()).expect_err("no node answers"),
    ] {
        let InspectError::NoAnswer { nodes } = &error else { panic!("{error}") };
        assert_eq!(nodes.len(), 3);
        let is_error = |answer: &NodeAnswer| matches!(answer, NodeAnswer::NodeError(_));
        assert!(nodes.iter().all(|it| is_error(&it.answer)), "{error}");
        assert!(error.to_string().starts_with("no node reports locks: "), "{error}");
    }
}

/// A call does not wait for a silent node forever.
#[test]
fn inspect_does_not_wait_for_a_hanging_node() {
    let nodes = MemoryNodes::new(3);
    let client = Client::builder().memory(&nodes).build().expect("the settings are valid");
    let _guard = block_on(client.mutex("a").lock()).expect("it is free");
    nodes.set(2, Behaviour::Hang);
    let started = Instant::now();
    let report = block_on(client.inspect("a")).expect("two nodes answer");
    assert_eq!(report.nodes[2].observation, Observation::NodeError(NodeError::TimedOut));
    assert!(report.is_held());
    let list = block_on(client.locks("").all()).expect("two nodes answer");
    assert!(list.is_complete && list.locks.len() == 1, "{list:?}");
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    let _ = block_on(client.clone().shutdown(Duration::ZERO));
    assert_eq!(block_on(client.inspect("a")), Err(InspectError::ShutDown));
    assert_eq!(block_on(client.locks("").all()), Err(InspectError::ShutDown));
}

#[test]
fn full_server_still_reports() {
    let server = Server::start();
    let client = connect_to_all(settings([server.url()]));
    let _guard = block_on(client.mutex("a").ttl(LONG).lock()).expect("it is free");
    tell(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let report = block_on(client.inspect("a")).expect("it answers");
    assert!(report.is_held(), "{report}");
    assert_eq!(block_on(client.locks("").all()).expect("it answers").locks.len(), 1);
}

/// Permissions of users that predate the list of locks are enough for everything else.
#[test]
fn without_permission_to_scan_a_lock_can_be_inspected_but_not_listed() {
    let server = Server::start();
    let rights = "~app:* ~quorate:* &quorate:c:* +@all -scan";
    let mut user = cmd("ACL");
    user.arg(&["SETUSER", "app", "reset", "on", ">secret", "resetchannels"]);
    user.arg(rights.split(' ').collect::<Vec<_>>());
    user.exec(&mut server.connection()).expect("it is a user");
    let url = server.url_with("app", "secret", 0);
    let client = connect_to_all(settings([url]));
    let _guard = block_on(client.mutex("app:a").ttl(LONG).lock()).expect("it is free");
    let report = block_on(client.inspect("app:a")).expect("it answers");
    assert!(report.is_held(), "{report}");
    let error = block_on(client.locks("").all()).expect_err("it is denied");
    assert!(matches!(error, InspectError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("SCAN"), "{error}");
    let error = block_on(client.inspect("other")).expect_err("it is denied");
    assert!(matches!(error, InspectError::Denied { .. }), "{error}");

    // What a user may not see is not listed either.
    tell(&server, &["ACL", "SETUSER", "app", "+scan"]);
    let other = connect_to_all(settings([server.url()]));
    let _others = block_on(other.mutex("other").ttl(LONG).lock()).expect("it is free");
    let locks = block_on(client.locks("").all()).expect("it may scan now").locks;
    assert_eq!(locks.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["app:a"]);
    assert_eq!(block_on(other.locks("").all()).expect("it may").locks.len(), 2);
}

/// Days pass on the server's clock, while the holder keeps extending.
#[test]
fn hold_time_is_reported_after_days() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let server = Server::builder().own_clock().start();
    let settings = settings([server.url()]).max_ttl(48 * HOUR);
    let client = connect_to_all(settings);
    let guard = block_on(client.mutex("a").ttl(40 * HOUR).lock()).expect("it is free");
    for step in 1..=7 {
        server.clock().forward(9 * HOUR);
        let fresh = || server.pttl("a") > i64::try_from(39 * HOUR.as_millis()).expect("small");
        eventually("the lease is extended", PATIENCE, || {
            // The first time may only show that the session went.
            let _ = block_on(guard.extend(40 * HOUR));
            fresh()
        });
        let report = inspect_until(&client, |report| report.holder.is_some());
        let held_for = report.holder.and_then(|it| it.held_for).expect("it is ours");
        let past = 9 * HOUR * step;
        assert!((past..past + PATIENCE * 7).contains(&held_for), "{held_for:?} after {past:?}");
    }
}

/// Asks until the report is as it should be.
fn inspect_until(client: &Client, is_so: impl Fn(&LockReport) -> bool) -> LockReport {
    let mut seen = None;
    eventually("the nodes tell what they should", PATIENCE, || {
        seen = block_on(client.inspect("a")).ok().filter(&is_so);
        seen.is_some()
    });
    seen.expect("it was seen")
}

/// A node is down while its locks are listed, and comes back while the locks of others are listed.
#[test]
fn pages_have_the_locks_of_a_node_that_was_away() {
    let nodes = MemoryNodes::new(3);
    let client = Client::builder().memory(&nodes).build().expect("the settings are valid");
    let names: Vec<String> = (0..5).map(|number| format!("a{number}")).collect();
    let guards = names.iter().map(|name| block_on(client.mutex(name).lock()).expect("it is free"));
    let guards: Vec<_> = guards.collect();
    nodes.set(0, Behaviour::Fail);
    let mut list = client.locks("").page_size(1);
    let page = block_on(list.next_page()).expect("two nodes answer").expect("the first page");
    assert!(page.is_complete, "{page:?}");
    nodes.set(0, Behaviour::Answer);
    let mut seen: Vec<String> = page.locks.into_iter().map(|lock| lock.name).collect();
    while let Some(page) = block_on(list.next_page()).expect("all nodes answer") {
        seen.extend(page.locks.into_iter().map(|lock| lock.name));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, names);
    drop(guards);
}

//! Inspection writes nothing to the nodes, and reports the truth.

use quorate_testkit::{Contents, Server, redis::cmd};

use crate::fixture::Fixture;

/// Inspection does not end a quarantine, but reports that its time has passed.
#[test]
fn node_after_its_quarantine_is_reported_and_read() {
    let fixture = Fixture::with(Server::start_many(3), "max_ttl = \"1s\"\n");
    let contents = || fixture.servers.iter().map(Server::contents).collect::<Vec<Contents>>();
    // A client that connects and disconnects starts the time.
    fixture.run(["-n", "x", "true"]).assert_code(69).assert_stderr("in quarantine for ");
    let waiting = fixture.start(["x", "true"]);
    for server in &fixture.servers {
        fixture.await_that("it has its place", || {
            let mut place = cmd("HGET");
            place.arg("quorate:node").arg("enrolled");
            let is_enrolled: Option<u8> = place.query(&mut server.connection()).ok().flatten();
            is_enrolled == Some(1)
        });
        // Another library's lock.
        cmd("SET").arg("theirs").arg("token").exec(&mut server.connection()).expect("it is stored");
    }
    waiting.signal(rustix::process::Signal::TERM);
    waiting.end().assert_code(143);
    let before = contents();
    let shown = fixture.exec(["nodes", "show"]).assert_code(69);
    let why = ": it knows nothing of earlier locks\n";
    assert_eq!(shown.err().matches(why).count(), 3, "{shown:?}");
    fixture.await_that("the quarantine has ended", || fixture.exec(["nodes", "show"]).code() == 0);
    let shown = fixture.exec(["nodes", "show"]).assert_code(0);
    let told = "quarantine has ended: the node votes 5 s after the next read-write client connects";
    assert_eq!(shown.out().matches(told).count(), 3, "{shown:?}");
    let shown = fixture.exec(["show", "theirs"]).assert_code(0);
    assert!(shown.out().starts_with("theirs: held by token"), "{shown:?}");
    let listed = fixture.exec(["ls"]).assert_code(0);
    assert!(listed.err().contains("no locks"), "{listed:?}");
    assert_eq!(contents(), before, "they only look");
    fixture.run(["x", "true"]).assert_code(0);
    let shown = fixture.exec(["nodes", "show"]).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 3, "{shown:?}");
}

/// Inspections leave no trace, so a later one must not depend on an earlier one.
#[test]
fn inspecting_a_quarantined_node_does_not_change_its_status() {
    let fixture = Fixture::with(Server::start_many(3), "");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    fixture.servers[1].flush_all();
    let job = fixture.hold("job");
    fixture.await_that("it has its place", || {
        let mut place = cmd("HGET");
        place.arg("quorate:node").arg("enrolled");
        let is_enrolled: Option<u8> =
            place.query(&mut fixture.servers[1].connection()).ok().flatten();
        is_enrolled == Some(1)
    });
    // The command waits until the status of a node that does not vote has been stable for a while.
    let shown = fixture.exec(["nodes", "show"]).assert_code(1);
    assert!(shown.out().contains(" more: it knows nothing of earlier locks\n"), "{shown:?}");
    job.close().assert_code(0);
}

/// A client that only inspects is not counted, reported, or waited for.
#[test]
fn inspection_leaves_no_session_behind() {
    for nodes in [1, 2, 3] {
        let fixture = Fixture::nodes(nodes);
        fixture.run(["x", "true"]).assert_code(0);
        fixture.await_that("all sessions have expired", || {
            fixture.servers.iter().all(|server| server.sessions() == 0)
        });
        let contents = || fixture.servers.iter().map(Server::contents).collect::<Vec<Contents>>();
        let before = contents();
        for verb in [&["nodes", "show"][..], &["show", "x"], &["ls"]] {
            fixture.exec(verb.iter().copied()).assert_code(0);
        }
        let (before, after) = (format!("{before:?}"), format!("{:?}", contents()));
        assert!(before == after, "{before}\n{after}");
    }
}

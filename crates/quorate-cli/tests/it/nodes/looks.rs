//! What is only looked at: nothing is written, and what is said is so.

use quorate_testkit::{Contents, Server, redis::cmd};

use crate::fixture::Fixture;

/// Whoever looks does not end a guard, and can tell all the same that its time is over.
#[test]
fn a_node_whose_guard_has_ended_is_told_and_read() {
    let fixture = Fixture::with(Server::start_many(3), "max_ttl = \"1s\"\n");
    let contents = || fixture.servers.iter().map(Server::contents).collect::<Vec<Contents>>();
    // One that comes and goes begins the time.
    fixture.run(["-n", "x", "true"]).assert_code(69).assert_says("in quarantine for ");
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
    let shown = fixture.say(["nodes", "show"]).assert_code(69);
    let why = ": it knows nothing of earlier locks\n";
    assert_eq!(shown.err().matches(why).count(), 3, "{shown:?}");
    fixture.await_that("the guard is over", || fixture.say(["nodes", "show"]).code() == 0);
    let shown = fixture.say(["nodes", "show"]).assert_code(0);
    let told = "quarantine has ended: the node votes 5 s after the next read-write client connects";
    assert_eq!(shown.out().matches(told).count(), 3, "{shown:?}");
    let shown = fixture.say(["show", "theirs"]).assert_code(0);
    assert!(shown.out().starts_with("theirs: held by token"), "{shown:?}");
    let listed = fixture.say(["ls"]).assert_code(0);
    assert!(listed.err().contains("no locks"), "{listed:?}");
    assert_eq!(contents(), before, "they only look");
    fixture.run(["x", "true"]).assert_code(0);
    let shown = fixture.say(["nodes", "show"]).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 3, "{shown:?}");
}

/// Looks leave no trace, so that a later one must not go by an earlier one.
#[test]
fn a_guarded_node_says_the_same_however_often_it_is_looked_at() {
    let fixture = Fixture::with(Server::start_many(3), "");
    fixture.say(["nodes", "admit"]).assert_code(0);
    fixture.servers[1].flush_all();
    let job = fixture.hold("job");
    fixture.await_that("it has its place", || {
        let mut place = cmd("HGET");
        place.arg("quorate:node").arg("enrolled");
        let is_enrolled: Option<u8> =
            place.query(&mut fixture.servers[1].connection()).ok().flatten();
        is_enrolled == Some(1)
    });
    // It looks at a node that does not vote until that has said the same for a while.
    let shown = fixture.say(["nodes", "show"]).assert_code(0);
    assert!(shown.out().contains(" more: it knows nothing of earlier locks\n"), "{shown:?}");
    job.close().assert_code(0);
}

/// Nobody who looks is counted, told of, or waited for.
#[test]
fn looks_leave_no_session_behind() {
    for nodes in [1, 2, 3] {
        let fixture = Fixture::nodes(nodes);
        fixture.run(["x", "true"]).assert_code(0);
        fixture.await_that("all sessions are over", || {
            fixture.servers.iter().all(|server| server.sessions() == 0)
        });
        let contents = || fixture.servers.iter().map(Server::contents).collect::<Vec<Contents>>();
        let before = contents();
        for verb in [&["nodes", "show"][..], &["show", "x"], &["ls"]] {
            fixture.say(verb.iter().copied()).assert_code(0);
        }
        let (before, after) = (format!("{before:?}"), format!("{:?}", contents()));
        assert!(before == after, "{before}\n{after}");
    }
}

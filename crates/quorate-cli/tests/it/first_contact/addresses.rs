//! Addresses as people type them.

use quorate_testkit::Server;

use crate::fixture::{Ended, Fixture};

fn port(server: &Server) -> String {
    server.address().rsplit_once(':').expect("a port").1.to_owned()
}

#[test]
fn addresses_without_a_scheme_and_lists_are_accepted() {
    let fixture = Fixture::with(Vec::new(), "");
    let servers = Server::start_many(3);
    let local = format!("localhost:{}", port(&servers[0]));
    fixture.run_until_answered(["-n", "--node", &local, "x", "true"]).assert_code(0);
    let shown = fixture.exec(["config", "--node", &local]).assert_code(0);
    assert!(shown.out().contains(&local), "{shown:?}");
    servers[0].flush_all();
    let list = servers.iter().map(Server::address).collect::<Vec<_>>().join(",");
    let admitted = fixture.exec(["nodes", "admit", "--node", &list]).assert_code(0);
    assert_eq!(admitted.out(), "3 nodes vote\n");
    fixture.run(["--node", &list, "x", "true"]).assert_code(0);
    fixture.run(["--node", ",", "x", "true"]).assert_code(64).assert_stderr("HOST:PORT");
}

#[test]
fn invalid_address_is_shown_as_typed_without_its_password() {
    let fixture = Fixture::without_servers();
    for (typed, shown, remedy) in [
        ("redisss://me:s3cret@h:1", "redisss://me:***@h:1", "did you mean rediss://?"),
        ("http://10.0.0.1", "http://10.0.0.1", "write redis://"),
        ("10.0.0.1:99999", "10.0.0.1:99999", "port"),
        ("redis://me:s3cret@h/x", "redis://me:***@h/x", "database number"),
        ("/run/redis.sock", "/run/redis.sock", "unix:///run/redis.sock"),
        ("redis//10.0.0.1:6379", "redis//10.0.0.1:6379", "the scheme is followed by '://'"),
        ("redis://me:s3cret/s3cret@h", "redis://me:***@h", "contains '/': write '%2F'"),
        ("redis://me:s3cret?s3cret@h", "redis://me:***@h", "contains '?': write '%3F'"),
        ("10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2", "separate addresses by commas"),
    ] {
        for verb in [&["run", "-n"][..], &["ls"], &["nodes", "show"], &["acquire"]] {
            let mut args = verb.to_vec();
            args.extend(["--node", typed]);
            args.extend(if verb[0] == "run" { &["x", "true"][..] } else { &[] });
            args.extend((verb[0] == "acquire").then_some("x"));
            let ended = fixture.exec(args).assert_code(78).assert_stderr(remedy);
            let ended = ended.assert_stderr(&format!("invalid address {shown:?} of node 1: "));
            assert!(!ended.err().contains("s3cret"), "{ended:?}");
        }
    }
}

/// The wait is an hour: the error does not wait for its end.
#[test]
fn same_server_twice_is_78_at_once() {
    let fixture = Fixture::with(Vec::new(), "quarantine = false\n");
    let servers = Server::start_many(2);
    let (one, twin) = (servers[0].address(), format!("localhost:{}", port(&servers[0])));
    let check = |ended: Ended| {
        let ended = ended.assert_code(78).assert_stderr(": is the same server as redis://");
        for address in [&one, &twin] {
            assert!(ended.err().contains(&format!("redis://{address}")), "{ended:?}");
        }
    };
    for list in [format!("{one},{twin}"), format!("{one},{},{twin}", servers[1].address())] {
        check(fixture.run(["-w", "1h", "--node", &list, "x", "true"]));
        check(fixture.run(["-n", "--node", &list, "x", "true"]));
        check(fixture.exec(["acquire", "-w", "1h", "--node", &list, "x"]));
        check(fixture.exec(["nodes", "show", "--node", &list]));
        check(fixture.exec(["show", "x", "--node", &list]));
        check(fixture.exec(["ls", "--node", &list]));
    }
    // Servers in quarantine too: waiting does not help. With three nodes there is a quarantine.
    let fixture = Fixture::with(Vec::new(), "");
    let list = format!("{one},{},{twin}", servers[1].address());
    check(fixture.run(["-w", "1h", "--node", &list, "x", "true"]));
    check(fixture.run(["-n", "--node", &list, "x", "true"]));
    check(fixture.run(["--node", &list, "x", "true"]));
    check(fixture.exec(["acquire", "-w", "1h", "--node", &list, "x"]));
    check(fixture.exec(["nodes", "admit", "--node", &list]));
    check(fixture.exec(["nodes", "show", "--node", &list]));
    let list = format!("{one},{one}");
    let ended = fixture.run(["--node", &list, "x", "true"]).assert_code(78);
    ended.assert_stderr("nodes 1 and 2 are the same server");
    for server in &servers {
        assert!(server.get("x").is_none(), "the lock was given back");
    }
}

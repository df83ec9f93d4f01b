//! `quorate doctor` changes nothing on the nodes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    thread,
};

use quorate_testkit::{Contents, Server, redis::cmd};

use super::examine;
use crate::fixture::Fixture;

/// What a server has stored and how it is configured.
type State = (Contents, Vec<String>, Vec<String>);

fn state(server: &Server) -> State {
    let ask = |words: [&str; 2]| {
        let command = cmd(words[0]).arg(words[1]).clone();
        command.query::<Vec<String>>(&mut server.connection()).expect("it answers")
    };
    let config = cmd("CONFIG").arg("GET").arg("*").clone();
    let config = config.query::<Vec<String>>(&mut server.connection()).expect("it answers");
    (server.contents(), config, ask(["ACL", "LIST"]))
}

/// Healthy nodes, new ones, a node in quarantine, and a server that is not a member of a set.
#[test]
fn servers_are_the_same_before_and_after() {
    let healthy = Fixture::nodes(3);
    let quarantined = Fixture::nodes(3);
    quarantined.servers[2].flush_all();
    let new = Fixture::with(Server::start_many(3), "");
    for fixture in [&healthy, &quarantined, &new, &Fixture::one()] {
        let before: Vec<State> = fixture.servers.iter().map(state).collect();
        let (_, json) = examine(fixture, []);
        let after: Vec<State> = fixture.servers.iter().map(state).collect();
        assert!(before == after, "{json:#}\n{before:?}\n{after:?}");
    }
}

/// The commands that a server receives, also those that scripts call.
#[test]
fn servers_receive_no_command_that_writes() {
    for fixture in [Fixture::nodes(3), Fixture::with(Server::start_many(3), "")] {
        let server = &fixture.servers[0];
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(b"MONITOR\r\n").expect("it is written");
        let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let listening = thread::spawn(move || {
            lines.take_while(|line| !line.contains(END)).collect::<Vec<String>>()
        });
        examine(&fixture, []);
        let echoed: String =
            cmd("ECHO").arg(END).query(&mut server.connection()).expect("it answers");
        assert_eq!(echoed, END);
        let lines = listening.join().expect("no panic");
        let names: Vec<String> = lines.iter().filter_map(|line| command(line)).collect();
        for needed in ["EVAL", "TIME", "INFO", "HMGET"] {
            assert!(names.iter().any(|name| name == needed), "{needed}: {names:?}");
        }
        let writing: Vec<&String> =
            names.iter().filter(|name| !READING.contains(&name.as_str())).collect();
        assert!(writing.is_empty(), "{writing:?}");
    }
}

/// The name in a line such as `+1700000000.1 [0 127.0.0.1:4] "INFO" "server"`.
fn command(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("] \"")?;
    Some(rest.split('"').next()?.to_uppercase())
}

/// MONITOR leaves out CONFIG and SLOWLOG. The client that connects last is that of the test.
const READING: [&str; 13] = [
    "HELLO",
    "CLIENT",
    "SELECT",
    "INFO",
    "TIME",
    "EVAL",
    "HMGET",
    "DBSIZE",
    "EXISTS",
    "SUBSCRIBE",
    "PUBLISH",
    "SLOWLOG",
    "MONITOR",
];

const END: &str = "the-end-of-the-examination";

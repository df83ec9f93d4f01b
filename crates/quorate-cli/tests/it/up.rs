//! `quorate up` and `quorate down`, with the servers that they start.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
};

use quorate_testkit::{
    Flavour, Server,
    redis::{Client, Connection, cmd},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Ended, Fixture, PATIENCE, Running, is_alive};

#[test]
fn new_servers_vote_and_outlive_the_command() {
    let fixture = Fixture::without_servers();
    let up = fixture.exec(["up", "my nodes"]).assert_code(0);
    let up = up.assert_stderr("started 3 servers; `quorate down my nodes` stops them");
    let urls = urls_of(&up);
    assert_eq!(urls.len(), 3);
    let shown = with_nodes(&fixture, &urls, &["nodes", "show"]).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 3, "{shown:?}");
    let run = with_nodes(&fixture, &urls, &["run", "x", "--", "echo", "held"]).assert_code(0);
    assert_eq!(run.out(), "held\n");
    for url in &urls {
        for (key, value) in [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
            ("protected-mode", "yes"),
            ("bind", "127.0.0.1"),
        ] {
            assert_eq!(setting(url, key), value, "{key}");
        }
    }
    let down = fixture.exec(["down", "my nodes"]).assert_code(0);
    assert_eq!(down.out(), "stopped 3 servers of my nodes\n");
    fixture.await_that("they end", || fixture.mark().processes().is_empty());
    let again = fixture.exec(["down", "my nodes"]).assert_code(0);
    assert_eq!(again.out(), "no server of my nodes was running\n");
}

#[test]
fn output_can_be_exported() {
    let fixture = Fixture::without_servers();
    let script = format!(
        r#"export "$({0} up --nodes 1 d 2>/dev/null)" && {0} config && {0} down --delete d"#,
        env!("CARGO_BIN_EXE_quorate")
    );
    for shell in ["sh", "bash"] {
        let mut command = Command::new(shell);
        fixture.prepare(command.args(["-c", &script]));
        let ended = Running::start(&mut command).close().assert_code(0);
        assert!(ended.out().contains("$QUORATE_NODES\n"), "{ended:?}");
        assert!(ended.out().ends_with("stopped 1 server of d, and deleted it\n"), "{ended:?}");
        assert!(!fixture.path("d").exists());
    }
}

#[test]
fn restarted_servers_keep_their_data_and_are_not_admitted() {
    let fixture = Fixture::with(Vec::new(), LONG_QUARANTINE);
    let urls = urls_of(&fixture.exec(["up", "d"]).assert_code(0));
    cmd("SET").arg("key").arg("kept").exec(&mut connection(&urls[1])).expect("it is stored");
    fixture.exec(["down", "d"]).assert_code(0);
    let up = fixture.exec(["up", "d"]).assert_code(0).assert_stderr("started 3 servers again");
    assert_eq!(urls_of(&up), urls);
    assert_eq!(up.err().matches("in quarantine for ").count(), 3, "{up:?}");
    let up = up.assert_stderr("`quorate down --delete d`, then `quorate up d`");
    assert!(!up.err().contains("too few other nodes"), "the time has begun: {up:?}");
    with_nodes(&fixture, &urls, &["nodes", "show"]).assert_code(69);
    let kept: String = cmd("GET").arg("key").query(&mut connection(&urls[1])).expect("a value");
    assert_eq!(kept, "kept");
    down_and_delete(&fixture, "d");
}

/// They look new, but may have granted locks whose holders still work.
#[test]
fn servers_that_have_lost_their_data_are_not_admitted() {
    let fixture = Fixture::with(Vec::new(), LONG_QUARANTINE);
    let urls = urls_of(&fixture.exec(["up", "d"]).assert_code(0));
    fixture.exec(["down", "d"]).assert_code(0);
    for node in ["d/node-1", "d/node-2", "d/node-3"] {
        fs::remove_dir_all(fixture.path(node)).expect("it is there");
    }
    let up = fixture.exec(["up", "d"]).assert_code(0);
    assert_eq!(up.err().matches("in quarantine for ").count(), 3, "{up:?}");
    with_nodes(&fixture, &urls, &["nodes", "show"]).assert_code(69);
    down_and_delete(&fixture, "d");
}

#[test]
fn only_stopped_servers_are_started_again() {
    let fixture = Fixture::without_servers();
    let urls = urls_of(&fixture.exec(["up", "d"]).assert_code(0));
    let before = pids(&fixture);
    kill(&before[1]);
    // Its data is gone too, as on a new disk.
    fs::remove_dir_all(fixture.path("d/node-2")).expect("it is there");
    let up = fixture
        .exec(["up", "d"])
        .assert_code(0)
        .assert_stderr("started 1 server again, with its data");
    assert_eq!(urls_of(&up), urls);
    let up = up.assert_stderr("`quorate nodes show` reports when it votes; ");
    assert!(!up.err().contains("they"), "{up:?}");
    let after = pids(&fixture);
    assert_eq!([&before[0], &before[2]], [&after[0], &after[2]]);
    let shown = with_nodes(&fixture, &urls, &["nodes", "show"]).assert_code(1);
    assert_eq!(shown.out().matches(": attached\n").count(), 2, "{shown:?}");
    fixture.exec(["up", "d"]).assert_code(0).assert_stderr("3 servers of d already run\n");
    down_and_delete(&fixture, "d");
}

#[test]
fn folder_with_other_files_is_refused_and_left_as_it_is() {
    let fixture = Fixture::without_servers();
    fs::create_dir(fixture.path("d")).expect("a folder");
    fixture.write("d/letter", "dear reader");
    for verb in ["up", "down"] {
        fixture.exec([verb, "d"]).assert_code(65).assert_stderr("`quorate up` has not created");
    }
    fixture.exec(["down", "--delete", "d"]).assert_code(65);
    assert_eq!(fixture.read("d/letter"), "dear reader");
    assert_eq!(fs::read_dir(fixture.path("d")).expect("a folder").count(), 1);
}

#[test]
fn data_is_deleted_only_without_other_files() {
    let fixture = Fixture::without_servers();
    let urls = urls_of(&fixture.exec(["up", "--nodes", "2", "d"]).assert_code(0));
    for other in ["d/letter", "d/node-2/letter"] {
        fixture.write(other, "dear reader");
        let down = fixture.exec(["down", "--delete", "d"]).assert_code(65);
        let down = down.assert_stderr(&format!("{other} is not from `quorate up`"));
        down.assert_stderr("nothing was deleted, and no server stopped");
        assert!(fixture.path("d/node-1/server.conf").exists());
        urls.iter().for_each(|url| assert_eq!(setting(url, "appendonly"), "yes", "it runs"));
        fs::remove_file(fixture.path(other)).expect("it is there");
    }
    fixture.exec(["down", "d"]).assert_code(0);
    fixture.await_that("they end", || fixture.mark().processes().is_empty());
    let down = fixture.exec(["down", "--delete", "d"]).assert_code(0);
    assert_eq!(down.out(), "no server of d was running, and deleted it\n");
    assert!(!fixture.path("d").exists());
    let again = fixture.exec(["down", "--delete", "d"]).assert_code(0);
    assert_eq!(again.out(), "there is no d: nothing to stop\n");
}

/// A copy of the folder names the ports of servers that it does not own.
#[test]
fn servers_of_another_folder_are_left_alone() {
    let fixture = Fixture::without_servers();
    fixture.exec(["up", "d"]).assert_code(0);
    copy(&fixture.path("d"), &fixture.path("copy"));
    let down = fixture.exec(["down", "copy"]).assert_code(0);
    assert_eq!(down.out(), "no server of copy was running\n");
    assert_eq!(down.err().matches("belongs to another program: left alone").count(), 3);
    fixture.exec(["up", "copy"]).assert_code(65).assert_stderr("another program listens on 127.");
    assert_eq!(pids(&fixture).iter().filter(|pid| is_alive(pid)).count(), 3);
    down_and_delete(&fixture, "d");
}

/// The pid of a dead server may belong to another process by now.
#[test]
fn process_with_the_pid_of_a_dead_server_is_left_alone() {
    let fixture = Fixture::without_servers();
    fixture.exec(["up", "--nodes", "1", "d"]).assert_code(0);
    kill(&pids(&fixture)[0]);
    let mut sleep = Command::new("sleep");
    let mut other = Running::start(sleep.arg("600"));
    fixture.write("d/node-1/server.pid", &format!("{}\n", other.pid().as_raw_nonzero()));
    let down = fixture.exec(["down", "d"]).assert_code(0);
    assert_eq!(down.out(), "no server of d was running\n");
    assert!(!other.has_ended());
    fixture.exec(["up", "d"]).assert_code(0);
    down_and_delete(&fixture, "d");
    assert!(!other.has_ended());
}

#[test]
fn paused_server_is_reported_and_not_killed() {
    let fixture = Fixture::without_servers();
    fixture.exec(["up", "--nodes", "1", "d"]).assert_code(0);
    let pid = pids(&fixture).remove(0);
    signal(&pid, Signal::STOP);
    for args in [&["up", "d"][..], &["down", "--delete", "d"]] {
        let ended = fixture.exec(args.iter().copied()).assert_code(69);
        ended.assert_stderr(" does not answer (").assert_stderr("d/node-1/server.pid; end it");
    }
    assert!(is_alive(&pid) && fixture.path("d/node-1").exists());
    signal(&pid, Signal::CONT);
    down_and_delete(&fixture, "d");
}

#[test]
fn other_program_on_a_port_is_reported() {
    let fixture = Fixture::without_servers();
    let urls = urls_of(&fixture.exec(["up", "--nodes", "1", "d"]).assert_code(0));
    fixture.exec(["down", "d"]).assert_code(0);
    let address = urls[0].trim_start_matches("redis://");
    let listener = TcpListener::bind(address).expect("the port is free again");
    let answers = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.read_exact(&mut [0; 13]).expect("a question");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is read");
        }
    });
    fixture.exec(["up", "d"]).assert_code(65).assert_stderr(&format!("listens on {address}"));
    fixture.exec(["down", "d"]).assert_code(0).assert_stderr("left alone");
    answers.join().expect("both were answered");
    down_and_delete(&fixture, "d");
}

#[test]
fn missing_server_program_is_reported_with_a_remedy() {
    let fixture = Fixture::without_servers();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    fixture.prepare(command.args(["up", "d"]));
    let ended = Running::start(command.env("PATH", fixture.folder())).close().assert_code(69);
    ended.assert_stderr("no redis-server and no valkey-server in PATH: install one (Debian");
    let ended = fixture.exec(["up", "--server", "./missing", "d"]).assert_code(69);
    ended.assert_stderr("./missing is not a program: use --server PROGRAM");
}

#[test]
fn server_that_does_not_start_leaves_nothing_behind() {
    let fixture = Fixture::without_servers();
    let script = fixture.path("server");
    fs::write(&script, "#!/bin/sh\necho out of luck\nexit 3\n").expect("it is written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ended = fixture.exec(["up", "--server", "./server", "d"]).assert_code(69);
    ended.assert_stderr("ended (exit status: 3)").assert_stderr("\nout of luck");
    assert_eq!(fs::read_dir(fixture.path("d")).expect("a folder").count(), 0);
    // Settings that no client can use are found after the servers have started.
    fs::create_dir_all(fixture.path(".config/quorate")).expect("a folder");
    fixture.write(".config/quorate/config.toml", "max_ttl = 0\n");
    fixture.exec(["up", "d"]).assert_code(78);
    assert_eq!(fs::read_dir(fixture.path("d")).expect("a folder").count(), 0);
    assert!(fixture.mark().processes().is_empty());
}

#[test]
fn valkey_servers_can_be_chosen() {
    let fixture = Fixture::without_servers();
    let server = Server::builder().flavour(Flavour::Valkey).start();
    let info: String =
        cmd("INFO").arg("server").query(&mut server.connection()).expect("it answers");
    let program = info.lines().find_map(|line| line.strip_prefix("executable:"));
    let program = program.expect("the path of the server").trim();
    let up = fixture.exec(["up", "--server", program, "d"]).assert_code(0);
    let url = &urls_of(&up)[2];
    let info: String = cmd("INFO").arg("server").query(&mut connection(url)).expect("it answers");
    assert!(info.contains("\nvalkey_version:"), "{info}");
    // It is started again as what it was.
    fixture.exec(["down", "d"]).assert_code(0);
    fixture.exec(["up", "d"]).assert_code(0);
    let info: String = cmd("INFO").arg("server").query(&mut connection(url)).expect("it answers");
    assert!(info.contains("\nvalkey_version:"), "{info}");
    down_and_delete(&fixture, "d");
}

#[test]
fn two_calls_at_the_same_time_agree() {
    let fixture = Fixture::without_servers();
    let running = ["up", "up"].map(|verb| Running::start(&mut fixture.quorate([verb, "d"])));
    let [one, two] = running.map(|it| urls_of(&it.close().assert_code(0)));
    assert_eq!(one, two);
    with_nodes(&fixture, &one, &["nodes", "show"]).assert_code(0);
    down_and_delete(&fixture, "d");
}

#[test]
fn wrong_arguments_are_explained() {
    let fixture = Fixture::without_servers();
    for nodes in ["0", "10", "many"] {
        fixture.exec(["up", "--nodes", nodes, "d"]).assert_code(64).assert_stderr(nodes);
    }
    fixture.exec(["up"]).assert_code(64).assert_stderr("<DIR>");
    fixture.write("file", "");
    for verb in ["up", "down"] {
        fixture.exec([verb, "file"]).assert_code(64).assert_stderr("file is not a directory");
        fixture.exec([verb, "file/d"]).assert_code(74).assert_stderr("file/d: Not a directory");
    }
    fixture.exec(["up", "a\nb"]).assert_code(64).assert_stderr("a control character");
    let up = fixture.exec(["up", "--nodes", "1", "d"]).assert_code(0);
    up.assert_stderr("started 1 server; `quorate down d` stops it\n");
    fixture.exec(["up", "d"]).assert_code(0).assert_stderr("1 server of d already runs\n");
    let ended = fixture.exec(["up", "--nodes", "3", "d"]).assert_code(65);
    ended.assert_stderr("d has 1 server, not 3: omit --nodes, or use another DIR");
    down_and_delete(&fixture, "d");
}

#[test]
fn damaged_list_is_reported() {
    let fixture = Fixture::without_servers();
    fs::create_dir(fixture.path("d")).expect("a folder");
    for text in ["", "{}", r#"{"version":2,"program":"/x","ports":[7]}"#, "\u{0}"] {
        fixture.write("d/quorate-up.json", text);
        for verb in ["up", "down"] {
            fixture.exec([verb, "d"]).assert_code(65).assert_stderr("quorate-up.json is damaged");
        }
    }
}

/// Settings with which no quarantine ends during a test.
const LONG_QUARANTINE: &str = "max_ttl = \"1h\"\n";

/// The addresses that `up` has printed on its only line.
#[track_caller]
fn urls_of(up: &Ended) -> Vec<String> {
    let list = up.out().strip_prefix("QUORATE_NODES=").and_then(|it| it.strip_suffix('\n'));
    let list = list.unwrap_or_else(|| panic!("no addresses: {up:?}"));
    assert!(!list.contains('\n'), "{up:?}");
    list.split(',').map(str::to_owned).collect()
}

#[track_caller]
fn with_nodes(fixture: &Fixture, urls: &[String], args: &[&str]) -> Ended {
    let mut command = fixture.quorate(args.iter().copied());
    Running::start(command.env("QUORATE_NODES", urls.join(","))).close()
}

#[track_caller]
fn down_and_delete(fixture: &Fixture, dir: &str) {
    fixture.exec(["down", "--delete", dir]).assert_code(0);
    assert!(!fixture.path(dir).exists());
}

/// The process ids of the servers in `d`, in order.
fn pids(fixture: &Fixture) -> Vec<String> {
    let files = (1..).map(|at| fixture.read(&format!("d/node-{at}/server.pid")));
    files.take_while(|text| !text.is_empty()).collect()
}

#[track_caller]
fn kill(pid: &str) {
    signal(pid, Signal::KILL);
    quorate_testkit::eventually("it has ended", PATIENCE, || !is_alive(pid));
}

#[track_caller]
fn signal(pid: &str, signal: Signal) {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

fn connection(url: &str) -> Connection {
    Client::open(url).and_then(|it| it.get_connection()).expect("the server is there")
}

fn setting(url: &str, key: &str) -> String {
    let pair: (String, String) =
        cmd("CONFIG").arg("GET").arg(key).query(&mut connection(url)).expect("it answers");
    pair.1
}

fn copy(from: &Path, to: &Path) {
    let mut cp = Command::new("cp");
    Running::start(cp.arg("-r").args([from, to])).close().assert_code(0);
}

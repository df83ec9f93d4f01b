//! What a test can rely on when it uses a [`Server`].

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use quorate_testkit::{Flavour, Server, eventually, redis};

#[test]
fn new_server_answers_and_is_empty() {
    let server = Server::start();
    assert_eq!(server.address(), format!("127.0.0.1:{}", server.port()));
    assert_eq!(server.url(), format!("redis://{}", server.address()));
    assert!(server.keys().is_empty());
    assert_eq!(config(&server, "save"), "");
    assert_eq!(config(&server, "appendonly"), "no");
}

#[test]
fn its_data_can_be_looked_into() {
    let server = Server::start();
    set(&server, "b", "2");
    set(&server, "a", "1");
    redis::cmd("PEXPIRE").arg("a").arg(60_000).exec(&mut server.connection()).unwrap();

    assert_eq!(server.keys(), [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(server.get("a"), Some(b"1".to_vec()));
    assert_eq!(server.get("c"), None);
    assert!((1..=60_000).contains(&server.pttl("a")));
    assert_eq!((server.pttl("b"), server.pttl("c")), (-1, -2));
    assert_eq!(server.command_calls("SET"), 2);
    assert_eq!(server.command_calls("incr"), 0);

    server.flush_all();
    assert!(server.keys().is_empty());
}

#[test]
fn every_write_changes_its_contents_and_no_read_does() {
    let server = Server::start();
    set(&server, "a", "1");
    let before = server.contents();
    let script = "return redis.call('GET', 'a')";
    redis::cmd("EVAL").arg(script).arg(0).exec(&mut server.connection()).unwrap();
    redis::cmd("PUBLISH").arg("a").arg("").exec(&mut server.connection()).unwrap();
    assert_eq!(server.contents(), before);
    set(&server, "a", "1");
    assert_ne!(server.contents(), before, "also one that leaves everything as it was");
}

#[test]
fn its_clock_is_the_clock_of_this_machine() {
    let server = Server::start();
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let before = now();
    let time = u128::from(server.time_us());
    assert!((before..=now()).contains(&time));
}

#[test]
fn many_start_side_by_side_on_different_ports() {
    let servers = Server::start_many(5);
    let mut ports: Vec<_> = servers.iter().map(Server::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 5);
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}

#[test]
fn directives_are_passed_on() {
    let server = Server::builder().config("maxclients", "77").config("save", "900 1 60 5").start();
    assert_eq!(config(&server, "maxclients"), "77");
    assert_eq!(config(&server, "save"), "900 1 60 5");
}

#[test]
fn password_is_asked_for_and_part_of_the_url() {
    let server = Server::builder().password("se:cr@t \"%").start();
    set(&server, "key", "value");
    assert_eq!(server.get("key"), Some(b"value".to_vec()));

    let with_user = server.url_with("default", "se:cr@t \"%", 3);
    assert!(redis::Client::open(with_user).unwrap().get_connection().is_ok());
    let mut stranger = tcp(&server);
    stranger.write_all(b"GET key\r\n").unwrap();
    assert!(reply(&mut stranger).unwrap().starts_with("-NOAUTH"));
}

#[test]
fn server_that_denies_us_everything_still_starts() {
    let server = Server::builder().config("user", "default off").start();
    let mut stranger = tcp(&server);
    stranger.write_all(b"PING\r\n").unwrap();
    assert!(reply(&mut stranger).unwrap().starts_with("-NOAUTH"));
}

#[test]
fn it_listens_on_a_unix_socket_if_asked_to() {
    let server = Server::builder().unix_socket().start();
    let url = server.unix_url();
    let mut socket = UnixStream::connect(url.strip_prefix("unix://").unwrap()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
#[should_panic(expected = "started without `.unix_socket()`")]
fn without_a_unix_socket_there_is_no_url_of_it() {
    let _ = Server::start().unix_url();
}

#[test]
fn it_can_be_pinned_to_a_processor() {
    let server = Server::builder().cpu(0).start();
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.lines().any(|line| line == "Cpus_allowed_list:\t0"), "{status}");
}

#[test]
fn killed_server_rejects_and_restarts_without_data() {
    let server = Server::start();
    set(&server, "key", "value");
    let (port, pid) = (server.port(), server.pid());

    server.kill();
    let error = TcpStream::connect(server.address()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(!is_alive(pid));
    server.kill();

    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(server.keys().is_empty());
}

#[test]
fn server_with_an_append_only_file_keeps_its_data_by_default() {
    let server = Server::builder().append_only().start();
    set(&server, "key", "value");

    server.kill();
    server.restart();
    assert_eq!(server.get("key"), Some(b"value".to_vec()));
    server.restart();
    assert_eq!(server.get("key"), Some(b"value".to_vec()));
    server.restart_empty();
    assert_eq!(server.get("key"), None);
}

#[test]
fn server_can_be_started_from_the_files_of_another() {
    let servers = Server::builder().append_only().start_many(2);
    set(&servers[0], "key", "first");
    set(&servers[1], "key", "second");
    servers[1].restart_as_copy_of(&servers[0]);
    assert_eq!(servers[1].get("key"), Some(b"first".to_vec()));
    assert_eq!(servers[0].get("key"), Some(b"first".to_vec()));
}

#[test]
fn server_can_be_asked_to_end_even_while_paused() {
    let server = Server::builder().append_only().start();
    set(&server, "key", "value");
    let pid = server.pid();
    server.pause();
    server.terminate();
    assert!(!is_alive(pid));
    server.terminate();
    server.restart();
    assert_eq!(server.get("key"), Some(b"value".to_vec()));
}

#[test]
fn paused_server_is_silent_and_answers_once_resumed() {
    let server = Server::start();
    let mut client = tcp(&server);
    server.pause();
    client.write_all(b"PING\r\n").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(reply(&mut client).unwrap_err().kind(), ErrorKind::WouldBlock);

    server.resume();
    client.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(reply(&mut client).unwrap(), "+PONG\r\n");
}

#[test]
fn dropping_ends_even_a_paused_server() {
    let server = Server::builder().unix_socket().start();
    let folder =
        Path::new(server.unix_url().strip_prefix("unix://").unwrap()).parent().unwrap().to_owned();
    let pid = server.pid();
    server.pause();
    drop(server);
    assert!(!is_alive(pid));
    assert!(!folder.exists());
}

#[test]
fn server_outlives_the_thread_that_started_it() {
    let (server, thread) = thread::spawn(|| {
        let thread = fs::read_link("/proc/thread-self").unwrap();
        (Server::start(), Path::new("/proc").join(thread))
    })
    .join()
    .unwrap();
    // `join` returns a moment before the kernel has sent any parent-death signals.
    eventually("the thread is gone", SOON, || !thread.exists());
    assert!(server.keys().is_empty());
}

#[test]
fn missing_binary_is_explained() {
    for missing in ["no-such-redis-server", "/no/such/folder/redis-server"] {
        let message = panic_message(move || drop(Server::builder().binary(missing).start()));
        for part in
            [missing, "apt-get install redis-server", "QUORATE_REDIS_SERVER", "cargo xtask ci"]
        {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
}

#[test]
fn missing_valkey_server_is_explained() {
    let missing = "no-such-valkey-server";
    let message = panic_message(move || {
        drop(Server::builder().flavour(Flavour::Valkey).binary(missing).start());
    });
    for part in [missing, "cargo xtask test", "QUORATE_VALKEY_SERVER"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}

#[test]
fn each_flavour_starts_its_own_server() {
    for flavour in Flavour::ALL {
        let server = Server::builder().flavour(flavour).append_only().unix_socket().start();
        let info: String =
            redis::cmd("INFO").arg("server").query(&mut server.connection()).unwrap();
        let is_valkey = info.contains("server_name:valkey");
        assert_eq!(is_valkey, flavour == Flavour::Valkey, "{info}");
        set(&server, "a", "1");
        server.restart();
        assert_eq!(server.get("a"), Some(b"1".to_vec()));
    }
}

#[test]
fn server_that_ends_at_its_start_shows_its_log() {
    let message =
        panic_message(|| drop(Server::builder().config("no-such-directive", "1").start()));
    assert!(message.contains("ended at its start"), "{message}");
    assert!(message.contains("no-such-directive"), "{message}");
}

#[test]
fn server_can_be_used_inside_an_async_test() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let server = Server::start();
        eventually("the server answers", SOON, || server.keys().is_empty());
        server.restart();
    });
}

#[test]
fn servers_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Server>();
}

fn set(server: &Server, key: &str, value: &str) {
    redis::cmd("SET").arg(key).arg(value).exec(&mut server.connection()).expect("SET works");
}

fn config(server: &Server, key: &str) -> String {
    let (_, value): (String, String) = redis::cmd("CONFIG")
        .arg("GET")
        .arg(key)
        .query(&mut server.connection())
        .expect("CONFIG GET works");
    value
}

fn tcp(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("the server accepts");
    stream.set_read_timeout(Some(SOON)).expect("a timeout can be set");
    stream
}

fn reply(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut buffer = [0; 256];
    let count = stream.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn panic_message(action: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(action).expect_err("this was to panic");
    panic.downcast_ref::<String>().expect("a message").clone()
}

const SOON: Duration = Duration::from_secs(5);

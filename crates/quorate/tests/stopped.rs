//! A process is stopped while it holds a lock, and continues when another client holds the lock.

use std::{io, process::ExitCode, time::Duration};

use quorate::{Client, blocking};
use quorate_testkit::{
    Server, admit, eventually,
    processes::{self, Child, PATIENCE, command, print_line},
};

fn main() -> ExitCode {
    let child = |_: &str, urls: &[&str]| {
        hold(urls);
        Ok(())
    };
    processes::run("stopped", child, |_| {
        let servers = Server::start_many(3);
        for nodes in [1, 3] {
            run_case(&servers[..nodes]);
            print_line(&format!("a stopped holder learns that its lock is lost, nodes: {nodes}"));
        }
    })
}

fn run_case(servers: &[Server]) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    admit(servers, Client::builder().nodes(&urls));
    let mut holder = Child::start(command("holder").args(&urls));
    assert_eq!(holder.next_line(), "held");
    // A majority is enough to hold it: a node that was not attached then never gets the key.
    let has_key = |server: &&Server| server.get(LOCK).is_some();
    let watched = servers.iter().find(has_key).expect("a majority has the key");
    let value = watched.get(LOCK);
    let end = watched.time_us() + 2 * TTL.as_micros() as u64;
    eventually("it holds the lock for longer than a ttl", PATIENCE, || {
        assert_eq!(watched.get(LOCK), value);
        watched.time_us() > end
    });

    holder.stop();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // It acquires the lock only when the key has expired on a majority of the nodes.
    let taken = runtime.block_on(async {
        let settings = Client::builder().nodes(&urls).vote_timeout(PATIENCE);
        let client = settings.connect().await.expect("the nodes are there");
        client.mutex(LOCK).ttl(LONG).no_renew().lock_timeout(PATIENCE).await.expect("it is free")
    });
    eventually("every node has the new holder's key", PATIENCE, || {
        servers.iter().all(|server| server.get(LOCK).is_some_and(|now| Some(now) != value))
    });
    let before: Vec<_> = servers.iter().map(kept).collect();

    // The holder reads this line first.
    holder.send_line("check");
    holder.resume();
    assert_eq!(holder.next_line(), "check: lost, the lease expired");
    assert_eq!(holder.next_line(), "lost: the lease expired");
    assert_eq!(holder.next_line(), "extend: lost");
    assert_eq!(holder.next_line(), "release: lost");
    holder.send_line("end");
    holder.end();
    for (server, (value, end)) in servers.iter().zip(before) {
        let (value_now, end_now) = kept(server);
        assert_eq!(value_now, value, "the first holder has left it alone");
        // It is read in two steps. An extension moves the end by many seconds.
        assert!(end_now.abs_diff(end) < 5_000, "{end_now} instead of {end}");
    }
    taken.check().expect("it is still held");
    runtime.block_on(taken.release()).expect("it was held until now");
}

/// What the first holder does.
fn hold(urls: &[&str]) {
    let client = blocking::Client::connect(urls).expect("the nodes are there");
    let guard = client.mutex(LOCK).ttl(TTL).lock().expect("the lock is free");
    print_line("held");
    // It is stopped and continued while it reads. Right after that it checks the guard.
    assert_eq!(read_line(), "check");
    match guard.check() {
        Ok(()) => print_line("check: held"),
        Err(lost) => print_line(&format!("check: lost, {}", lost.reason)),
    }
    print_line(&format!("lost: {}", guard.wait_until_lost().reason));
    print_line(if guard.extend(TTL).is_ok() { "extend: held" } else { "extend: lost" });
    print_line(if guard.release().is_ok() { "release: held" } else { "release: lost" });
    assert_eq!(read_line(), "end");
    let _ = client.shutdown(PATIENCE);
}

/// The value of the key, and when it expires, in milliseconds on the server's clock.
fn kept(server: &Server) -> (Vec<u8>, i64) {
    let value = server.get(LOCK).expect("the lock is held");
    let now = i64::try_from(server.time_us() / 1_000).expect("it is not that late");
    (value, now + server.pttl(LOCK))
}

fn read_line() -> String {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("the test is there");
    line.trim_end().to_owned()
}

const LOCK: &str = "orders:42";
const TTL: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(60);

//! The thread that starts every server process.
//!
//! Responsible for tying the life of the servers to the life of the test process. Not for what is
//! started.
//!
//! A test process that is killed runs no `Drop`, so the kernel has to end its servers: each is
//! started with a parent-death signal. That signal fires when the *thread* that started the child
//! ends, not the process, and a test's thread may end long before the server is to. So one thread
//! starts them all and lives as long as the process.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Starts `command` from the long-lived thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(start_thread);
    let (reply, answer) = mpsc::channel();
    spawner.send(Request { command, reply }).expect("the spawner thread never ends");
    answer.recv().expect("the spawner thread answers every request")
}

/// What to put before a command line so that the kernel kills the process when the spawner thread
/// ends. Empty where `setpriv` is missing or too old: then only a killed test process leaks.
pub(super) fn parent_death_prefix() -> &'static [OsString] {
    static PREFIX: OnceLock<Vec<OsString>> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = ["setpriv", "--pdeathsig", "KILL", "--"];
        let works = Command::new(prefix[0])
            .args(&prefix[1..])
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if works { prefix.map(OsString::from).to_vec() } else { Vec::new() }
    })
}

struct Request {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

fn start_thread() -> Sender<Request> {
    let (sender, requests) = mpsc::channel();
    thread::Builder::new()
        .name("testkit-spawner".to_owned())
        .spawn(move || serve(&requests))
        .expect("a thread for starting servers");
    sender
}

fn serve(requests: &Receiver<Request>) {
    for Request { mut command, reply } in requests {
        // The caller waits for the answer, so it always arrives.
        let _ = reply.send(command.spawn());
    }
}

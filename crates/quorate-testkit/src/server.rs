//! Real server processes, one per [`Server`].
//!
//! Responsible for the life of a server from its start to its end, whatever the test does to it in
//! between. What a test asks the server about its data is in `server/inspect.rs`, the settings are
//! in `server/builder.rs`.

mod builder;
mod clock;
mod folder;
mod inspect;
mod launch;
mod process;
mod spawner;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::builder::{Flavour, ServerBuilder};
pub use self::clock::{Clock, ProcessClock};
use self::folder::Folder;
pub use self::inspect::Contents;
use self::launch::{LaunchFailure, launch};
use self::process::Process;
use crate::eventually;
use crate::ports::PortLease;

/// A `redis-server` or `valkey-server` process with a port and a temporary folder of its own.
///
/// Dropping it kills the process and removes the folder. If the test process is killed instead,
/// the kernel ends the server with it (where `setpriv` of util-linux is installed).
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the process has to end before its folder is removed and its port is
    // leased to another server.
    process: Mutex<Option<Process>>,
    clock: Option<Clock>,
    folder: Folder,
    port: PortLease,
    settings: ServerBuilder,
}

impl Server {
    /// Starts a server that persists nothing and asks for no password.
    ///
    /// # Panics
    ///
    /// As [`ServerBuilder::start`].
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts `count` servers side by side.
    ///
    /// # Panics
    ///
    /// As [`ServerBuilder::start`].
    #[must_use]
    pub fn start_many(count: usize) -> Vec<Self> {
        Self::builder().start_many(count)
    }

    /// For a server with other settings than [`start`](Self::start) uses.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The port it listens on, the same after every restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// `redis://127.0.0.1:PORT`, with the password if the server asks for one.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.settings, self.port())
    }

    /// `redis://USER:PASSWORD@127.0.0.1:PORT/DB`.
    #[must_use]
    pub fn url_with(&self, user: &str, password: &str, db: u32) -> String {
        let (user, password) = (percent_encoded(user), percent_encoded(password));
        format!("redis://{user}:{password}@{}/{db}", self.address())
    }

    /// `unix:///PATH/OF/THE/SOCKET`, without the password even if the server asks for one.
    ///
    /// # Panics
    ///
    /// If the server was started without [`ServerBuilder::unix_socket`].
    #[must_use]
    pub fn unix_url(&self) -> String {
        assert!(self.settings.unix_socket, "this server was started without `.unix_socket()`");
        format!("unix://{}", self.folder.socket().display())
    }

    /// The wall clock of this server.
    ///
    /// # Panics
    ///
    /// If the server was started without [`ServerBuilder::own_clock`].
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("this server was started with `.own_clock()`")
    }

    /// The process id of the running server.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running(Process::pid)
    }

    /// Ends the server at once, like a crash: SIGKILL, and gone when this returns. Does nothing if
    /// it is not running.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Ends the server in an orderly way: SIGTERM, and gone when this returns. Does nothing if it
    /// is not running.
    ///
    /// # Panics
    ///
    /// If the server does not end.
    pub fn terminate(&self) {
        if let Some(process) = self.process().take() {
            process.terminate();
        }
    }

    /// Freezes the server; it stands still when this returns. The kernel still accepts connections
    /// and data in its name.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// Lets a paused server run again. It then handles what has come in meanwhile.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// Starts the server again on the same port and with whatever it has persisted; if it is still
    /// running it is killed first. Returns once it answers.
    ///
    /// # Panics
    ///
    /// As [`ServerBuilder::start`], or if another process has taken the port meanwhile.
    pub fn restart(&self) {
        self.kill();
        self.start_again();
    }

    /// As [`restart`](Self::restart), but on an empty disk.
    ///
    /// # Panics
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_empty(&self) {
        self.kill();
        self.folder.empty_data();
        self.start_again();
    }

    /// As [`restart`](Self::restart), but with a copy of what another server has persisted, in
    /// place of what this one has.
    ///
    /// # Panics
    ///
    /// As [`restart`](Self::restart), or if the files cannot be copied.
    pub fn restart_as_copy_of(&self, other: &Self) {
        self.kill();
        self.folder.copy_data(&other.folder);
        self.start_again();
    }

    fn start_with(settings: ServerBuilder) -> Self {
        Self::start_on(settings, PortLease::any_free)
    }

    /// Only a port that another process took between choosing and listening is worth another try.
    fn start_on(settings: ServerBuilder, mut choose_port: impl FnMut() -> PortLease) -> Self {
        let folder = Folder::create();
        let clock = settings.own_clock.then(|| Clock::create(&folder.clock()));
        for _ in 0..PORTS_TO_TRY {
            let port = choose_port();
            match launch(&settings, &folder, port.number(), &url(&settings, port.number())) {
                Ok(process) => {
                    let process = Mutex::new(Some(process));
                    let server = Self { process, clock, folder, port, settings };
                    server.check_clock();
                    return server;
                }
                Err(LaunchFailure::PortTaken) => {}
                Err(LaunchFailure::Failed(message)) => panic!("{message}"),
            }
        }
        panic!("{PORTS_TO_TRY} free ports in a row were taken before the server could use them");
    }

    /// A program that is linked statically does not heed what is to be loaded into it.
    fn check_clock(&self) {
        if let Some(clock) = &self.clock {
            let wait = || {
                eventually("the server heeds its own clock", CLOCK_SEEN_WITHIN, || {
                    self.time_us().abs_diff(clock.time_us()) < 60_000_000
                });
            };
            clock.forward(A_DAY);
            wait();
            clock.back(A_DAY);
            wait();
        }
    }

    fn start_again(&self) {
        match launch(&self.settings, &self.folder, self.port(), &self.url()) {
            Ok(process) => *self.process() = Some(process),
            Err(LaunchFailure::PortTaken) => {
                panic!("port {} was taken while the server was down", self.port())
            }
            Err(LaunchFailure::Failed(message)) => panic!("{message}"),
        }
    }

    fn running<T>(&self, action: impl FnOnce(&Process) -> T) -> T {
        action(self.process().as_ref().expect("the server is running"))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A panic while the lock was held was a test failing; the process is as good as before.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn url(settings: &ServerBuilder, port: u16) -> String {
    match &settings.password {
        Some(password) => format!("redis://:{}@127.0.0.1:{port}", percent_encoded(password)),
        None => format!("redis://127.0.0.1:{port}"),
    }
}

fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

const PORTS_TO_TRY: usize = 10;
const CLOCK_SEEN_WITHIN: Duration = Duration::from_secs(5);
const A_DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_succeeds_although_a_port_is_taken() {
        let other = Server::start();
        let mut ports = vec![PortLease::any_free(), PortLease::of_another(other.port())];
        let server =
            Server::start_on(Server::builder(), || ports.pop().expect("the second port is free"));
        assert_ne!(server.port(), other.port());
        assert!(ports.is_empty());
    }

    #[test]
    #[should_panic(expected = "10 free ports in a row were taken")]
    fn but_the_number_of_tries_is_bounded() {
        let other = Server::start();
        drop(Server::start_on(Server::builder(), || PortLease::of_another(other.port())));
    }

    #[test]
    fn taken_port_is_recognized_even_if_its_owner_answers_with_an_error() {
        let other = Server::builder().password("secret").start();
        let launched = launch(&Server::builder(), &Folder::create(), other.port(), &{
            url(&Server::builder(), other.port())
        });
        assert!(matches!(launched, Err(LaunchFailure::PortTaken)), "{launched:?}");
    }

    #[test]
    fn passwords_are_encoded_in_urls() {
        let settings = Server::builder().password("a:b@c/d%");
        assert_eq!(url(&settings, 7), "redis://:a%3Ab%40c%2Fd%25@127.0.0.1:7");
    }
}

//! Runs the binary in an isolated environment: with or without servers, in its own folder, and
//! without the environment variables of the caller.

mod leftovers;
mod running;
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use quorate_testkit::Server;
use tempfile::TempDir;

use self::leftovers::is_within;
pub(crate) use self::{leftovers::Mark, running::Running};

/// Servers for the locks, and a folder for files.
pub(crate) struct Fixture {
    pub(crate) servers: Vec<Server>,
    folder: TempDir,
}

impl Fixture {
    /// With one server.
    pub(crate) fn one() -> Self {
        Self::nodes(1)
    }

    /// With this many servers, which vote.
    pub(crate) fn nodes(count: usize) -> Self {
        let fixture = Self { servers: Server::start_many(count), folder: folder() };
        if count >= 3 {
            fixture.exec(["nodes", "admit"]).assert_code(0);
        }
        fixture
    }

    /// With no server.
    pub(crate) fn without_servers() -> Self {
        Self::with(Vec::new(), "")
    }

    /// With these servers, and a file with these settings.
    pub(crate) fn with(servers: Vec<Server>, settings: &str) -> Self {
        let fixture = Self { servers, folder: folder() };
        if !settings.is_empty() {
            fs::create_dir_all(fixture.path(".config/quorate")).expect("the folder can be created");
            fixture.write(".config/quorate/config.toml", settings);
        }
        fixture
    }

    /// With local locks, with one server, and with three.
    pub(crate) fn of_each_kind() -> [Self; 3] {
        [Self::without_servers(), Self::one(), Self::nodes(3)]
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The text of a file in the folder; empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the file can be written");
    }

    /// Waits until the file contains a whole line, and returns its text.
    #[track_caller]
    pub(crate) fn await_file(&self, name: &str) -> String {
        self.await_that(&format!("{name} is written"), || self.read(name).ends_with('\n'));
        self.read(name)
    }

    /// Waits until the condition holds. After a timeout, the test fails and lists the processes
    /// that run.
    #[track_caller]
    pub(crate) fn await_that(&self, what: &str, condition: impl FnMut() -> bool) {
        self.await_that_or(|| what.to_owned(), condition);
    }

    /// The same, with a description that is only computed on failure.
    #[track_caller]
    pub(crate) fn await_that_or(
        &self,
        what: impl FnOnce() -> String,
        condition: impl FnMut() -> bool,
    ) {
        if !is_within(PATIENCE, condition) {
            panic!("not within {PATIENCE:?}: {}\n{}", what(), self.mark().listing());
        }
    }

    /// The binary with these arguments.
    pub(crate) fn quorate<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("env");
        self.prepare(&mut command);
        command.args([DEFAULT_SIGNALS, env!("CARGO_BIN_EXE_quorate")]);
        command.args(args);
        command
    }

    /// Runs the binary with these arguments to its end.
    #[track_caller]
    pub(crate) fn exec<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        Running::start(&mut self.quorate(args)).close()
    }

    /// Waits this long until all processes of this fixture have ended, then kills the rest and
    /// lists them.
    fn sweep(&self, bound: Duration) -> Result<(), String> {
        let mark = self.mark();
        if is_within(bound, || mark.processes().is_empty()) {
            return Ok(());
        }
        let listing = mark.listing().to_string();
        Err(if mark.kill_all() { listing } else { format!("{listing}\nthey cannot be killed") })
    }

    /// The mark in the environment of all processes of this fixture.
    pub(crate) fn mark(&self) -> Mark {
        Mark::new(self.folder().as_os_str())
    }

    /// Gives a command the environment of this fixture, and nothing else.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder()).env("TERM", "xterm").current_dir(self.folder());
        command.env("QUORATE_DIR", self.path("locks"));
        self.mark().put_on(command);
        if !self.servers.is_empty() {
            let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
            command.env("QUORATE_NODES", urls.join(","));
        }
    }

    /// Runs `quorate run` with these arguments to its end.
    #[track_caller]
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        self.start(args).end()
    }

    /// Runs the binary with these arguments to its end, and again if too few nodes answered:
    /// without a wait, three nodes have only 50 ms to answer, which can be too short on a busy
    /// machine.
    #[track_caller]
    pub(crate) fn exec_until_answered<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        let args: Vec<&str> = args.into_iter().collect();
        self.until_answered(&args, || self.exec(args.iter().copied()))
    }

    /// The same with another way to run it.
    #[track_caller]
    pub(crate) fn until_answered(&self, args: &[&str], exec: impl Fn() -> Ended) -> Ended {
        let mut ended = exec();
        self.await_that(&format!("the nodes answer {args:?}"), || {
            let is_answered = ended.0.status.code() != Some(69);
            if !is_answered {
                ended = exec();
            }
            is_answered
        });
        ended
    }

    /// The same with `quorate run`.
    #[track_caller]
    pub(crate) fn run_until_answered<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        self.exec_until_answered(["run"].into_iter().chain(args))
    }

    /// The user that runs the tests.
    pub(crate) fn user(&self) -> String {
        let mut command = Command::new("id");
        self.prepare(command.arg("-un"));
        Running::start(&mut command).close().assert_code(0).out().trim_end().to_owned()
    }

    /// Starts `quorate run` with these arguments.
    pub(crate) fn start<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Running {
        Running::start(&mut self.quorate(["run"].into_iter().chain(args)))
    }

    /// Starts a holder of the lock, and waits until it holds the lock. It ends when its standard
    /// input is closed.
    #[track_caller]
    pub(crate) fn hold(&self, name: &str) -> Running {
        self.hold_with([name], &format!("holder.{name}"))
    }

    /// The same with these arguments. The holder writes the names of its locks to this file.
    #[track_caller]
    pub(crate) fn hold_with<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        file: &str,
    ) -> Running {
        let script = format!(r#"echo "$QUORATE_LOCK" > "{file}"; cat > /dev/null"#);
        let mut args: Vec<&str> = args.into_iter().collect();
        args.extend(["--", "sh", "-c", &script]);
        let running = self.start(args);
        self.await_file(file);
        running
    }

    /// Waits until the lock has this many waiters.
    #[track_caller]
    pub(crate) fn await_waiting(&self, name: &str, count: u64) {
        let waiting = || -> Option<u64> {
            let ended = self.exec(["show", name, "-o", "json"]).assert_code(0);
            let json: serde_json::Value = serde_json::from_str(ended.out()).expect("JSON");
            json["waiting_total"].as_u64()
        };
        self.await_that(&format!("{count} wait for {name}"), || waiting() == Some(count));
    }
}

impl Drop for Fixture {
    /// No process outlives its test. A test that passes has ended its processes itself.
    fn drop(&mut self) {
        let has_failed = thread::panicking();
        let swept = self.sweep(if has_failed { Duration::ZERO } else { LINGER });
        if let Err(listing) = swept
            && !has_failed
        {
            panic!("processes of the test are still running: {listing}");
        }
    }
}

/// The result of a process.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) Output);

impl Ended {
    /// The exit code.
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap_or_else(|| panic!("it was killed: {self:?}"))
    }

    pub(crate) fn out(&self) -> &str {
        str::from_utf8(&self.0.stdout).expect("text")
    }

    pub(crate) fn err(&self) -> &str {
        str::from_utf8(&self.0.stderr).expect("text")
    }

    #[track_caller]
    pub(crate) fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.0.status.code(), Some(code), "{self:?}");
        self
    }

    /// Standard error contains this text.
    #[track_caller]
    pub(crate) fn assert_stderr(self, text: &str) -> Self {
        assert!(self.err().contains(text), "{text:?} is missing in {:?}", self.err());
        self
    }
}

/// Whether a process exists and has not ended.
pub(crate) fn is_alive(pid: &str) -> bool {
    // The name of the process may not be UTF-8.
    let stat = fs::read(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    String::from_utf8_lossy(&stat)
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder can be made")
}

/// How long the last processes of a test may take to end.
const LINGER: Duration = Duration::from_secs(10);

/// How long a condition may take to become true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// For `env`: signals that are ignored here, as under `nohup` or in the background of a shell,
/// would be ignored in the tested process too.
pub(crate) const DEFAULT_SIGNALS: &str = "--default-signal=HUP,INT,QUIT,XFSZ";

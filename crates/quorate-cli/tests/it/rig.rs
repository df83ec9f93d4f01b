//! Runs the binary in a place of its own: with servers or without, in a folder of its own, and
//! with nothing of the caller's environment.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use quorate_testkit::{Server, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Where locks are, and a folder for files.
pub(crate) struct Rig {
    pub(crate) servers: Vec<Server>,
    folder: TempDir,
}

impl Rig {
    /// With one server.
    pub(crate) fn one() -> Self {
        Self::nodes(1)
    }

    /// With so many servers, which vote.
    pub(crate) fn nodes(count: usize) -> Self {
        let rig = Self { servers: Server::start_many(count), folder: folder() };
        if count >= 3 {
            let admitted = rig.quorate(["nodes", "admit"]).output().expect("it runs");
            assert!(admitted.status.success(), "{admitted:?}");
        }
        rig
    }

    /// With no server.
    pub(crate) fn without_servers() -> Self {
        Self { servers: Vec::new(), folder: folder() }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What stands in a file of the folder, if there is one.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it is written");
    }

    /// Waits until there is a file with something in it, and returns that.
    pub(crate) fn await_file(&self, name: &str) -> String {
        eventually(&format!("{name} is written"), PATIENCE, || self.read(name).ends_with('\n'));
        self.read(name)
    }

    /// The binary with these arguments.
    pub(crate) fn quorate<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Gives a command this place, and nothing else.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder()).env("TERM", "xterm").current_dir(self.folder());
        command.env("QUORATE_DIR", self.path("locks"));
        if !self.servers.is_empty() {
            let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
            command.env("QUORATE_NODES", urls.join(","));
        }
    }

    /// Runs `quorate run` with these arguments to its end.
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        self.start(args).end()
    }

    /// Starts `quorate run` with these arguments.
    pub(crate) fn start<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Running {
        Running::start(&mut self.quorate(["run"].into_iter().chain(args)))
    }

    /// Starts a holder of the lock, and waits until it is one. It ends with its standard input.
    pub(crate) fn hold(&self, name: &str) -> Running {
        let script = r#"echo $$ > "holder.$QUORATE_LOCK"; cat > /dev/null"#;
        let running = self.start([name, "--", "sh", "-c", script]);
        self.await_file(&format!("holder.{name}"));
        running
    }
}

/// A process that was started here. It is killed with its test.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("it is started")))
    }

    pub(crate) fn pid(&self) -> Pid {
        let id = self.0.as_ref().expect("it runs").id();
        Pid::from_raw(id.try_into().expect("a pid")).expect("a pid")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// Waits for its end, without closing its standard input.
    pub(crate) fn end(mut self) -> Ended {
        let mut child = self.0.take().expect("it runs");
        let input = child.stdin.take();
        let ended = Ended(child.wait_with_output().expect("it ends"));
        drop(input);
        ended
    }

    /// Closes its standard input, and waits for its end.
    pub(crate) fn close(mut self) -> Ended {
        let child = self.0.take().expect("it runs");
        Ended(child.wait_with_output().expect("it ends"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().expect("it is ours").is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may be gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) Output);

impl Ended {
    /// Its exit code.
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

    /// Has this text on its standard error.
    #[track_caller]
    pub(crate) fn assert_says(self, text: &str) -> Self {
        assert!(self.err().contains(text), "{text:?} is missing in {:?}", self.err());
        self
    }
}

/// Whether a process is there and not dead.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder can be made")
}

/// How long anything may take that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

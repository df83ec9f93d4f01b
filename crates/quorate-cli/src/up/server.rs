//! One server of `up`: its files, how it is started, and how it is asked to stop.

use std::{
    env,
    fs::{self, DirBuilder, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{self, Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::connection::Connection;
use crate::exit::{Failure, IO, REFUSED, UNAVAILABLE};

/// A server in a folder of its own.
#[derive(Debug)]
pub(super) struct Server {
    folder: PathBuf,
    port: u16,
}

/// What is on the port of a server.
pub(super) enum Seen {
    /// This server, at the other end of this connection.
    Running(Connection),
    /// Nothing.
    Stopped,
    /// A server with another configuration file, or another program.
    Other,
    /// Something that does not answer.
    Silent(String),
}

/// Why a server does not run.
pub(super) enum LaunchFailure {
    /// Another program listens on its address.
    PortTaken(SocketAddr),
    Failed(Failure),
}

impl From<Failure> for LaunchFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<LaunchFailure> for Failure {
    fn from(failure: LaunchFailure) -> Self {
        match failure {
            LaunchFailure::Failed(failure) => failure,
            LaunchFailure::PortTaken(address) => {
                let text = format!(
                    "another program listens on {address}, the address of a node: end it, and try \
                     again"
                );
                Self::new(REFUSED, text)
            }
        }
    }
}

impl Server {
    pub(super) const fn new(folder: PathBuf, port: u16) -> Self {
        Self { folder, port }
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join(PID)
    }

    fn config(&self) -> PathBuf {
        self.folder.join(CONFIG)
    }

    fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Starts it in the background, and waits until it answers.
    pub(super) fn start(&self, program: &Path) -> Result<(), LaunchFailure> {
        let failed = |text: String| LaunchFailure::Failed(Failure::new(UNAVAILABLE, text));
        let (name, folder) = (program.display(), self.folder.display());
        let written = |error: io::Error| {
            LaunchFailure::Failed(Failure::new(IO, format!("cannot write to {folder}: {error}")))
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.and_then(|()| fs::write(self.config(), self.config_text())).map_err(written)?;
        // A pid from an earlier start would look like the end of this one.
        match fs::remove_file(self.pid_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(written(error)),
            Ok(()) | Err(_) => {}
        }
        let log = File::options().create(true).append(true).open(self.log()).map_err(written)?;
        let log_start = log.metadata().map_err(written)?.len();
        let mut command = Command::new(program);
        command.arg(self.config()).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(written)?).stderr(log);
        let mut child =
            command.spawn().map_err(|error| failed(format!("cannot start {name}: {error}")))?;
        self.await_answer(&mut child).map_err(|why| {
            let log = self.log_since(log_start);
            if log.contains("Address already in use") {
                return LaunchFailure::PortTaken(self.address());
            }
            let log_file = self.log();
            failed(format!("{name} {why}; the end of {}:\n{}", log_file.display(), tail(&log)))
        })
    }

    /// Fails with the words that follow the name of the program.
    fn await_answer(&self, child: &mut Child) -> Result<(), String> {
        let deadline = Instant::now() + ANSWERS_WITHIN;
        loop {
            // The process that was started ends when the server runs in the background.
            match child.try_wait() {
                Ok(Some(status)) if !status.success() => return Err(format!("ended ({status})")),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            if matches!(self.inspect(), Seen::Running(_)) && self.is_ready() {
                return Ok(());
            }
            if self.has_ended() {
                return Err("ended".into());
            }
            if Instant::now() >= deadline {
                // A program that stays in the foreground is still this child.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("does not answer within {} s", ANSWERS_WITHIN.as_secs()));
            }
            thread::park_timeout(ASK_AGAIN);
        }
    }

    /// Whether the process that wrote the pid file is gone.
    fn has_ended(&self) -> bool {
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.trim().parse::<u32>();
        pid.is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Asks what is on its port for the configuration file that it runs with. A server that is
    /// about to end closes its connections, so one that does that is asked again.
    pub(super) fn inspect(&self) -> Seen {
        let deadline = Instant::now() + CLOSES_WITHIN;
        loop {
            match self.ask_for_config() {
                Some(seen) => return seen,
                None if Instant::now() < deadline => thread::park_timeout(ASK_AGAIN),
                None => return Seen::Silent("it closes the connection".into()),
            }
        }
    }

    /// `None` if it closes the connection instead of an answer.
    fn ask_for_config(&self) -> Option<Seen> {
        let is_closed = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
        };
        let mut connection = match Connection::open(self.address()) {
            Ok(connection) => connection,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Some(Seen::Stopped);
            }
            Err(error) if is_closed(&error) => return None,
            Err(error) => return Some(Seen::Silent(error.to_string())),
        };
        let config = self.config();
        let expected = [b"config_file:", config.as_os_str().as_bytes()].concat();
        match connection.ask("INFO server") {
            Ok(answer) if answer.is_empty() => None,
            Ok(answer) => {
                let mut lines = answer.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
                match lines.any(|line| line == expected) {
                    true => Some(Seen::Running(connection)),
                    false => Some(Seen::Other),
                }
            }
            Err(error) if is_closed(&error) => None,
            Err(error) => Some(Seen::Silent(error.to_string())),
        }
    }

    /// Whether it has read its data.
    fn is_ready(&self) -> bool {
        let answer = Connection::open(self.address()).and_then(|mut it| it.ask("PING"));
        answer.is_ok_and(|answer| answer.starts_with(b"+PONG"))
    }

    /// Asks the server at the other end of the connection to end, and waits until it has ended.
    pub(super) fn stop(&self, mut connection: Connection) -> Result<(), Failure> {
        let address = self.address();
        let failed = |why: &str| {
            let text = format!("the server on {address} does not stop: {why}");
            Failure::new(UNAVAILABLE, text)
        };
        // The connection ends with the process. Before that, only a refusal is answered.
        let waits = connection.wait_for(ENDS_WITHIN);
        let answer = waits.and_then(|()| connection.ask("SHUTDOWN"));
        match answer {
            Ok(refusal) if !refusal.is_empty() => {
                let log = self.log();
                let text = String::from_utf8_lossy(&refusal);
                return Err(failed(&format!("{} See {}", text.trim(), log.display())));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(failed(&format!("it still runs after {} s", ENDS_WITHIN.as_secs())));
            }
            Ok(_) | Err(_) => {}
        }
        let deadline = Instant::now() + ENDS_WITHIN;
        while !matches!(self.inspect(), Seen::Stopped) {
            if Instant::now() >= deadline {
                return Err(failed("its port is still in use"));
            }
            thread::park_timeout(ASK_AGAIN);
        }
        Ok(())
    }

    /// Something listens on its port and does not answer as a server.
    pub(super) fn silent(&self, why: &str) -> Failure {
        let (address, pid, folder) = (self.address(), self.pid_file(), self.folder.display());
        let text = format!(
            "what listens on {address} does not answer ({why}): if it is the server of {folder}, \
             its process id is in {}; end it, and try again",
            pid.display()
        );
        Failure::new(UNAVAILABLE, text)
    }

    /// Each write is on disk before it is answered, as one or two nodes and durable nodes need it.
    fn config_text(&self) -> String {
        let path = |name: &str| quoted(self.folder.join(name).as_os_str().as_bytes());
        format!(
            "# Written by `quorate up`, each time that it starts this server.\n\
             bind 127.0.0.1\n\
             port {}\n\
             protected-mode yes\n\
             daemonize yes\n\
             dir {}\n\
             pidfile {}\n\
             logfile {}\n\
             appendonly yes\n\
             appendfsync always\n\
             no-appendfsync-on-rewrite no\n\
             save \"\"\n\
             maxmemory-policy noeviction\n",
            self.port,
            quoted(self.folder.as_os_str().as_bytes()),
            path(PID),
            path(LOG),
        )
    }

    fn log_since(&self, start: u64) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        String::from_utf8_lossy(log.get(start..).unwrap_or_default()).into_owned()
    }
}

/// The chosen program, or one on `PATH`.
pub(super) fn find_program(chosen: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = match chosen {
        Some(path) if path.components().count() > 1 => Some(path.to_owned()),
        Some(name) => on_path(name),
        None => PROGRAMS.iter().find_map(|name| on_path(Path::new(name))),
    };
    let found = found.filter(|path| is_program(path));
    // Its symbolic links stay: some programs act by their name.
    let found = found.and_then(|path| path::absolute(path).ok());
    found.ok_or_else(|| {
        let text = match chosen {
            Some(path) => format!("{} is not a program: use --server PROGRAM", path.display()),
            None => NO_PROGRAM.to_owned(),
        };
        Failure::new(UNAVAILABLE, text)
    })
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

pub(super) fn is_program(path: &Path) -> bool {
    let is_executable = |it: fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(is_executable)
}

/// Whether a server, or `up`, writes a file of this name in its folder.
pub(super) fn is_name_of_file(name: &str) -> bool {
    [CONFIG, PID, LOG, "appendonlydir", "appendonly.aof", "dump.rdb"].contains(&name)
        || name.starts_with("temp-")
}

/// A string as the configuration takes it, whatever it contains.
fn quoted(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|&byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// In this order.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const NO_PROGRAM: &str = "there is no redis-server and no valkey-server in PATH: install one \
    (Debian, Ubuntu: sudo apt-get install redis-server), or use --server PROGRAM";

const CONFIG: &str = "server.conf";
const LOG: &str = "server.log";
const PID: &str = "server.pid";

const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const CLOSES_WITHIN: Duration = Duration::from_secs(2);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(10);
const TAIL_LINES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_cannot_add_lines_to_the_configuration() {
        let server = Server::new("/a b\"\nport 1".into(), 7);
        let text = server.config_text();
        assert_eq!(text.lines().filter(|line| line.starts_with("port ")).count(), 1, "{text}");
        assert!(text.contains("dir \"/a\\x20b\\x22\\x0aport\\x201\"\n"), "{text}");
    }
}

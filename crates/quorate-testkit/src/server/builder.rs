//! How a server is to be started, and the redis.conf that says so.
//!
//! Responsible for the settings a test can choose and for writing them down in redis's own
//! notation. Not for starting anything.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use super::Server;
use super::folder::Folder;

/// The settings of a [`Server`] that is still to be started.
///
/// Without any, the server listens on 127.0.0.1 only, asks for no password and persists nothing.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing starts before `start`"]
pub struct ServerBuilder {
    directives: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) unix_socket: bool,
    append_only: bool,
    pub(super) own_clock: bool,
    pub(super) cpu: Option<usize>,
    pub(super) flavour: Flavour,
    binary: Option<PathBuf>,
}

/// Which server, of those that speak the same language.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Flavour {
    /// What the environment variable `QUORATE_REDIS_SERVER` names, or else `redis-server`.
    #[default]
    Redis,
    /// What the environment variable `QUORATE_VALKEY_SERVER` names, or else `valkey-server`, or
    /// else the one that `cargo xtask test` has fetched.
    Valkey,
}

impl Flavour {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    /// The environment variable that chooses the binary.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Redis => "QUORATE_REDIS_SERVER",
            Self::Valkey => "QUORATE_VALKEY_SERVER",
        }
    }

    /// The name of the binary.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }
}

impl ServerBuilder {
    /// Adds a directive of redis.conf. `value` is written as it would be there, so it may hold
    /// several words and needs quotes where redis.conf does; an empty value becomes `""`.
    ///
    /// These come after the testkit's own directives and in the order given, so they win.
    ///
    /// # Panics
    ///
    /// If `key` or `value` contains a line break.
    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        assert!(!key.contains('\n') && !value.contains('\n'), "a directive is one line: {key}");
        self.directives.push((key, value));
        self
    }

    /// Asks clients for this password (`requirepass`).
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Listens on a Unix socket too; see [`Server::unix_url`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Writes every change to disk before answering (AOF with `appendfsync always`), so that a
    /// restart finds everything that was acknowledged.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Gives the server a wall clock of its own; see [`Server::clock`].
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Pins the server to one processor, counted from 0.
    pub fn cpu(mut self, number: usize) -> Self {
        self.cpu = Some(number);
        self
    }

    /// Starts a server of this flavour instead of Redis.
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// Starts this binary, a path or a name to look up in `PATH`, whatever the flavour. It must
    /// stay the process it was started as: a wrapper script has to `exec`.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Starts the server and returns once it answers.
    ///
    /// # Panics
    ///
    /// If the binary is not installed, or the server ends or stays silent instead of becoming
    /// ready. The message then holds the end of the server's log.
    #[must_use]
    pub fn start(self) -> Server {
        Server::start_with(self)
    }

    /// Starts `count` servers with the same settings side by side.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), if any of them does.
    #[must_use]
    pub fn start_many(self, count: usize) -> Vec<Server> {
        thread::scope(|scope| {
            let starting: Vec<_> =
                (0..count).map(|_| scope.spawn(|| self.clone().start())).collect();
            starting
                .into_iter()
                .map(|server| {
                    server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    /// The binary that was chosen, by the test or by the environment.
    pub(super) fn chosen_binary(&self) -> Option<PathBuf> {
        let from_environment = || env::var_os(self.flavour.variable()).map(PathBuf::from);
        let is_named = |name: &PathBuf| !name.as_os_str().is_empty();
        self.binary.clone().or_else(|| from_environment().filter(is_named))
    }

    /// The redis.conf for a server on `port` in `folder`.
    pub(super) fn config_file(&self, folder: &Folder, port: u16) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            "daemonize no".to_owned(),
            "save \"\"".to_owned(),
            format!("dir {}", quoted_path(&folder.data())),
        ];
        if self.append_only {
            lines.push("appendonly yes".to_owned());
            lines.push("appendfsync always".to_owned());
        } else {
            lines.push("appendonly no".to_owned());
        }
        if self.unix_socket {
            lines.push(format!("unixsocket {}", quoted_path(&folder.socket())));
            lines.push("unixsocketperm 700".to_owned());
        }
        if let Some(password) = &self.password {
            lines.push(format!("requirepass {}", quoted(password.as_bytes())));
        }
        for (key, value) in &self.directives {
            let value = if value.is_empty() { "\"\"" } else { value };
            lines.push(format!("{key} {value}"));
        }
        lines.join("\n") + "\n"
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(path.as_os_str().as_bytes())
}

/// A string as redis.conf takes it whatever it contains.
fn quoted(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|&byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_come_last_and_empty_values_are_quoted() {
        let settings = Server::builder().config("save", "").config("maxmemory", "10mb");
        let file = settings.config_file(&Folder::create(), 7);
        assert!(file.ends_with("\nsave \"\"\nmaxmemory 10mb\n"), "{file}");
    }

    #[test]
    fn password_cannot_break_out_of_its_line() {
        assert_eq!(quoted(b"a\"b\n"), r#""a\x22b\x0a""#);
    }

    #[test]
    #[should_panic(expected = "a directive is one line: save")]
    fn directive_with_a_line_break_is_refused() {
        let _ = Server::builder().config("save", "\nport 1");
    }
}

//! A server's own clock, for tests in which days pass.
//!
//! Responsible for the library that is loaded into the server and for telling it the time. The
//! machine's clock is left alone, and so are all other processes.

use std::env;
use std::fs::{self, File};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// The wall clock of one server; see [`Server::clock`](super::Server::clock).
///
/// It runs and is right until the test sets it. Timers and other measurements of spans of time in
/// the server do not depend on it.
///
/// Redis notices every change at once. Valkey 9 reads the clock once in a millisecond and counts by
/// itself in between: wait until [`Server::time_us`](super::Server::time_us) has changed. While the
/// clock stands still, Valkey's microseconds begin again and again; the millisecond is right.
#[derive(Debug)]
pub struct Clock {
    file: File,
    reading: Mutex<Reading>,
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ahead: i64,
    stopped_at: Option<i64>,
}

impl Clock {
    /// A clock that reads its time from a file at `path`.
    pub(super) fn create(path: &Path) -> Self {
        let file = File::create_new(path).expect("a file for the server's clock");
        let clock = Self { file, reading: Mutex::new(Reading { ahead: 0, stopped_at: None }) };
        clock.tell(|_| {});
        clock
    }

    /// From now on it stands still, until it is set or runs again: at the beginning of the next
    /// millisecond but one. A server that counts on from what it saw before does not get there.
    pub fn stop(&self) {
        self.tell(|reading| {
            reading.stopped_at = Some((reading.now() / NANOS_OF_MILLI + 2) * NANOS_OF_MILLI);
        });
    }

    /// It runs again, from where it stood.
    pub fn run(&self) {
        self.tell(|reading| {
            *reading = Reading { ahead: reading.now() - true_now(), stopped_at: None };
        });
    }

    /// Sets it forward; it goes on standing still or running.
    pub fn forward(&self, by: Duration) {
        self.step(nanos(by));
    }

    /// Sets it back; it goes on standing still or running.
    pub fn back(&self, by: Duration) {
        self.step(-nanos(by));
    }

    fn step(&self, by: i64) {
        self.tell(|reading| match &mut reading.stopped_at {
            Some(stopped_at) => *stopped_at += by,
            None => reading.ahead += by,
        });
    }

    /// What it shows, in microseconds since 1970.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        u64::try_from(self.reading().now() / 1_000).unwrap_or(0)
    }

    fn tell(&self, change: impl FnOnce(&mut Reading)) {
        let mut reading = self.reading();
        change(&mut reading);
        let Reading { ahead, stopped_at } = *reading;
        // In one call, so that nobody sees one number without the other for long.
        let bytes = [ahead.to_ne_bytes(), stopped_at.unwrap_or(0).to_ne_bytes()].concat();
        self.file.write_all_at(&bytes, 0).expect("telling the server the time");
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wall clock for processes that a test starts itself, such as clients.
///
/// What they measure spans of time with goes on whatever this clock shows.
#[derive(Debug)]
pub struct ProcessClock {
    clock: Clock,
    folder: TempDir,
}

impl ProcessClock {
    /// A clock that is right until it is set.
    ///
    /// # Panics
    ///
    /// If there is no C compiler, or no place for a file.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a clock");
        let library = library().unwrap_or_else(|why| panic!("{why}"));
        fs::write(folder.path().join(LIBRARY), library).expect("a library for the clock");
        Self { clock: Clock::create(&folder.path().join(READING)), folder }
    }

    /// Gives this clock to the process that the command starts, and to all that it starts itself.
    pub fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.folder.path().join(LIBRARY));
        command.env(FILE_VARIABLE, self.folder.path().join(READING));
    }
}

impl Default for ProcessClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for ProcessClock {
    type Target = Clock;

    fn deref(&self) -> &Clock {
        &self.clock
    }
}

impl Reading {
    fn now(&self) -> i64 {
        self.stopped_at.unwrap_or_else(|| true_now() + self.ahead)
    }
}

fn true_now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    nanos(since_1970.expect("it is later than 1970"))
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).expect("less than 292 years")
}

/// The library for the server, compiled once for each test process.
///
/// # Errors
///
/// In words for the person who reads the failed test, if there is no compiler.
pub(super) fn library() -> Result<&'static [u8], String> {
    static LIBRARY: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        compile().map_err(|why| format!("cannot compile the clock of the servers: {why}"))
    });
    library.as_deref().map_err(Clone::clone)
}

fn compile() -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let output = command.output().map_err(|error| {
        let how = "install a C compiler with `apt-get install gcc libc6-dev`, or set CC";
        format!("`{}`: {error}; {how}", compiler.display())
    })?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::read(library).map_err(|error| error.to_string())
}

const LIBRARY: &str = "clock.so";
const READING: &str = "clock";

const NANOS_OF_MILLI: i64 = 1_000_000;

/// The environment variable through which the library learns where the file is.
pub(super) const FILE_VARIABLE: &str = "QUORATE_TESTKIT_CLOCK";
const SOURCE: &str = include_str!("../../c/clock.c");

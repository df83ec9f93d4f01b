//! Records events while they happen.
//!
//! Responsible for reading the clock on the right side of each event, and for lines that are whole
//! even if many processes write them into one file. Not for their meaning.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::line::{Event, Line};
use super::{History, How, Moment};

/// Records what clients do with locks. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct Recorder {
    sink: Arc<Sink>,
}

#[derive(Debug)]
enum Sink {
    Memory(Mutex<String>),
    File(File),
    Stdout,
}

impl Recorder {
    /// Keeps the lines in this process; see [`history`](Self::history).
    #[must_use]
    pub fn in_memory() -> Self {
        Self { sink: Arc::new(Sink::Memory(Mutex::default())) }
    }

    /// Appends to a file, to which other processes may append as well.
    ///
    /// # Panics
    ///
    /// If the file cannot be opened.
    #[must_use]
    pub fn to_file(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let file = File::options().create(true).append(true).open(path);
        let file = file.unwrap_or_else(|error| panic!("opening {}: {error}", path.display()));
        Self { sink: Arc::new(Sink::File(file)) }
    }

    /// Prints the lines, for a parent process that gathers them.
    #[must_use]
    pub fn to_stdout() -> Self {
        Self { sink: Arc::new(Sink::Stdout) }
    }

    /// The client begins to ask for the lock, to hold it alone.
    ///
    /// # Panics
    ///
    /// If a name has a tab or a line break in it.
    #[must_use = "dropping it means that the client gave up"]
    pub fn ask(&self, client: &str, lock: &str) -> Request {
        self.ask_as(client, lock, How::Alone)
    }

    /// The same, to hold it in this way.
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    #[must_use = "dropping it means that the client gave up"]
    pub fn ask_as(&self, client: &str, lock: &str, how: How) -> Request {
        self.begin(client, lock, how, None)
    }

    /// The client begins to ask for this number of locks, to hold all of them or none. Which ones
    /// they are may be open until they are [acquired](Request::acquired_all).
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    #[must_use = "dropping it means that the client gave up"]
    pub fn ask_all(&self, client: &str, name: &str, how: How, size: usize) -> Request {
        self.begin(client, name, how, Some(size))
    }

    fn begin(&self, client: &str, lock: &str, how: How, size: Option<usize>) -> Request {
        assert_one_field(client);
        assert_one_field(lock);
        assert_one_field(&how.text());
        let (client, lock) = (client.to_owned(), lock.to_owned());
        let (note, asked_at) = (Note { recorder: self.clone(), id: new_id() }, Moment::now());
        note.take(asked_at, Event::Asked { client, lock, how, size });
        Request { note, asked_at, is_answered: false }
    }

    /// What was recorded so far.
    ///
    /// # Panics
    ///
    /// If the lines are not kept in this process.
    #[must_use]
    pub fn history(&self) -> History {
        match &*self.sink {
            Sink::Memory(text) => {
                History::parse(&text.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Sink::File(_) | Sink::Stdout => panic!("the lines were written elsewhere"),
        }
    }

    fn write(&self, line: &str) {
        let written = match &*self.sink {
            Sink::Memory(text) => {
                text.lock().unwrap_or_else(PoisonError::into_inner).push_str(line);
                Ok(())
            }
            // One call for one line: the system then adds it to the end as a whole.
            Sink::File(file) => (&*file).write_all(line.as_bytes()),
            Sink::Stdout => io::stdout().lock().write_all(line.as_bytes()),
        };
        written.unwrap_or_else(|error| panic!("recording {line:?}: {error}"));
    }
}

/// A client that waits for a lock. Dropping it means that the client gave up.
#[derive(Debug)]
#[must_use = "dropping it means that the client gave up"]
pub struct Request {
    note: Note,
    asked_at: Moment,
    is_answered: bool,
}

impl Request {
    /// The client has learned that it holds the lock: with this fence, and until this moment by its
    /// own clock. Call it right after the lock was acquired.
    pub fn acquired(self, fence: Option<u64>, valid_until: Option<Moment>) -> Holding {
        self.answer(Moment::now(), Event::Acquired { fence, valid_until })
    }

    /// The same for all locks of a set, each with its fence.
    ///
    /// # Panics
    ///
    /// If a name has a tab or a line break in it.
    pub fn acquired_all<'a>(
        self,
        members: impl IntoIterator<Item = (&'a str, Option<u64>)>,
        valid_until: Option<Moment>,
    ) -> Holding {
        let at = Moment::now();
        let member = |(lock, fence): (&'a str, Option<u64>)| {
            assert_one_field(lock);
            (lock.to_owned(), fence)
        };
        let members = members.into_iter().map(member).collect();
        self.answer(at, Event::AcquiredAll { members, valid_until })
    }

    /// The client has learned that it has held the lock ever since it asked: it held it before in
    /// another way.
    pub fn kept(self, fence: Option<u64>, valid_until: Option<Moment>) -> Holding {
        let since = self.asked_at;
        self.answer(since, Event::Acquired { fence, valid_until })
    }

    fn answer(mut self, at: Moment, event: Event) -> Holding {
        self.note.take(at, event);
        self.is_answered = true;
        Holding { note: self.note.clone() }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_answered {
            self.note.take(Moment::now(), Event::GaveUp);
        }
    }
}

/// A client that holds a lock, until it records the end. Dropping it records nothing: the claim
/// stays.
#[derive(Debug)]
#[must_use = "the claim lasts until its end is recorded"]
pub struct Holding {
    note: Note,
}

impl Holding {
    /// The client's own clock lets it act until this moment from now on.
    pub fn extended(&self, valid_until: Moment) {
        self.note.take(Moment::now(), Event::Extended { valid_until });
    }

    /// The client is about to release the lock. Call it right before: another may hold it earlier
    /// than the call that releases it returns.
    pub fn released(self) {
        self.note.take(Moment::now(), Event::Released);
    }

    /// The client has learned that the lock is lost.
    pub fn lost(self) {
        self.note.take(Moment::now(), Event::Lost);
    }
}

/// Where to record the events of one request.
#[derive(Clone, Debug)]
struct Note {
    recorder: Recorder,
    id: String,
}

impl Note {
    fn take(&self, at: Moment, event: Event) {
        let line = Line { id: self.id.clone(), at, event };
        self.recorder.write(&line.text());
    }
}

fn assert_one_field(text: &str) {
    assert!(!text.contains(['\t', '\n', '\r']), "no field: {text:?}");
}

/// The time is part of it, because a process id can come again.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{number}", process::id(), Moment::now().as_nanos())
}

//! The database: one file that contains a store.
//!
//! A transaction is one batch of commands. This module does not interpret them.

use std::{
    cell::Cell,
    collections::BTreeSet,
    ops::Deref,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Owner},
    fence::Fence,
    moment::NodeTime,
    name::Name,
    queue::Session,
    store::{ClientState, Kept, LastGrant, LockState, SessionRecord},
};
use rusqlite::{
    CachedStatement, Connection, OpenFlags, OptionalExtension, Row, Transaction,
    TransactionBehavior, config::DbConfig, params,
};

use super::{
    fault::{Fault, READ_ONLY},
    shares,
    time::{Boot, Era},
};

/// An open database.
#[derive(Debug)]
pub(super) struct Db {
    path: PathBuf,
    connection: Handle,
    durability: Cell<Option<Durability>>,
    /// How long the log may become before it is copied into the file.
    log_pages_max: Cell<i32>,
}

impl Db {
    /// Opens the file, which must exist, and creates the tables if it is new. The caller holds the
    /// folder's lock.
    pub(super) fn open(path: PathBuf) -> Result<Self, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags);
        let connection = Handle(Some(opened.map_err(|error| Fault::sql(&path, &error))?));
        let (durability, log_pages_max) = (Cell::new(None), Cell::new(LOG_PAGES));
        let db = Self { path, connection, durability, log_pages_max };
        match db.is_read_only() {
            Ok(true) => return Err(Fault::new(&db.path, READ_ONLY)),
            Ok(false) => db.prepare()?,
            Err(error) => return Err(db.fault(&error)),
        }
        Ok(db)
    }

    fn is_read_only(&self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(BUSY_MAX)?;
        self.connection.is_readonly("main")
    }

    /// Checks that the file belongs to Quorate before anything is written to it.
    fn prepare(&self) -> Result<(), Fault> {
        let number = |sql: &str| -> Result<i64, Fault> {
            self.connection.query_row(sql, [], |row| row.get(0)).map_err(|it| self.fault(&it))
        };
        let (application, version) =
            (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
        let is_new =
            (application, version) == (0, 0) && number("SELECT count(*) FROM sqlite_schema")? == 0;
        if !is_new && application != APPLICATION {
            let reason = "it is the database of another application: use another folder";
            return Err(Fault::new(&self.path, reason));
        }
        if !is_new && version != VERSION {
            let reason = format!(
                "it has version {version}, but this program needs version {VERSION}: use the same \
                 version of Quorate in all programs"
            );
            return Err(Fault::new(&self.path, reason));
        }
        let prepared = self.set_up().and_then(|()| if is_new { self.fill() } else { Ok(()) });
        prepared.map_err(|error| self.fault(&error))
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        let no_checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // Otherwise the last connection would wait for the disk when it closes. Readers find
        // everything in the log.
        self.connection.set_db_config(no_checkpoint, true)?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        // Copying the log waits for the disk, so it is done while no request waits.
        self.connection.wal_hook(Some(|_, pages| {
            LOGGED.set(pages);
            Ok(())
        }));
        self.connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(())
    }

    fn fill(&self) -> rusqlite::Result<()> {
        let tx = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        tx.execute_batch(SCHEMA)?;
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", VERSION)?;
        tx.commit()
    }

    /// Begins an exclusive transaction.
    pub(super) fn begin(&self, durability: Durability) -> Result<Tx<'_>, Fault> {
        let begun = self.set_durability(durability).and_then(|()| {
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
        });
        Ok(Tx { tx: begun.map_err(|error| self.fault(&error))?, db: self })
    }

    fn set_durability(&self, durability: Durability) -> rusqlite::Result<()> {
        if self.durability.get() != Some(durability) {
            let level = match durability {
                Durability::Lazy => "NORMAL",
                Durability::Disk => "FULL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.durability.set(Some(durability));
        }
        Ok(())
    }

    /// The length of the log after the last transaction of this connection.
    pub(super) fn log(&self) -> Log {
        let pages = LOGGED.get();
        if pages < LOG_PAGES {
            self.log_pages_max.set(LOG_PAGES);
        }
        match pages {
            LOG_PAGES_FULL.. => Log::Full,
            _ if pages >= self.log_pages_max.get() => Log::Long,
            _ => Log::Short,
        }
    }

    /// Copies the log into the file. While other processes write, a part of it stays.
    pub(super) fn copy_log(&self) {
        // After a failure it is tried again later. If the disk has no space for a longer log, the
        // next transaction fails.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        self.log_pages_max.set(LOGGED.replace(0).saturating_add(LOG_PAGES));
    }

    fn fault(&self, error: &rusqlite::Error) -> Fault {
        Fault::sql(&self.path, error)
    }
}

/// A connection whose files are all closed under the gate, so that no other client sees only some
/// of them closed.
#[derive(Debug)]
struct Handle(Option<Connection>);

impl Deref for Handle {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.as_ref().expect("it is open until it is dropped")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _gate = gate();
        self.0 = None;
    }
}

/// While this is held, no client of this process closes its database.
pub(super) fn gate() -> MutexGuard<'static, ()> {
    static GATE: Mutex<()> = Mutex::new(());
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The length of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Log {
    Short,
    /// It should be copied.
    Long,
    /// It must be copied, even if other clients wait for that.
    Full,
}

thread_local! {
    /// The pages of the log after the last transaction of this thread, which has one database.
    static LOGGED: Cell<i32> = const { Cell::new(0) };
}

/// When a transaction must be on the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Durability {
    /// Later. A power failure may undo the last transactions, the crash of a process undoes none.
    Lazy,
    /// Before it counts as committed.
    Disk,
}

/// A transaction. Without a commit it changes nothing.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    tx: Transaction<'a>,
    db: &'a Db,
}

impl Tx<'_> {
    pub(super) fn commit(self) -> Result<(), Fault> {
        let Self { tx, db } = self;
        tx.commit().map_err(|error| db.fault(&error))
    }

    /// The stored era, if any, and when expired data was last removed.
    pub(super) fn era(&self) -> Result<Option<(Era, NodeTime)>, Fault> {
        let sql = "SELECT boot, clock, base_us, horizon_us, swept_us FROM era";
        let read = |row: &Row<'_>| {
            let boot = Boot { id: row.get(0)?, clock: row.get(1)? };
            let era = Era { boot, base_us: row.get(2)?, horizon_us: unsigned(row.get(3)?) };
            Ok((era, NodeTime::from_micros(unsigned(row.get(4)?))))
        };
        let found = self.prepare(sql)?.query_row([], read).optional();
        found.map_err(|error| self.db.fault(&error))
    }

    pub(super) fn save_era(&self, era: &Era, swept_at: NodeTime) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO era VALUES (0, ?1, ?2, ?3, ?4, ?5)";
        let Era { boot, base_us, horizon_us } = era;
        let (horizon_us, swept_us) = (signed(*horizon_us), signed(swept_at.as_micros()));
        self.execute(sql, params![boot.id, boot.clock, base_us, horizon_us, swept_us])
    }

    /// Removes all grants, waiters and clients. Fences stay.
    pub(super) fn void(&self) -> Result<(), Fault> {
        self.execute("UPDATE locks SET value = NULL, key_ends_ms = NULL, line_ends_ms = NULL", [])?;
        self.execute("DELETE FROM waiting", [])?;
        self.execute("DELETE FROM clients", [])
    }

    /// Removes what has expired at `now`.
    pub(super) fn sweep(&self, now: NodeTime) -> Result<(), Fault> {
        let now_ms = params![signed(now.as_millis())];
        self.execute(
            "DELETE FROM waiting WHERE name IN (SELECT name FROM locks WHERE line_ends_ms < ?1)",
            now_ms,
        )?;
        self.execute(
            "DELETE FROM locks WHERE (value IS NULL OR key_ends_ms < ?1)
             AND coalesce(fence_ends_ms, -1) < ?1 AND coalesce(line_ends_ms, -1) < ?1",
            now_ms,
        )?;
        self.execute(
            "DELETE FROM clients
             WHERE coalesce(session_ends_ms, -1) < ?1 AND coalesce(who_ends_ms, -1) < ?1",
            now_ms,
        )
    }

    pub(super) fn lock(&self, name: &Name) -> Result<LockState, Fault> {
        let sql = "SELECT value, key_ends_ms, fence, fence_since_ms, fence_ends_ms, line_ends_ms
                   FROM locks WHERE name = ?1";
        let read = |row: &Row<'_>| {
            let time = |at| row.get::<_, Option<i64>>(at).map(|time| time.map(unsigned));
            let value: Option<Box<[u8]>> = row.get(0)?;
            let key_end = time(1)?;
            let fence: Option<i64> = row.get(2)?;
            let since_ms = time(3)?.unwrap_or_default();
            let fence_end = time(4)?;
            let key = value.map(shares::from_bytes);
            let key = key.map(|value| Kept { value, ends_at_ms: key_end });
            let last =
                |fence: i64| LastGrant { fence: Fence::new(fence.cast_unsigned()), since_ms };
            let fence = fence.map(|it| Kept { value: last(it), ends_at_ms: fence_end });
            Ok((LockState { key, fence, queue: None }, time(5)?))
        };
        let found = self.prepare(sql)?.query_row([name.as_str()], read).optional();
        let found = found.map_err(|error| self.db.fault(&error))?;
        let (mut state, line_end) = found.unwrap_or_default();
        if line_end.is_some() {
            let mut waiting = self.prepare("SELECT ticket, owner FROM waiting WHERE name = ?1")?;
            let read = |row: &Row<'_>| {
                let owner: Box<[u8]> = row.get(1)?;
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), Owner::from_bytes(&owner)))
            };
            let owners = waiting.query_map([name.as_str()], read).and_then(Iterator::collect);
            let value = owners.map_err(|error| self.db.fault(&error))?;
            state.queue = Some(Kept { value, ends_at_ms: line_end });
        }
        Ok(state)
    }

    /// The names of locks that have a fence or a queue, in order.
    pub(super) fn names_from(
        &self,
        from: &str,
        is_excluded: bool,
        count: u32,
        now: NodeTime,
    ) -> Result<Vec<Name>, Fault> {
        let sql = "SELECT name FROM locks WHERE name >= ?1 AND NOT (?2 AND name = ?1)
                   AND (fence IS NOT NULL AND coalesce(fence_ends_ms, ?3) >= ?3
                        OR line_ends_ms >= ?3)
                   ORDER BY name LIMIT ?4";
        let now_ms = signed(now.as_millis());
        let params = params![from, is_excluded, now_ms, count.max(1)];
        let read = |row: &Row<'_>| row.get::<_, String>(0);
        let mut names = self.prepare(sql)?;
        let names = names.query_map(params, read).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let names = names.map_err(|error| self.db.fault(&error))?;
        Ok(names.iter().filter_map(|name| Name::parse(name, "").ok()).collect())
    }

    /// Saves a lock. `before` is its stored state.
    pub(super) fn save_lock(
        &self,
        name: &Name,
        before: &LockState,
        after: &LockState,
    ) -> Result<(), Fault> {
        let none = BTreeSet::new();
        let old = before.queue.as_ref().map_or(&none, |queue| &queue.value);
        let new = after.queue.as_ref().map_or(&none, |queue| &queue.value);
        for (ticket, owner) in old.difference(new) {
            let gone = params![name.as_str(), ticket.cast_signed(), owner.as_bytes()];
            let sql = "DELETE FROM waiting WHERE name = ?1 AND ticket = ?2 AND owner = ?3";
            self.execute(sql, gone)?;
        }
        for (ticket, owner) in new.difference(old) {
            let come = params![name.as_str(), ticket.cast_signed(), owner.as_bytes()];
            self.execute("INSERT OR REPLACE INTO waiting VALUES (?1, ?2, ?3)", come)?;
        }
        let LockState { key, fence, queue } = after;
        if key.is_none() && fence.is_none() && queue.is_none() {
            return self.execute("DELETE FROM locks WHERE name = ?1", [name.as_str()]);
        }
        let value = key.as_ref().and_then(|key| shares::to_bytes(&key.value));
        if key.is_some() && value.is_none() {
            return Err(Fault::new(&self.db.path, "it cannot store this type of key"));
        }
        let last = fence.as_ref().map(|fence| fence.value);
        let row = params![
            name.as_str(),
            value,
            end(key.as_ref()),
            last.map(|last| last.fence.get().cast_signed()),
            last.map(|last| signed(last.since_ms)),
            end(fence.as_ref()),
            end(queue.as_ref()),
        ];
        self.execute("INSERT OR REPLACE INTO locks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row)
    }

    pub(super) fn client(&self, client: &ClientId) -> Result<ClientState, Fault> {
        let sql = "SELECT session, ticket_min, ticket_max, session_ends_ms, who, who_ends_ms
                   FROM clients WHERE client = ?1";
        let read = |row: &Row<'_>| {
            let number = |at| row.get::<_, Option<i64>>(at).map(|number| number.map(unsigned));
            let session: Option<String> = row.get(0)?;
            let ticket_min = number(1)?.unwrap_or_default();
            let ticket_max = number(2)?.unwrap_or_default();
            let ends_at_ms = number(3)?;
            let session = session.as_deref().and_then(Session::parse);
            let record = |session| SessionRecord { session, ticket_min, ticket_max };
            let session = session.map(|it| Kept { value: record(it), ends_at_ms });
            let who: Option<Box<str>> = row.get(4)?;
            let ends_at_ms = number(5)?;
            Ok(ClientState { session, who: who.map(|value| Kept { value, ends_at_ms }) })
        };
        let found = self.prepare(sql)?.query_row([client.to_string()], read).optional();
        Ok(found.map_err(|error| self.db.fault(&error))?.unwrap_or_default())
    }

    pub(super) fn save_client(&self, client: &ClientId, state: &ClientState) -> Result<(), Fault> {
        let ClientState { session, who } = state;
        if session.is_none() && who.is_none() {
            return self.execute("DELETE FROM clients WHERE client = ?1", [client.to_string()]);
        }
        let record = session.as_ref().map(|session| session.value);
        let row = params![
            client.to_string(),
            record.map(|it| it.session.to_string()),
            record.map(|it| signed(it.ticket_min)),
            record.map(|it| signed(it.ticket_max)),
            end(session.as_ref()),
            who.as_ref().map(|who| &who.value),
            end(who.as_ref()),
        ];
        self.execute("INSERT OR REPLACE INTO clients VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row)
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), Fault> {
        let done = self.prepare(sql)?.execute(params);
        done.map(drop).map_err(|error| self.db.fault(&error))
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, Fault> {
        self.tx.prepare_cached(sql).map_err(|error| self.db.fault(&error))
    }
}

fn end<T>(kept: Option<&Kept<T>>) -> Option<i64> {
    kept.and_then(|kept| kept.ends_at_ms).map(signed)
}

/// Converts a time. Times that the database cannot represent never end.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// `qrte`, for programs that identify files by their content.
const APPLICATION: i64 = 0x7172_7465;

/// The version of the tables below and of their meaning.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE era (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        boot TEXT NOT NULL,
        clock TEXT NOT NULL,
        base_us INTEGER NOT NULL,
        horizon_us INTEGER NOT NULL,
        swept_us INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE locks (
        name TEXT PRIMARY KEY,
        value BLOB,
        key_ends_ms INTEGER,
        fence INTEGER,
        fence_since_ms INTEGER,
        fence_ends_ms INTEGER,
        line_ends_ms INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE waiting (
        name TEXT,
        ticket INTEGER,
        owner BLOB,
        PRIMARY KEY (name, ticket, owner)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE clients (
        client TEXT PRIMARY KEY,
        session TEXT,
        ticket_min INTEGER,
        ticket_max INTEGER,
        session_ends_ms INTEGER,
        who TEXT,
        who_ends_ms INTEGER
    ) STRICT, WITHOUT ROWID;
";

/// How long to wait for a program that does not use the folder's lock, such as a database tool.
const BUSY_MAX: Duration = Duration::from_secs(2);

const STATEMENTS_MAX: usize = 32;

/// The log is copied at this number of pages: four megabytes.
const LOG_PAGES: i32 = 1_000;

/// The largest number of pages in the log.
const LOG_PAGES_FULL: i32 = 8_000;

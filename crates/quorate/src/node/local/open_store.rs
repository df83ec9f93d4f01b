//! An open folder: its database, its time, and the sockets of its clients.

use std::path::Path;

use quorate_core::{
    moment::{Moment, NodeTime},
    queue::Push,
};

use super::{
    db::{Db, Durability, Log},
    fault::Fault,
    folder::{FileId, Folder},
    notifier::Notifier,
    time::{Boot, Era},
    transaction::Transaction,
};
use crate::clock::Clock;

/// An open folder.
#[derive(Debug)]
pub(super) struct OpenStore {
    folder: Folder,
    db: Db,
    era: Era,
    pub(super) notifier: Notifier,
}

/// The result of a transaction.
#[derive(Debug)]
pub(super) struct Done<T> {
    pub(super) value: T,
    pub(super) pushes: Vec<Push>,
    /// When it was executed, by the node's time and by the client's clock.
    pub(super) at: (NodeTime, Moment),
}

impl OpenStore {
    /// Opens a folder in this boot, and creates what is missing. `previous` is the database file
    /// that the caller had open earlier in this boot.
    pub(super) fn open(path: &Path, boot: &Boot, previous: Option<FileId>) -> Result<Self, Fault> {
        let mut folder = Folder::open(path)?;
        let lock = folder.wait_for_lock()?;
        folder.make_db()?;
        let notifier = Notifier::new(folder.sockets()?)?;
        // Clients that still have removed files open would make this fail.
        folder.check_clients().inspect_err(|_| notifier.alarm())?;
        let db = Db::open(folder.db_path())?;
        // If this file was used in this boot and now belongs to another boot, another machine uses
        // it. A new era would end the locks that are held there.
        let may_begin = previous.is_none() || previous != folder.db_id();
        let era = begin_era(&db, &folder, boot, may_begin)?;
        let known = folder.find_open(notifier.sockets())?;
        drop(lock);
        folder.set_open(known);
        Ok(Self { folder, db, era, notifier })
    }

    /// The database file.
    pub(super) fn db_id(&self) -> Option<FileId> {
        self.folder.db_id()
    }

    /// How far the node's time is ahead of the client's clock, in microseconds.
    pub(super) const fn ahead_us(&self) -> i64 {
        self.era.base_us
    }

    /// Copies the log if it is long. Call it after the requests are answered.
    pub(super) fn tidy_up(&self) {
        if self.db.log() != Log::Short {
            self.db.copy_log();
        }
    }

    /// Executes `work` as one transaction, while no other process uses the folder.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_>, NodeTime) -> Result<T, Fault>,
    ) -> Result<Done<T>, Fault> {
        let lock = self.folder.wait_for_lock()?;
        self.folder.check()?;
        let near = self.era.is_horizon_near(self.era.time(Clock::Boot.now()));
        let mut durability = if near { Durability::Disk } else { Durability::Lazy };
        let (tx, moment, now) = loop {
            let tx = self.db.begin(durability)?;
            // Read the clock while no other process can write, so that the order of transactions is
            // the order of their times.
            let moment = Clock::Boot.now();
            let now = self.era.time(moment);
            if durability == Durability::Disk || !self.era.is_horizon_reached(now) {
                break (tx, moment, now);
            }
            // This process was stopped for a long time.
            durability = Durability::Disk;
        };
        let (mut era, mut swept_at) = match tx.era()? {
            Some((era, swept_at)) if era.is_same(&self.era) => (era, swept_at),
            Some(_) | None => return Err(Fault::new(&self.folder.db_path(), ANOTHER_BOOT)),
        };
        let mut transaction = Transaction::new(&tx, &self.notifier);
        let value = work(&mut transaction, now)?;
        let pushes = transaction.save()?;
        let is_swept = now.as_micros().saturating_sub(swept_at.as_micros()) >= SWEEP_EVERY_US;
        if is_swept {
            tx.sweep(now)?;
            swept_at = now;
        }
        if durability == Durability::Disk {
            era.move_horizon(now);
        }
        if is_swept || durability == Durability::Disk {
            tx.save_era(&era, swept_at)?;
        }
        tx.commit()?;
        if self.db.log() == Log::Full {
            self.db.copy_log();
        }
        drop(lock);
        self.era = era;
        if is_swept {
            self.notifier.sweep();
        }
        Ok(Done { value, pushes, at: (now, moment) })
    }
}

/// The era of this boot. The first process that opens the folder begins it, if it may.
fn begin_era(db: &Db, folder: &Folder, boot: &Boot, may_begin: bool) -> Result<Era, Fault> {
    let tx = db.begin(Durability::Disk)?;
    let before = tx.era()?.map(|(era, _)| era);
    if let Some(era) = before.as_ref().filter(|era| era.boot.id == boot.id) {
        if era.boot.clock != boot.clock {
            return Err(Fault::new(&folder.db_path(), ANOTHER_CLOCK));
        }
        return Ok(era.clone());
    }
    if before.is_some() && !may_begin {
        return Err(Fault::new(&folder.db_path(), ANOTHER_BOOT));
    }
    let era = Era::begin(boot, before.as_ref(), Clock::Boot.now(), Clock::Boot.wall_ms());
    tx.void()?;
    tx.save_era(&era, NodeTime::from_micros(0))?;
    tx.commit()?;
    Ok(era)
}

const ANOTHER_BOOT: &str =
    "another machine uses it too, or its content was replaced: use a folder on a local disk";

const ANOTHER_CLOCK: &str = "it is in use with another clock (a time namespace), so the end of a \
     lock would be ambiguous: use it in one time namespace only";

/// How often expired data is removed.
const SWEEP_EVERY_US: u64 = 60_000_000;

#[cfg(test)]
mod tests;

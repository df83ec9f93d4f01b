//! A folder that is open: its database, its time, and everybody's sockets.

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

/// What a transaction came to.
#[derive(Debug)]
pub(super) struct Done<T> {
    pub(super) value: T,
    pub(super) pushes: Vec<Push>,
    /// When it was, by the node's time and by ours.
    pub(super) at: (NodeTime, Moment),
}

impl OpenStore {
    /// Opens a folder in this boot, and makes what is missing. The one who asks has had the file
    /// `had` open in this boot before.
    pub(super) fn open(path: &Path, boot: &Boot, had: Option<FileId>) -> Result<Self, Fault> {
        let mut folder = Folder::open(path)?;
        let turn = folder.wait_for_turn()?;
        folder.make_db()?;
        let notifier = Notifier::new(folder.sockets()?)?;
        // Those who do not let go of what was removed would keep us out.
        folder.check_clients().inspect_err(|_| notifier.alarm())?;
        let db = Db::open(folder.db_path())?;
        // What was ours in this boot and is of another one now is in use on another machine. To
        // take it back would end the locks that are held there.
        let may_begin = had.is_none() || had != folder.db_id();
        let era = settle(&db, &folder, boot, may_begin)?;
        let known = folder.look(notifier.sockets())?;
        drop(turn);
        folder.note_open(known);
        Ok(Self { folder, db, era, notifier })
    }

    /// Which file the database is.
    pub(super) fn db_id(&self) -> Option<FileId> {
        self.folder.db_id()
    }

    /// How far the node's time is ahead of ours, in microseconds.
    pub(super) const fn ahead_us(&self) -> i64 {
        self.era.base_us
    }

    /// Does what can be done while nobody waits for us.
    pub(super) fn tidy_up(&self) {
        if self.db.log() != Log::Short {
            self.db.copy_log();
        }
    }

    /// Runs `work` alone, and all of it or nothing.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_>, NodeTime) -> Result<T, Fault>,
    ) -> Result<Done<T>, Fault> {
        let turn = self.folder.wait_for_turn()?;
        self.folder.check()?;
        let near = self.era.is_horizon_near(self.era.time(Clock::Boot.now()));
        let mut durability = if near { Durability::Disk } else { Durability::Lazy };
        let (tx, moment, now) = loop {
            let tx = self.db.begin(durability)?;
            // Read when nobody else can write any more: the order of the transactions is the order
            // of their times.
            let moment = Clock::Boot.now();
            let now = self.era.time(moment);
            if durability == Durability::Disk || !self.era.is_horizon_reached(now) {
                break (tx, moment, now);
            }
            // We were stopped for long.
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
        drop(turn);
        self.era = era;
        if is_swept {
            self.notifier.sweep();
        }
        Ok(Done { value, pushes, at: (now, moment) })
    }
}

/// The era of this boot, which begins with the first who comes, if it may.
fn settle(db: &Db, folder: &Folder, boot: &Boot, may_begin: bool) -> Result<Era, Fault> {
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
    "another machine uses it, too, or its content was replaced: use a folder on a local disk";

const ANOTHER_CLOCK: &str = "it is in use with another clock (a time namespace), so that nobody \
     could tell when a lock ends: let all who use it have the same one";

/// How often what has ended is thrown out.
const SWEEP_EVERY_US: u64 = 60_000_000;

#[cfg(test)]
mod tests;

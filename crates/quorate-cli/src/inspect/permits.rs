//! The permits of one name, shown as one thing.

use std::{collections::BTreeMap, time::Duration};

use quorate::{
    SemaphoreLock,
    blocking::Client,
    error::InspectError,
    inspect::{Holder, LockReport},
};
use serde_json::{Value, json};

use super::{holder, holders, numbered, redact_foreign_holders, waiter};
use crate::{exit::Failure, time};

/// The permits of one name that are held or waited for.
#[derive(Debug, Default)]
pub(super) struct Permits {
    name: String,
    /// By number.
    locks: BTreeMap<u32, LockReport>,
    queue: Option<LockReport>,
}

impl Permits {
    /// Asks the nodes. `None` if no permit of this name is held or waited for.
    pub(super) fn find(client: &Client, name: &str) -> Result<Option<Self>, Failure> {
        let found = match client.locks(format!("{name}#")).all() {
            Ok(found) => found,
            // The user need not have the right to list keys.
            Err(InspectError::Denied { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut permits = Self { name: name.to_owned(), ..Self::default() };
        found.locks.into_iter().for_each(|lock| permits.add(lock));
        if permits.locks.is_empty() && permits.queue.is_none() {
            return Ok(None);
        }
        // A list does not contain the waiters.
        if permits.queue.is_some() {
            let queue = client.inspect(SemaphoreLock::Queue.name_in(name))?;
            permits.queue = Some(redact_foreign_holders(queue));
        }
        Ok(Some(permits))
    }

    /// Adds a lock if it is one of the permits, or their queue.
    fn add(&mut self, lock: LockReport) {
        match SemaphoreLock::parse(&lock.name) {
            Some((name, SemaphoreLock::Permit(number))) if name == self.name => {
                self.locks.insert(number, redact_foreign_holders(lock));
            }
            Some((name, SemaphoreLock::Queue)) if name == self.name => self.queue = Some(lock),
            Some(_) | None => {}
        }
    }

    fn taken(&self) -> impl Iterator<Item = (u32, &Holder)> {
        self.locks.iter().filter_map(|(number, lock)| Some((*number, lock.holder.as_ref()?)))
    }

    /// How many permits there are. The nodes do not store it. But the first waiter waits for each
    /// permit.
    fn total(&self) -> Option<u32> {
        self.queue.as_ref()?.holder.as_ref()?;
        self.locks.keys().next_back().copied()
    }

    /// The first waiter holds the lock of the queue.
    fn waiting_total(&self) -> u64 {
        let queue = self.queue.iter();
        queue.map(|it| it.waiting_total + u64::from(it.holder.is_some())).sum()
    }

    fn summary(&self) -> String {
        let taken = self.taken().count();
        match (self.total(), taken) {
            (Some(total), _) => format!("{taken} of {total} permits taken"),
            (None, 1) => "1 permit taken".to_owned(),
            (None, _) => format!("{taken} permits taken"),
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let waiting = match self.waiting_total() {
            0 => String::new(),
            total => format!(", {total} waiting"),
        };
        let mut lines = vec![format!("{}: {}{waiting}", self.name, self.summary())];
        lines.extend(self.taken().map(|(number, holder)| {
            let fence = holder.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("permit {number}: held by {holder}{fence}")
        }));
        let mut waiters = Vec::new();
        if let Some(queue) = &self.queue {
            let first = queue.holder.iter().map(|first| {
                let waited = first.held_for.map(time::shown);
                let waited = waited.map(|time| format!(", the first for {time}"));
                format!("{}{}", first.who, waited.unwrap_or_default())
            });
            waiters = first.chain(queue.waiting.iter().map(ToString::to_string)).collect();
        }
        lines.extend(numbered(&waiters, self.waiting_total()));
        lines
    }

    pub(super) fn json(&self) -> Value {
        let permit = |(number, it): (u32, &Holder)| {
            let mut json = holder(it);
            json["number"] = number.into();
            json
        };
        let waiting = self.queue.iter().flat_map(|queue| &queue.waiting);
        json!({
            "taken": self.taken().count(),
            "total": self.total(),
            "holders": self.taken().map(permit).collect::<Vec<_>>(),
            "waiting_total": self.waiting_total(),
            "first_waiter": self.queue.as_ref().and_then(|it| it.holder.as_ref()).map(holder),
            "waiting": waiting.map(waiter).collect::<Vec<_>>(),
        })
    }
}

/// A row of the list.
pub(super) enum Row<'a> {
    Lock(&'a LockReport),
    Permits(Box<Permits>),
}

impl Row<'_> {
    pub(super) fn cells(&self) -> [String; 6] {
        let none = || "-".to_owned();
        let lock = match self {
            Self::Lock(lock) => lock,
            Self::Permits(permits) => {
                let (name, waiting) = (permits.name.clone(), permits.waiting_total().to_string());
                return [name, permits.summary(), none(), none(), none(), waiting];
            }
        };
        let holder = lock.holder.as_ref();
        let shown = |time: Option<Duration>| time.map_or_else(none, time::shown);
        let fence = holder.and_then(|it| it.fence).map(|fence| fence.to_string());
        [
            lock.name.clone(),
            holders(lock).unwrap_or_else(none),
            shown(holder.and_then(|it| it.held_for)),
            shown(holder.and_then(|it| it.expires_in)),
            fence.unwrap_or_else(none),
            lock.waiting_total.to_string(),
        ]
    }
}

/// The rows for these locks, in their order. If requested, all permits of a name are one row.
pub(super) fn rows(locks: &[LockReport], is_grouped: bool) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for lock in locks {
        let Some((name, _)) = SemaphoreLock::parse(&lock.name).filter(|_| is_grouped) else {
            rows.push(Row::Lock(lock));
            continue;
        };
        let known = rows.iter_mut().find_map(|row| match row {
            Row::Permits(permits) if permits.name == name => Some(permits),
            Row::Permits(_) | Row::Lock(_) => None,
        });
        match known {
            Some(permits) => permits.add(lock.clone()),
            None => {
                let mut permits = Permits { name: name.to_owned(), ..Permits::default() };
                permits.add(lock.clone());
                rows.push(Row::Permits(Box::new(permits)));
            }
        }
    }
    rows
}

//! What a node reports to people about its locks.

use std::{collections::BTreeSet, ops::Bound};

use super::Store;
use crate::{
    command::Reply,
    inspect::{
        Cursor, GrantRecord, Inspected, Listed, SHARES_SHOWN_MAX, ShareInfo, WAITING_SHOWN_MAX,
    },
    moment::NodeTime,
    name::Name,
};

impl Store {
    pub(in crate::store) fn inspect(&self, now: NodeTime, name: &Name, shown: u32) -> Reply {
        let last = self.queue.fences.get(name);
        let shown = usize::try_from(shown.min(WAITING_SHOWN_MAX)).unwrap_or(usize::MAX);
        let waiting = self.queue.waiting.get(name);
        Reply::Inspected(Box::new(Inspected {
            observation: self.observation(now, name),
            fence: last.map(|last| GrantRecord {
                fence: last.fence,
                age_ms: now.as_millis().saturating_sub(last.since_ms),
            }),
            waiting: waiting
                .into_iter()
                .flatten()
                .take(shown)
                .map(|(_, owner)| owner.clone())
                .collect(),
            waiting_total: waiting.map_or(0, |waiting| waiting.len() as u64),
            time_us: now.as_micros(),
            shares: self.shares_info(now, name),
        }))
    }

    fn shares_info(&self, now: NodeTime, name: &Name) -> Box<[ShareInfo]> {
        let now_ms = now.as_millis();
        let shares = self.shares(name).into_iter().flatten();
        let alive = shares.filter(|(_, share)| share.is_alive(now_ms));
        let infos = alive.map(|(owner, share)| ShareInfo {
            owner: owner.clone(),
            held_ms: now_ms.saturating_sub(share.since_ms),
            left_ms: share.ends_at_ms.saturating_sub(now_ms),
        });
        infos.take(SHARES_SHOWN_MAX).collect()
    }

    /// Examines `count` names with a fence or a queue, in their order, and lists the locks that are
    /// held or waited for. A released lock leaves only its fence.
    pub(in crate::store) fn list(
        &self,
        prefix: &str,
        cursor: Option<&Cursor>,
        count: u32,
    ) -> Reply {
        let from = match cursor {
            Some(cursor) => Bound::Excluded(cursor.as_str()),
            None => Bound::Included(prefix),
        };
        let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        let has_prefix = |name: &&Name| name.as_str().starts_with(prefix);
        let fences = self.queue.fences.keys_from(from).take_while(has_prefix).take(count);
        let queues = self.queue.waiting.keys_from(from).take_while(has_prefix).take(count);
        let examined: BTreeSet<&Name> = fences.chain(queues).collect();
        let examined: Vec<&Name> = examined.into_iter().take(count).collect();
        let next = examined.last().filter(|_| examined.len() == count);
        let next = next.map(|last| Cursor::new(last.as_str()));
        let is_in_use =
            |name: &&&Name| self.keys.contains(name) || self.queue.waiting.contains(name);
        let names = examined.iter().filter(is_in_use).map(|name| Name::clone(name)).collect();
        Reply::Listed(Listed { names, next })
    }
}

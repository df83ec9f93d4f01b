//! How many nodes vote, how many of them take new locks, and how many more may fail.

use std::collections::BTreeMap;

use crate::exit::majority;

/// The votes of a set of nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Quorum {
    pub(crate) nodes: usize,
    /// How many vote. All of them renew the locks that are held.
    pub(crate) voting: usize,
    /// How many of those grant no new lock, because their memory is full.
    pub(crate) full: usize,
}

impl Quorum {
    pub(crate) const fn needed(self) -> usize {
        majority(self.nodes)
    }

    /// How many nodes grant new locks.
    pub(crate) const fn granting(self) -> usize {
        self.voting.saturating_sub(self.full)
    }

    /// How many of the nodes that grant new locks may fail. `None` if they are too few already.
    pub(crate) const fn spare(self) -> Option<usize> {
        self.granting().checked_sub(self.needed())
    }

    pub(crate) const fn has_majority(self) -> bool {
        self.voting >= self.needed()
    }

    /// The nodes that are full, in a sentence about the others. Empty if there are none.
    pub(crate) fn full_text(self) -> String {
        match self.full {
            0 => String::new(),
            1 => "; 1 is full and grants no new locks".to_owned(),
            full => format!("; {full} are full and grant no new locks"),
        }
    }

    /// `vote`, or for a single node `votes`.
    pub(crate) const fn verb(self) -> &'static str {
        if self.nodes == 1 { "votes" } else { "vote" }
    }
}

/// How much of its `maxmemory` a server uses, in percent, by its INFO. `None` without a limit.
pub(crate) fn percent_used(info: &BTreeMap<String, String>) -> Option<u64> {
    let number = |field: &str| info.get(field)?.parse::<u64>().ok();
    let max = number("maxmemory").filter(|max| *max > 0)?;
    // Buffers for replication and the log on disk do not count.
    let aside = number("mem_not_counted_for_evict").unwrap_or(0);
    Some(number("used_memory")?.saturating_sub(aside).saturating_mul(100) / max)
}

/// Whether a server grants no new lock because its memory is full.
pub(crate) fn is_full(info: &BTreeMap<String, String>) -> bool {
    percent_used(info).is_some_and(|percent| percent >= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_nodes_do_not_count_for_new_locks() {
        let quorum = |voting, full| Quorum { nodes: 3, voting, full };
        assert_eq!((quorum(3, 0).granting(), quorum(3, 0).spare()), (3, Some(1)));
        assert_eq!((quorum(3, 1).granting(), quorum(3, 1).spare()), (2, Some(0)));
        assert_eq!((quorum(2, 1).granting(), quorum(2, 1).spare()), (1, None));
        assert!(quorum(2, 1).has_majority() && !quorum(1, 0).has_majority());
    }

    #[test]
    fn server_without_a_limit_is_never_full() {
        let info = |max: &str| {
            let fields = [("maxmemory", max), ("used_memory", "90"), ("mem_not_counted", "1")];
            fields.into_iter().map(|(field, value)| (field.into(), value.into())).collect()
        };
        assert_eq!(percent_used(&info("0")), None);
        assert_eq!(percent_used(&info("100")), Some(90));
        assert!(is_full(&info("90")) && !is_full(&info("91")) && !is_full(&info("0")));
    }
}

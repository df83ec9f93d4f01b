//! Computes the next config from the list of nodes that an operator requests.

use std::{collections::BTreeSet, error, fmt, sync::Arc, time::Duration};

use super::{AgreedConfig, Member, Members, NodeId, NodeInfo, Reason};
use crate::{quorum::majority, time_text::TimeText};

/// The next config on the way to the wanted list, from the last report of each node of that list.
/// The wanted list is the agreed one with one node added, removed or replaced; or it is the agreed
/// one itself, which ends the time in which clients with the earlier list are accepted.
///
/// The step is safe only if the nodes that are counted here have not changed when they receive it:
/// send them [`Command::Change`](super::Command::Change) with the mark that they reported.
///
/// # Errors
///
/// [`PlanError`], if the list is more than one step away or too few nodes have the last change.
pub fn plan<'a>(
    wanted: impl IntoIterator<Item = (&'a Arc<str>, Option<&'a NodeInfo>)>,
) -> Result<AgreedConfig, PlanError> {
    let wanted: Vec<Wanted<'a>> =
        wanted.into_iter().map(|(label, info)| Wanted { label, info }).collect();
    let (base, is_split) = base(&wanted)?;
    let kept = wanted.iter().map(|it| it.slot(base)).collect::<Vec<Option<&Member>>>();
    if let Some(label) = duplicate(&kept) {
        return Err(PlanError::SameNode(label));
    }
    let added: Vec<&Wanted<'a>> =
        wanted.iter().zip(&kept).filter(|(_, slot)| slot.is_none()).map(|(it, _)| it).collect();
    let is_kept = |member: &&Member| kept.iter().flatten().any(|slot| slot.id == member.id);
    let gone: Vec<&Member> = base.members.iter().filter(|member| !is_kept(member)).collect();
    if !is_split {
        check_agreed(&wanted, base)?;
    } else if !(added.is_empty() && gone.is_empty()) {
        return Err(PlanError::Split(base.members.clone()));
    }
    if let Some(newcomer) = base.newcomer
        && !(added.is_empty() && gone.is_empty())
        && gone.iter().all(|member| member.id != newcomer)
        && !wanted.iter().any(|it| it.has_joined(newcomer, base))
    {
        return Err(PlanError::Joining);
    }
    let change = base.change.saturating_add(1);
    let next = AgreedConfig { change, ..base.clone() };
    let before = Some(base.members.clone());
    let stay = |member: &Member| gone.iter().all(|other| other.id != member.id);
    let staying = base.members.iter().filter(|member| stay(member)).cloned();
    let next = match (added[..].first(), added.len(), gone.len()) {
        // Nodes with the list that lost receive this one. No client can have used the list that
        // lost.
        (None, 0, 0) if is_split => Ok(next),
        (None, 0, 0) if base.before.is_some() => Ok(AgreedConfig { before: None, ..next }),
        (None, 0, 0) => Err(PlanError::Settled),
        _ if base.before.is_some() => Err(PlanError::Open(base.members.clone())),
        (None, 0, 1) if base.members.len() > 1 => {
            Ok(AgreedConfig { members: Members::new(staying), before, newcomer: None, ..next })
        }
        (Some(new), 1, gone @ (0 | 1)) => {
            let member = new.fresh()?;
            // If the only node is replaced, no node remembers the earlier list.
            if gone == 1 && base.members.len() == 1 {
                return Err(PlanError::TooMany { added: 1, removed: 1 });
            }
            let newcomer = Some(member.id);
            let members = Members::new(staying.chain([member]));
            Ok(AgreedConfig { members, before: before.filter(|_| gone == 0), newcomer, ..next })
        }
        (_, added, removed) => Err(PlanError::TooMany { added, removed }),
    }?;
    // If some nodes accepted it now and the others only later, no client could continue until then.
    match wanted.iter().zip(&kept).filter_map(|(it, slot)| slot.and(it.changes_in_ms())).max() {
        Some(left_ms) if left_ms > 0 => Err(PlanError::TooSoon { left_ms }),
        Some(_) | None => Ok(next),
    }
}

struct Wanted<'a> {
    label: &'a Arc<str>,
    info: Option<&'a NodeInfo>,
}

impl<'a> Wanted<'a> {
    fn config(&self) -> Option<&'a AgreedConfig> {
        self.info.and_then(|info| info.config.as_ref())
    }

    /// Its place in the set: by its address, or by its name if the name is certain.
    fn slot<'b>(&self, config: &'b AgreedConfig) -> Option<&'b Member> {
        let by_name = || {
            let is_ours = |theirs: &AgreedConfig| theirs.origin == config.origin;
            let is_known = self.is_sure() && self.config().is_some_and(is_ours);
            let info = self.info.filter(|_| is_known)?;
            config.members.iter().find(|member| member.id == info.id)
        };
        config.members.at(self.label).or_else(by_name)
    }

    /// The member for a new node. It must never have been a node of any set.
    fn fresh(&self) -> Result<Member, PlanError> {
        let label = self.label.clone();
        let Some(info) = self.info else { return Err(PlanError::Silent(label)) };
        let is_new = info.config.is_none() && info.reason() == Some(Reason::Unknown);
        match is_new && info.keys == 0 {
            true => Ok(Member { id: info.id, label }),
            false => Err(PlanError::NotFresh(label)),
        }
    }

    /// Whether it has not forgotten its config: it votes or has its place, or only its clock was
    /// set.
    fn is_sure(&self) -> bool {
        let is_sure = |it: &NodeInfo| it.is_placed() || it.reason() == Some(Reason::ClockStepped);
        self.info.is_some_and(is_sure)
    }

    /// For how long it accepts no other config, if it counts.
    fn changes_in_ms(&self) -> Option<u64> {
        self.info.filter(|_| self.is_sure()).map(|info| info.changes_in_ms)
    }

    fn has_joined(&self, id: NodeId, config: &AgreedConfig) -> bool {
        self.is_sure()
            && self.info.is_some_and(|info| info.id == id)
            && self.config().is_some_and(|theirs| theirs.is_same(config))
    }
}

/// The latest config that any node reports, and whether another config has the same number. In that
/// case it is the wanted one, and the other can never be agreed on.
fn base<'a>(wanted: &[Wanted<'a>]) -> Result<(&'a AgreedConfig, bool), PlanError> {
    let configs = || wanted.iter().filter_map(Wanted::config);
    let latest = configs().max_by_key(|config| config.change).ok_or(PlanError::Unfounded)?;
    if configs().any(|config| config.origin != latest.origin) {
        return Err(PlanError::OtherSet);
    }
    let rivals = || configs().filter(|config| config.change == latest.change);
    if rivals().all(|config| config.is_same(latest)) {
        return Ok((latest, false));
    }
    let is_wanted = |config: &&AgreedConfig| {
        let slots: Vec<_> = wanted.iter().filter_map(|it| it.slot(config)).collect();
        slots.len() == wanted.len() && slots.len() == config.members.len()
    };
    let split = || PlanError::Split(latest.members.clone());
    let base = rivals().find(is_wanted).ok_or_else(split)?;
    match rivals().all(|config| config.is_same(base) || is_lost(wanted, config)) {
        true => Ok((base, true)),
        false => Err(split()),
    }
}

/// Whether too many nodes have another config for this one ever to be agreed on. A node never
/// accepts another config with the same number.
fn is_lost(wanted: &[Wanted<'_>], config: &AgreedConfig) -> bool {
    let has_other = |member: &&Member| {
        let slot = |it: &Wanted<'_>| {
            let before = config.before.as_ref().and_then(|before| before.at(it.label));
            it.slot(config).or(before).map(|slot| slot.id)
        };
        let theirs = wanted.iter().find(|it| slot(it) == Some(member.id)).and_then(Wanted::config);
        theirs.is_some_and(|theirs| theirs.change >= config.change && !theirs.is_same(config))
    };
    let is_lost = |members: &Members| {
        // The newcomer needs other nodes before it can have a config.
        let old = || members.iter().filter(|member| config.newcomer != Some(member.id));
        let left = old().filter(|member| !has_other(member)).count();
        left < majority(members.len()).min(old().count())
    };
    config.lists().any(is_lost)
}

/// Checks that a majority of the agreed list has this config, and of the earlier list too if it is
/// still accepted. Nodes that may have forgotten a later config do not count.
fn check_agreed(wanted: &[Wanted<'_>], config: &AgreedConfig) -> Result<(), PlanError> {
    let count = |members: &Members| {
        let has = |member: &Member| {
            let at = |it: &&Wanted<'_>| it.slot(config).is_some_and(|slot| slot.id == member.id);
            let known = wanted.iter().filter(|it| it.is_sure()).find(at);
            known.and_then(Wanted::config).is_some_and(|theirs| theirs.is_same(config))
        };
        members.iter().filter(|member| has(member)).count()
    };
    for members in config.lists() {
        let (count, needed) = (count(members), majority(members.len()));
        if count < needed {
            return Err(PlanError::Minority { count, needed, config: Box::new(config.clone()) });
        }
    }
    Ok(())
}

fn duplicate(slots: &[Option<&Member>]) -> Option<Arc<str>> {
    let mut known = BTreeSet::new();
    slots.iter().flatten().find(|slot| !known.insert(slot.id)).map(|slot| slot.label.clone())
}

/// Why there is no next config.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// No node belongs to a set.
    Unfounded,
    /// The nodes belong to different sets.
    OtherSet,
    /// The nodes have agreed on this list already.
    Settled,
    /// Clients with the list before the last change are still accepted. Request the agreed list
    /// first, which ends that.
    Open(Members),
    /// The newcomer of the last change has not joined yet.
    Joining,
    /// More than one node differs from the agreed list, or the only node would be replaced.
    TooMany {
        /// The number of new nodes.
        added: usize,
        /// The number of nodes that are not wanted any more.
        removed: usize,
    },
    /// Too few nodes have received the last change. Send it to the nodes that answer.
    Minority {
        /// The number of nodes that have it.
        count: usize,
        /// The number that is needed.
        needed: usize,
        /// The config to send to the other nodes.
        config: Box<AgreedConfig>,
    },
    /// Two changes were made at the same time, and neither is agreed on. One of their lists must be
    /// requested, and enough nodes must answer to show that the other has lost.
    Split(Members),
    /// The new node does not answer.
    Silent(Arc<str>),
    /// The new node has keys or was a node of a set. It must be emptied first.
    NotFresh(Arc<str>),
    /// Two addresses lead to the same node.
    SameNode(Arc<str>),
    /// The last change was too recent for one of the nodes that answer.
    TooSoon {
        /// For how many milliseconds this node accepts no other config.
        left_ms: u64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfounded => f.write_str("none of the nodes belongs to a set yet"),
            Self::OtherSet => f.write_str("the nodes belong to different sets"),
            Self::Settled => f.write_str("the nodes have agreed on this list already"),
            Self::Open(list) => {
                write!(
                    f,
                    "clients with the list before {list} are still accepted: request {list} first"
                )
            }
            Self::Joining => f.write_str("the new node of the last change has not joined yet"),
            Self::TooMany { added, removed } => write!(
                f,
                "{added} nodes added and {removed} removed: only one node can be added, removed or \
                 replaced at a time, and one must stay"
            ),
            Self::Minority { count, needed, .. } => write!(
                f,
                "only {count} of the {needed} nodes that are needed have received the last change"
            ),
            Self::Split(list) => {
                write!(f, "two changes were made at the same time, one to {list}: request one list")
            }
            Self::Silent(label) => write!(f, "the new node {label} does not answer"),
            Self::NotFresh(label) => {
                write!(f, "the new node {label} has keys, or was a node before: empty it first")
            }
            Self::SameNode(label) => write!(f, "another address leads to the same node as {label}"),
            Self::TooSoon { left_ms } => {
                let left = TimeText(Duration::from_millis(*left_ms));
                write!(f, "the last change was too recent: wait for {left}")
            }
        }
    }
}

impl error::Error for PlanError {}

#[cfg(test)]
mod tests;

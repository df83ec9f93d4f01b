//! From the list of nodes that an operator wants to the next config.

use std::{collections::BTreeSet, error, fmt, sync::Arc};

use super::{AgreedConfig, Member, Members, NodeId, NodeInfo, Reason};
use crate::quorum::majority;

/// The config that brings the set one step nearer to the wanted list, from what each node of that
/// list told last. The wanted list is the agreed one with one node more, one node less or one node
/// exchanged; or the agreed one itself, to no longer let in clients with the list before.
///
/// The step is safe only if the nodes that are counted here are told it as they were: with
/// [`Command::Change`](super::Command::Change) and the mark that they had.
///
/// # Errors
///
/// [`PlanError`], if the list is more than one step away or too few nodes go by the last change.
pub fn plan<'a>(
    wanted: impl IntoIterator<Item = (&'a Arc<str>, Option<&'a NodeInfo>)>,
) -> Result<AgreedConfig, PlanError> {
    let wanted: Vec<Wanted<'a>> =
        wanted.into_iter().map(|(label, info)| Wanted { label, info }).collect();
    let (base, is_split) = base(&wanted)?;
    let kept = wanted.iter().map(|it| it.slot(base)).collect::<Vec<Option<&Member>>>();
    if let Some(label) = twice(&kept) {
        return Err(PlanError::SameNode(label));
    }
    let added: Vec<&Wanted<'a>> =
        wanted.iter().zip(&kept).filter(|(_, slot)| slot.is_none()).map(|(it, _)| it).collect();
    let is_kept = |member: &&Member| kept.iter().flatten().any(|slot| slot.id == member.id);
    let gone: Vec<&Member> = base.members.iter().filter(|member| !is_kept(member)).collect();
    if !is_split {
        is_agreed(&wanted, base)?;
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
        // Whoever goes by the list that lost is told this one. Nobody can have gone by it.
        (None, 0, 0) if is_split => Ok(next),
        (None, 0, 0) if base.before.is_some() => Ok(AgreedConfig { before: None, ..next }),
        (None, 0, 0) => Err(PlanError::Settled),
        _ if base.before.is_some() => Err(PlanError::Open(base.members.clone())),
        (None, 0, 1) if base.members.len() > 1 => {
            Ok(AgreedConfig { members: Members::new(staying), before, newcomer: None, ..next })
        }
        (Some(new), 1, gone @ (0 | 1)) => {
            let member = new.fresh()?;
            // Of a single node none would be left that can say what was before.
            if gone == 1 && base.members.len() == 1 {
                return Err(PlanError::TooMany { added: 1, removed: 1 });
            }
            let newcomer = Some(member.id);
            let members = Members::new(staying.chain([member]));
            Ok(AgreedConfig { members, before: before.filter(|_| gone == 0), newcomer, ..next })
        }
        (_, added, removed) => Err(PlanError::TooMany { added, removed }),
    }?;
    // If some took it at once and the others only later, nobody could go on until then.
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
    fn told(&self) -> Option<&'a AgreedConfig> {
        self.info.and_then(|info| info.config.as_ref())
    }

    /// Its place in the set: by its address, or by its name if it is known to have that by right.
    fn slot<'b>(&self, config: &'b AgreedConfig) -> Option<&'b Member> {
        let by_name = || {
            let is_ours = |told: &AgreedConfig| told.origin == config.origin;
            let is_known = self.is_sure() && self.told().is_some_and(is_ours);
            let info = self.info.filter(|_| is_known)?;
            config.members.iter().find(|member| member.id == info.id)
        };
        config.members.at(self.label).or_else(by_name)
    }

    /// A server that was never a node of any set.
    fn fresh(&self) -> Result<Member, PlanError> {
        let label = self.label.clone();
        let Some(info) = self.info else { return Err(PlanError::Silent(label)) };
        let is_new = info.config.is_none() && info.reason() == Some(Reason::Unknown);
        match is_new && info.keys == 0 {
            true => Ok(Member { id: info.id, label }),
            false => Err(PlanError::NotFresh(label)),
        }
    }

    /// It has not forgotten of which set it is: it has its place, or only its clock was set.
    fn is_sure(&self) -> bool {
        let is_sure = |it: &NodeInfo| it.is_placed() || it.reason() == Some(Reason::ClockStepped);
        self.info.is_some_and(is_sure)
    }

    /// For how long it goes by no other list, if it counts.
    fn changes_in_ms(&self) -> Option<u64> {
        self.info.filter(|_| self.is_sure()).map(|info| info.changes_in_ms)
    }

    fn has_joined(&self, id: NodeId, config: &AgreedConfig) -> bool {
        self.is_sure()
            && self.info.is_some_and(|info| info.id == id)
            && self.told().is_some_and(|told| told.is_same(config))
    }
}

/// The latest config that any node knows of, and whether another one has the same number. Then it
/// is the wanted one, and the other can never be agreed upon.
fn base<'a>(wanted: &[Wanted<'a>]) -> Result<(&'a AgreedConfig, bool), PlanError> {
    let told = || wanted.iter().filter_map(Wanted::told);
    let latest = told().max_by_key(|config| config.change).ok_or(PlanError::Unfounded)?;
    if told().any(|config| config.origin != latest.origin) {
        return Err(PlanError::OtherSet);
    }
    let rivals = || told().filter(|config| config.change == latest.change);
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

/// Whether too many nodes go by something else for this config ever to be agreed upon: a node never
/// goes over to another one of the same number.
fn is_lost(wanted: &[Wanted<'_>], config: &AgreedConfig) -> bool {
    let has_other = |member: &&Member| {
        let slot = |it: &Wanted<'_>| {
            let before = config.before.as_ref().and_then(|before| before.at(it.label));
            it.slot(config).or(before).map(|slot| slot.id)
        };
        let told = wanted.iter().find(|it| slot(it) == Some(member.id)).and_then(Wanted::told);
        told.is_some_and(|told| told.change >= config.change && !told.is_same(config))
    };
    let is_lost = |members: &Members| {
        // The newcomer needs others before it can go by anything.
        let old = || members.iter().filter(|member| config.newcomer != Some(member.id));
        let left = old().filter(|member| !has_other(member)).count();
        left < majority(members.len()).min(old().count())
    };
    config.lists().any(is_lost)
}

/// A majority of the agreed list, and of the one before if that is still in use, goes by it. Those
/// do not count that may have forgotten a later one.
fn is_agreed(wanted: &[Wanted<'_>], config: &AgreedConfig) -> Result<(), PlanError> {
    let going = |members: &Members| {
        let has = |member: &Member| {
            let at = |it: &&Wanted<'_>| it.slot(config).is_some_and(|slot| slot.id == member.id);
            let known = wanted.iter().filter(|it| it.is_sure()).find(at);
            known.and_then(Wanted::told).is_some_and(|told| told.is_same(config))
        };
        members.iter().filter(|member| has(member)).count()
    };
    for members in config.lists() {
        let (going, needed) = (going(members), majority(members.len()));
        if going < needed {
            return Err(PlanError::Minority { going, needed, config: Box::new(config.clone()) });
        }
    }
    Ok(())
}

fn twice(slots: &[Option<&Member>]) -> Option<Arc<str>> {
    let mut known = BTreeSet::new();
    slots.iter().flatten().find(|slot| !known.insert(slot.id)).map(|slot| slot.label.clone())
}

/// Why there is no next config.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// No node knows of a set.
    Unfounded,
    /// The nodes belong to different sets.
    OtherSet,
    /// This is what was agreed upon.
    Settled,
    /// Clients with the list before the last change are still let in: first end that, by wanting
    /// the list that was agreed upon.
    Open(Members),
    /// The node that came with the last change has not joined yet.
    Joining,
    /// More than one node differs from what was agreed upon, or the only one.
    TooMany {
        /// How many are new.
        added: usize,
        /// How many are gone.
        removed: usize,
    },
    /// Too few nodes have heard of the last change: those that answer must be told it.
    Minority {
        /// How many go by it.
        going: usize,
        /// How many must.
        needed: usize,
        /// What to tell the others.
        config: Box<AgreedConfig>,
    },
    /// Two changes were made at once, and neither was agreed upon: one of their lists must be
    /// wanted, and enough nodes must be info to know that the other is lost.
    Split(Members),
    /// The new node was not info.
    Silent(Arc<str>),
    /// The new node was a node of this or another set, and must be emptied first.
    NotFresh(Arc<str>),
    /// Two addresses lead to the same node.
    SameNode(Arc<str>),
    /// The last change was too short a while ago for one of the nodes that answer.
    TooSoon {
        /// For how many milliseconds it does not go by another list.
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
                write!(f, "clients with the list before {list} are still let in: end that first")
            }
            Self::Joining => f.write_str("the node that was last to come has not joined yet"),
            Self::TooMany { added, removed } => write!(
                f,
                "{added} new and {removed} gone: only one node can be added, removed or replaced \
                 at a time, and one must stay"
            ),
            Self::Minority { going, needed, .. } => write!(
                f,
                "only {going} of the {needed} nodes that are needed have heard of the last change"
            ),
            Self::Split(list) => {
                write!(f, "two changes were made at once, one to {list}: choose one of the lists")
            }
            Self::Silent(label) => write!(f, "the new node {label} does not answer"),
            Self::NotFresh(label) => {
                write!(
                    f,
                    "the new node {label} holds something, or was a node before: empty it first"
                )
            }
            Self::SameNode(label) => write!(f, "another address is the same node as {label}"),
            Self::TooSoon { left_ms } => {
                write!(f, "the last change was too short a while ago: wait for {left_ms} ms")
            }
        }
    }
}

impl error::Error for PlanError {}

#[cfg(test)]
mod tests;

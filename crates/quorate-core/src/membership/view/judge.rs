//! What a client makes of one node, by what all of them told.

use super::{Opinion, Seat, View};
use crate::{
    membership::{
        AgreedConfig, Disagreement, Enrolment, Members, NodeId, NodeInfo, Quarantine, Reason,
    },
    quorum::majority,
};

impl View {
    pub(super) fn judge(&self, node: usize, info: &NodeInfo) -> Result<Opinion, Disagreement> {
        let Some(config) = &self.config else {
            // A list in which two have one name would never be agreed upon.
            if let Some(twin) = self.twin(node) {
                return Err(Disagreement::SameNode(twin.label.clone()));
            }
            return info.quarantine.map(Opinion::Quarantined).ok_or(Disagreement::OtherSet);
        };
        let ours = self.seats.len();
        let Some(list) = config.lists().find(|members| members.len() == ours) else {
            return Err(Disagreement::Count { agreed: config.members.clone(), ours });
        };
        self.check_ttl(config)?;
        // Two clients may have founded the set at the same time, and with different terms.
        let told = info.config.as_ref().filter(|told| told.change == config.change);
        told.map_or(Ok(()), |told| self.check_ttl(told))?;
        match info.quarantine {
            Some(quarantine) => self.judge_quarantined(node, info, config, quarantine),
            None => self.judge_trusted(node, info, config, list),
        }
    }

    fn judge_quarantined(
        &self,
        node: usize,
        info: &NodeInfo,
        config: &AgreedConfig,
        quarantine: Quarantine,
    ) -> Result<Opinion, Disagreement> {
        let slot = config.members.at(&self.seats[node].label);
        mutate!(AnyLabel => let slot = slot.or_else(|| {
            let is_taken = |id| self.others(node).any(|other| other.id() == Some(id));
            config.members.iter().find(|it| it.id == info.id || !is_taken(it.id))
        }));
        let Some(slot) = slot else {
            return Err(Disagreement::NotMember(config.members.clone()));
        };
        let told = info.config.as_ref();
        let (mark, id) = (info.mark, slot.id);
        let is_told = told.is_some_and(|told| told.change >= config.change);
        // It can be counted by others when it has heard of the change, if not by itself.
        let is_behind = |told: &AgreedConfig| told.origin == config.origin && !is_told;
        Ok(if info.is_enrolled && is_told {
            Opinion::Quarantined(quarantine)
        } else if self.may_enrol(node, quarantine.reason, id, config) {
            Opinion::Enrol(Enrolment { mark, id, config: config.clone(), wall_ms: 0 })
        } else if told.is_some_and(is_behind) {
            Opinion::Tell { mark, config: config.clone() }
        } else {
            Opinion::Quarantined(quarantine)
        })
    }

    /// Enough others go by this list that no later one can have been agreed upon without them, by
    /// as many as are a majority with the node itself: it may have been one of those, and has
    /// forgotten. Or all are there, and no client has ever gone by another list. For one that was
    /// no node before they must be a majority of the nodes before it: a client that goes by the
    /// list before can have none any more, nor can another list that was made at the same time.
    fn may_enrol(&self, node: usize, reason: Reason, id: NodeId, config: &AgreedConfig) -> bool {
        let goes = |seat: &Seat| seat.goes_by(config);
        let is_open = |seat: &Seat| seat.is_new() || seat.goes_by(config);
        let (nodes, before) = (config.members.len(), config.before.as_ref().map(Members::len));
        if config.newcomer == Some(id) {
            let count = self.at_once(node, goes);
            mutate!(HastyNewNode => let count = count.saturating_add(1));
            return count >= majority(before.unwrap_or(nodes));
        }
        // A clock that was set forward has made it forget locks, and nothing else.
        let is_mindful = reason == Reason::ClockStepped;
        let knows = usize::from(is_mindful && goes(&self.seats[node]));
        let most = nodes.max(before.unwrap_or(0));
        let needed = most.div_ceil(2).min(most.saturating_sub(1));
        let is_founded = || self.at_once(node, is_open) >= self.seats.len().saturating_sub(1);
        self.is_vouched && self.is_backed(node, config)
            || self.at_once(node, goes).saturating_add(knows) >= needed
            || config.change == 1 && is_founded()
    }

    /// How many others are known to have been such at one moment since the node is what it is: what
    /// they were before it forgot, or one after the other, need not fit together.
    fn at_once(&self, node: usize, is_such: impl Fn(&Seat) -> bool) -> usize {
        let least = self.seats[node].since;
        let was = |seat: &&Seat, moment: u64| seat.since <= moment && moment <= seat.asked_last;
        let count = |moment: u64| {
            self.others(node).filter(|seat| is_such(seat) && was(seat, moment)).count()
        };
        let moments = self.seats.iter().map(|seat| seat.since.max(least));
        moments.map(count).max().unwrap_or(0)
    }

    fn judge_trusted(
        &self,
        node: usize,
        info: &NodeInfo,
        config: &AgreedConfig,
        list: &Members,
    ) -> Result<Opinion, Disagreement> {
        let told = info.config.as_ref().ok_or(Disagreement::OtherSet)?;
        if told.origin != config.origin {
            return Err(Disagreement::OtherSet);
        }
        let is_listed = list.has(info.id);
        mutate!(AnyConfig => let is_listed = true);
        if !is_listed {
            return Err(Disagreement::NotMember(config.members.clone()));
        }
        let is_behind = told.change < config.change;
        mutate!(AnyConfig => let is_behind = false);
        if is_behind {
            return Ok(Opinion::Tell { mark: info.mark, config: config.clone() });
        }
        if told.change == config.change && !told.members.are(&config.members) {
            return Err(Disagreement::OtherList(told.members.clone()));
        }
        // While two lists are in use, majorities of the new one need not meet those of yet another
        // one that was made at the same time, unless most of the nodes before go by it.
        if let Some(before) = &config.before {
            let heard = self.seats.iter().filter(|seat| seat.goes_by(config)).count();
            let needed = majority(before.len());
            mutate!(AnyConfig => let needed = 0);
            if heard < needed {
                return Err(Disagreement::Unsettled { heard, needed });
            }
        }
        // A durable server votes right after a restart, and must not do so with another's record.
        let slot = list.at(&self.seats[node].label);
        let is_elsewhere = slot.is_some_and(|slot| slot.id != info.id);
        mutate!(DurableAnyPlace => let is_elsewhere = false);
        if info.is_durable && is_elsewhere {
            return Err(Disagreement::OtherPlace);
        }
        match self.others(node).find(|seat| seat.is_here && seat.id() == Some(info.id)) {
            Some(twin) => Err(Disagreement::SameNode(twin.label.clone())),
            None => Ok(Opinion::Votes(info.mark)),
        }
    }
}

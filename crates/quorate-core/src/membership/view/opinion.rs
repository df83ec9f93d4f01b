//! The opinion that a client has of one node, from the reports of all nodes.

use super::{NodeView, Opinion, View};
use crate::{
    membership::{
        AgreedConfig, Disagreement, Enrolment, Members, NodeId, NodeInfo, Quarantine, Reason,
    },
    quorum::majority,
};

impl View {
    pub(super) fn opinion(&self, node: usize, info: &NodeInfo) -> Result<Opinion, Disagreement> {
        let Some(config) = &self.config else {
            // A list in which two nodes have the same name could never be agreed on.
            if let Some(twin) = self.twin(node) {
                return Err(Disagreement::SameNode(twin.label.clone()));
            }
            return info.quarantine.map(Opinion::Quarantined).ok_or(Disagreement::OtherSet);
        };
        let ours = self.nodes.len();
        let Some(list) = config.lists().find(|members| members.len() == ours) else {
            return Err(Disagreement::Count { agreed: config.members.clone(), ours });
        };
        self.check_ttl(config)?;
        // Two clients may have founded the set at the same time with different settings.
        let theirs = info.config.as_ref().filter(|theirs| theirs.change == config.change);
        theirs.map_or(Ok(()), |theirs| self.check_ttl(theirs))?;
        match info.quarantine {
            Some(quarantine) => self.opinion_in_quarantine(node, info, config, quarantine),
            None => self.opinion_outside_quarantine(node, info, config, list),
        }
    }

    fn opinion_in_quarantine(
        &self,
        node: usize,
        info: &NodeInfo,
        config: &AgreedConfig,
        quarantine: Quarantine,
    ) -> Result<Opinion, Disagreement> {
        let slot = config.members.at(&self.nodes[node].label);
        mutate!(AnyLabel => let slot = slot.or_else(|| {
            let is_taken = |id| self.others(node).any(|other| other.id() == Some(id));
            config.members.iter().find(|it| it.id == info.id || !is_taken(it.id))
        }));
        let Some(slot) = slot else {
            return Err(Disagreement::NotMember(config.members.clone()));
        };
        let theirs = info.config.as_ref();
        let (mark, id) = (info.mark, slot.id);
        let is_current = theirs.is_some_and(|theirs| theirs.change >= config.change);
        // When it has received the change, it counts for other nodes, even without its own place.
        let is_behind = |theirs: &AgreedConfig| theirs.origin == config.origin && !is_current;
        Ok(if info.is_enrolled && is_current {
            Opinion::Quarantined(quarantine)
        } else if self.may_enrol(node, quarantine.reason, id, config) {
            Opinion::Enrol(Enrolment { mark, id, config: config.clone(), wall_ms: 0 })
        } else if theirs.is_some_and(is_behind) {
            Opinion::Update { mark, config: config.clone() }
        } else {
            Opinion::Quarantined(quarantine)
        })
    }

    /// Whether the node may get its place: enough other nodes have this config at one moment.
    ///
    /// A node that has forgotten may have agreed on a later config. So the others must be enough
    /// that no majority for a later config exists without them, even with this node. It also gets
    /// its place if the set was never changed and all nodes are there. A newcomer needs a majority
    /// of the earlier nodes: then neither clients with the earlier list nor a rival list from the
    /// same time can have a majority.
    fn may_enrol(&self, node: usize, reason: Reason, id: NodeId, config: &AgreedConfig) -> bool {
        let has_config = |it: &NodeView| it.has_config(config);
        let is_open = |it: &NodeView| it.is_new() || it.has_config(config);
        let (nodes, before) = (config.members.len(), config.before.as_ref().map(Members::len));
        if config.newcomer == Some(id) {
            let count = self.count_at_once(node, has_config);
            mutate!(HastyNewNode => let count = count.saturating_add(1));
            return count >= majority(before.unwrap_or(nodes));
        }
        // After a step of its clock a node has forgotten locks, but not its config.
        let knows_config = reason == Reason::ClockStepped;
        let own = usize::from(knows_config && has_config(&self.nodes[node]));
        let most = nodes.max(before.unwrap_or(0));
        let needed = most.div_ceil(2).min(most.saturating_sub(1));
        let is_founded = || self.count_at_once(node, is_open) >= self.nodes.len().saturating_sub(1);
        self.is_vouched && self.is_backed(node, config)
            || self.count_at_once(node, has_config).saturating_add(own) >= needed
            || config.change == 1 && is_founded()
    }

    /// How many other nodes met the condition at one moment since the node has its present mark.
    /// Reports from before that, or from different moments, need not be consistent.
    fn count_at_once(&self, node: usize, is_met: impl Fn(&NodeView) -> bool) -> usize {
        let least = self.nodes[node].since;
        let was = |it: &&NodeView, moment: u64| it.since <= moment && moment <= it.asked_last;
        let count =
            |moment: u64| self.others(node).filter(|it| is_met(it) && was(it, moment)).count();
        let moments = self.nodes.iter().map(|it| it.since.max(least));
        moments.map(count).max().unwrap_or(0)
    }

    fn opinion_outside_quarantine(
        &self,
        node: usize,
        info: &NodeInfo,
        config: &AgreedConfig,
        list: &Members,
    ) -> Result<Opinion, Disagreement> {
        let theirs = info.config.as_ref().ok_or(Disagreement::OtherSet)?;
        if theirs.origin != config.origin {
            return Err(Disagreement::OtherSet);
        }
        let is_listed = list.has(info.id);
        mutate!(AnyConfig => let is_listed = true);
        if !is_listed {
            return Err(Disagreement::NotMember(config.members.clone()));
        }
        let is_behind = theirs.change < config.change;
        mutate!(AnyConfig => let is_behind = false);
        if is_behind {
            return Ok(Opinion::Update { mark: info.mark, config: config.clone() });
        }
        if theirs.change == config.change && !theirs.members.are(&config.members) {
            return Err(Disagreement::OtherList(theirs.members.clone()));
        }
        // While two lists are accepted, a majority of the new list counts only if a majority of the
        // earlier nodes has received it. Otherwise a rival list from the same time could have a
        // majority without a node in common.
        if let Some(before) = &config.before {
            let received = self.nodes.iter().filter(|it| it.has_config(config)).count();
            let needed = majority(before.len());
            mutate!(AnyConfig => let needed = 0);
            if received < needed {
                return Err(Disagreement::Unsettled { received, needed });
            }
        }
        // A durable server votes right after a restart. It must not do so with the record of
        // another node.
        let slot = list.at(&self.nodes[node].label);
        let is_elsewhere = slot.is_some_and(|slot| slot.id != info.id);
        mutate!(DurableAnyPlace => let is_elsewhere = false);
        if info.is_durable && is_elsewhere {
            return Err(Disagreement::OtherPlace);
        }
        match self.others(node).find(|it| it.is_voting && it.id() == Some(info.id)) {
            Some(twin) => Err(Disagreement::SameNode(twin.label.clone())),
            None => Ok(Opinion::Votes(info.mark)),
        }
    }
}

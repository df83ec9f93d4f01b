//! What a client makes of what its nodes told.

mod judge;

use std::sync::Arc;

use super::{
    AgreedConfig, Disagreement, Enrolment, Known, Mark, Member, Members, NodeId, NodeInfo,
    Quarantine,
};
use crate::moment::Moment;

/// The nodes of one client, as far as they have told what they are.
///
/// Votes count only if all of them go by the same list: otherwise two majorities need not meet.
#[derive(Clone, Debug)]
pub struct View {
    seats: Box<[Seat]>,
    max_ttl_ms: u64,
    quarantine_ms: u64,
    config: Option<AgreedConfig>,
    /// A node that may be believed told it.
    is_sure: bool,
    /// An operator says that the set was not changed by nodes that are not there.
    is_vouched: bool,
    /// Counts what happens.
    moment: u64,
}

#[derive(Clone, Debug)]
struct Seat {
    label: Arc<str>,
    info: Option<NodeInfo>,
    /// It votes, for all we know.
    is_here: bool,
    /// When it was first heard with the mark that it has.
    since: u64,
    /// When it was asked what it has answered last: it had that mark until then, at least.
    asked_last: u64,
    /// When it was last asked.
    asked: u64,
    /// What its clock showed last, in milliseconds, and when it was asked.
    clock: Option<(u64, Moment)>,
}

impl Seat {
    fn told(&self) -> Option<&AgreedConfig> {
        self.info.as_ref().and_then(|info| info.config.as_ref())
    }

    fn goes_by(&self, config: &AgreedConfig) -> bool {
        self.told().is_some_and(|told| told.is_same(config))
    }

    fn is_new(&self) -> bool {
        self.info.is_some() && self.told().is_none()
    }

    fn id(&self) -> Option<NodeId> {
        self.info.as_ref().map(|info| info.id)
    }
}

/// Whether a node votes, and if not, why, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opinion {
    /// It votes, for as long as it has this mark.
    Votes(Mark),
    /// It does not vote yet.
    Quarantined(Quarantine),
    /// It does not vote yet, and must be given its place first. The wall clock is still missing.
    Enrol(Enrolment),
    /// It has not heard of the latest change of the set, and must be told.
    Tell {
        /// Its mark.
        mark: Mark,
        /// What to tell it.
        config: AgreedConfig,
    },
    /// It does not vote for this client.
    Differs(Disagreement),
}

impl View {
    /// A client with nodes at these addresses, none of which has told anything.
    #[must_use]
    pub fn new(
        labels: impl IntoIterator<Item = Arc<str>>,
        max_ttl_ms: u64,
        quarantine_ms: u64,
    ) -> Self {
        let (since, asked_last, asked, clock) = (0, 0, 0, None);
        let seat =
            |label| Seat { label, info: None, is_here: false, since, asked_last, asked, clock };
        let seats = labels.into_iter().map(seat).collect();
        let (config, is_sure, is_vouched, moment) = (None, false, false, 0);
        Self { seats, max_ttl_ms, quarantine_ms, config, is_sure, is_vouched, moment }
    }

    /// What the nodes have agreed upon, if any of them has told.
    #[must_use]
    pub const fn config(&self) -> Option<&AgreedConfig> {
        self.config.as_ref()
    }

    /// What the nodes told before does not count: each that does not vote must tell it again.
    pub fn forget(&mut self) {
        self.seats.iter_mut().filter(|seat| !seat.is_here).for_each(|seat| seat.info = None);
    }

    /// The same for those that vote.
    pub fn forget_all(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        self.forget();
    }

    /// Nothing that was told before counts. A handshake that only looks leaves no trace on a node:
    /// a client that acts needs another one with each of them.
    pub fn start_over(&mut self) {
        self.forget_all();
        self.seats.iter_mut().for_each(|seat| seat.since = 0);
        (self.config, self.is_sure) = (None, false);
    }

    /// The opinion of each node if all of them told again, at one moment, what they told last. An
    /// operator decides by this before anything is written.
    #[must_use]
    pub fn outlook(&self, is_vouched: bool) -> Vec<Option<Opinion>> {
        let mut view = Self { is_vouched, ..self.clone() };
        let mut opinions = vec![None; view.seats.len()];
        // Only when all have been heard does each know about all others.
        for node in (0..opinions.len()).chain(0..opinions.len()) {
            if let Some(info) = view.seats[node].info.clone() {
                view.ask(node);
                opinions[node] = Some(view.hear(node, info).0);
            }
        }
        opinions
    }

    /// Whether an operator vouches for the list: that all servers which are not in it, and were
    /// nodes once, are off for good, and that nodes which do not answer have not agreed on a later
    /// one. Then each has its place again on that word alone.
    pub const fn set_vouched(&mut self, is_vouched: bool) {
        self.is_vouched = is_vouched;
    }

    /// From now on this is what the nodes are to go by: an operator has said so.
    pub fn propose(&mut self, config: AgreedConfig) {
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        self.config = Some(config);
        self.is_sure = true;
    }

    /// What was proposed is not: what the nodes told last counts again.
    pub fn retract(&mut self) {
        let told = self.seats.iter().filter_map(Seat::told);
        self.config = told.max_by_key(|config| config.change).cloned();
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
    }

    /// What each node told last.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, Option<&NodeInfo>)> {
        self.seats.iter().map(|seat| (&seat.label, seat.info.as_ref()))
    }

    /// Whether the nodes have agreed on the longest ttl that the client has, as far as they told.
    ///
    /// # Errors
    ///
    /// [`Disagreement::MaxTtl`], if one of them has another.
    pub fn check_terms(&self) -> Result<(), Disagreement> {
        self.seats.iter().filter_map(Seat::told).try_for_each(|told| self.check_ttl(told))
    }

    const fn check_ttl(&self, config: &AgreedConfig) -> Result<(), Disagreement> {
        let (agreed_ms, ours_ms) = (config.max_ttl_ms, self.max_ttl_ms);
        match agreed_ms == ours_ms {
            true => Ok(()),
            false => Err(Disagreement::MaxTtl { agreed_ms, ours_ms }),
        }
    }

    /// The connection to a node is gone; another node may be that server now.
    pub fn leave(&mut self, node: usize) {
        self.seats[node].is_here = false;
    }

    /// A node is about to be asked what it is, or whether a session goes on. There is one such
    /// question to a node at a time. What it answers is as old as that.
    pub fn ask(&mut self, node: usize) {
        self.moment = self.moment.saturating_add(1);
        self.seats[node].asked = self.moment;
    }

    /// The node's clock showed `time_us` after it was asked.
    pub fn know_time(&mut self, node: usize, time_us: u64, asked_at: Moment) {
        self.seats[node].clock = Some((time_us / 1_000, asked_at));
    }

    /// What the client knows of the node's clock.
    #[must_use]
    pub fn known(&self, node: usize, now: Moment) -> Option<Known> {
        let (seen_ms, asked_at) = self.seats[node].clock?;
        let passed = now.saturating_since(asked_at);
        // Clocks differ in their rates by a hundredth at the most.
        let passed = passed.saturating_add(passed.checked_div(100).unwrap_or_default());
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let expected_ms = seen_ms.saturating_add(passed_ms).saturating_add(1);
        Some(Known { seen_ms, expected_ms })
    }

    /// A session goes on: the node is what it was.
    pub fn hear_again(&mut self, node: usize) {
        let seat = &mut self.seats[node];
        seat.asked_last = seat.asked;
    }

    /// A node has told what it is. Returns whether it votes, and whether what the others were
    /// judged by has changed: then each of them needs another handshake.
    pub fn hear(&mut self, node: usize, info: NodeInfo) -> (Opinion, bool) {
        let is_changed = self.weigh(node, &info);
        if is_changed {
            self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        }
        self.moment = self.moment.saturating_add(1);
        let seat = &mut self.seats[node];
        // A config can come without a new mark: with a place in the set.
        let is_same = |known: &NodeInfo| (known.mark, &known.config) == (info.mark, &info.config);
        if !seat.info.as_ref().is_some_and(is_same) {
            seat.since = self.moment;
        }
        seat.asked_last = seat.asked;
        let info = seat.info.insert(info).clone();
        if self.are_all_new() {
            self.found();
        }
        let opinion = self.judge(node, &info).unwrap_or_else(Opinion::Differs);
        self.seats[node].is_here = matches!(opinion, Opinion::Votes(_));
        (opinion, is_changed)
    }

    /// Takes over what a node knows of the set, if that is news. Returns true if another list was
    /// in force.
    fn weigh(&mut self, node: usize, info: &NodeInfo) -> bool {
        let Some(told) = &info.config else { return false };
        let is_sure = info.is_placed();
        let is_news = match &self.config {
            None => true,
            Some(known) if known.origin == told.origin => known.change < told.change,
            // A set that only we remember is none.
            Some(known) => !self.is_backed(node, known) || is_sure && !self.is_sure,
        };
        self.is_sure |= is_sure;
        is_news && self.config.replace(told.clone()).is_some()
    }

    /// Whether another node belongs to this set, for all we know.
    fn is_backed(&self, node: usize, config: &AgreedConfig) -> bool {
        self.others(node).filter_map(Seat::told).any(|told| told.origin == config.origin)
    }

    /// Whether no node knows of any set, at one moment: what one was before another forgot does not
    /// count, or two clients found different sets.
    fn are_all_new(&self) -> bool {
        let moment = self.seats.iter().map(|seat| seat.since).max().unwrap_or(0);
        let is_alone = |node: usize| self.twin(node).is_none();
        self.seats.iter().all(|seat| seat.is_new() && seat.asked_last >= moment)
            && (0..self.seats.len()).all(is_alone)
    }

    /// Another node that has the same name: one has the data of the other, or they are the same.
    fn twin(&self, node: usize) -> Option<&Seat> {
        let id = self.seats[node].id()?;
        self.others(node).find(|seat| seat.id() == Some(id))
    }

    /// All nodes are new, or have forgotten what we remember: they become a set, the same for
    /// everybody.
    fn found(&mut self) {
        self.is_sure = false;
        let member = |seat: &Seat| Some(Member { id: seat.id()?, label: seat.label.clone() });
        let members = self.seats.iter().map(member).collect::<Option<Vec<_>>>();
        self.config = members.and_then(|it| {
            AgreedConfig::founded_by(Members::new(it), self.max_ttl_ms, self.quarantine_ms)
        });
    }

    fn others(&self, node: usize) -> impl Iterator<Item = &Seat> {
        self.seats.iter().enumerate().filter(move |(number, _)| *number != node).map(|it| it.1)
    }
}

#[cfg(test)]
mod tests;

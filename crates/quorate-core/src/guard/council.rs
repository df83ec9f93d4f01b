//! What a client makes of the records of its nodes.

use std::{fmt, sync::Arc};

use super::{Doubt, Enrolment, Mark, Member, Members, Met, NodeId, Pact, change::goes_by};
use crate::{
    mutant::{self, Mutant},
    quorum::majority,
};

/// The nodes of one client, as far as it has met them.
///
/// Votes count only if all of them go by the same list: otherwise two majorities need not meet.
#[derive(Clone, Debug)]
pub struct Council {
    seats: Box<[Seat]>,
    max_ttl_ms: u64,
    guard_ms: u64,
    pact: Option<Pact>,
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
    met: Option<Met>,
    /// It votes, for all we know.
    is_here: bool,
    /// When it was first heard with the mark that it has.
    since: u64,
    /// When it was asked what it has answered last: it had that mark until then, at least.
    asked_last: u64,
    /// When it was last asked.
    asked: u64,
}

impl Seat {
    fn goes_by(&self, pact: &Pact) -> bool {
        let told = self.met.as_ref().and_then(|met| met.pact.as_ref());
        told.is_some_and(|told| goes_by(told, pact))
    }

    fn is_new(&self) -> bool {
        self.met.as_ref().is_some_and(|met| met.pact.is_none())
    }
}

/// What is to be done about a node that was met.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opinion {
    /// It votes, for as long as it has this mark.
    Votes(Mark),
    /// It does not vote yet.
    Waits {
        /// Why it is doubted.
        why: Doubt,
        /// For how many milliseconds more.
        left_ms: u64,
    },
    /// It does not vote yet, and must be given its place first; the wall clock is to be put in.
    Enrol(Enrolment),
    /// It has not heard of the latest change of the set, and must be told.
    Tell {
        /// Its mark.
        mark: Mark,
        /// What to tell it.
        pact: Pact,
    },
    /// It does not vote for us.
    Differs(Disagreement),
}

impl Council {
    /// A client with nodes at these addresses, none of which it has met.
    #[must_use]
    pub fn new(labels: impl IntoIterator<Item = Arc<str>>, max_ttl_ms: u64, guard_ms: u64) -> Self {
        let (since, asked_last, asked) = (0, 0, 0);
        let seat = |label| Seat { label, met: None, is_here: false, since, asked_last, asked };
        let seats = labels.into_iter().map(seat).collect();
        let (pact, is_sure, is_vouched, moment) = (None, false, false, 0);
        Self { seats, max_ttl_ms, guard_ms, pact, is_sure, is_vouched, moment }
    }

    /// What the nodes have agreed upon, if any of them has told.
    #[must_use]
    pub const fn pact(&self) -> Option<&Pact> {
        self.pact.as_ref()
    }

    /// What the nodes told before does not count: each that does not vote must be met again.
    pub fn forget(&mut self) {
        self.seats.iter_mut().filter(|seat| !seat.is_here).for_each(|seat| seat.met = None);
    }

    /// The same for those that vote: all of them must be met again.
    pub fn forget_all(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        self.forget();
    }

    /// Nothing that was told before counts. What was only looked at has left no trace on the nodes:
    /// whoever acts must meet each of them again.
    pub fn start_over(&mut self) {
        self.forget_all();
        self.seats.iter_mut().for_each(|seat| seat.since = 0);
        (self.pact, self.is_sure) = (None, false);
    }

    /// What would be done about each node if all of them were met again, at one moment, and were
    /// still what they told last. An operator decides by this before anything is written.
    #[must_use]
    pub fn outlook(&self, is_vouched: bool) -> Vec<Option<Opinion>> {
        let mut council = Self { is_vouched, ..self.clone() };
        let mut opinions = vec![None; council.seats.len()];
        // Only when all have been heard does each know about all others.
        for node in (0..opinions.len()).chain(0..opinions.len()) {
            if let Some(met) = council.seats[node].met.clone() {
                council.ask(node);
                opinions[node] = Some(council.hear(node, met).0);
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
    pub fn propose(&mut self, pact: Pact) {
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        self.pact = Some(pact);
        self.is_sure = true;
    }

    /// What was proposed is not: what the nodes told last counts again.
    pub fn retract(&mut self) {
        let told = self.seats.iter().filter_map(|seat| seat.met.as_ref()?.pact.as_ref());
        self.pact = told.max_by_key(|pact| pact.change).cloned();
        self.seats.iter_mut().for_each(|seat| seat.is_here = false);
    }

    /// What each node told last.
    pub fn met(&self) -> impl Iterator<Item = (&Arc<str>, Option<&Met>)> {
        self.seats.iter().map(|seat| (&seat.label, seat.met.as_ref()))
    }

    /// Whether the nodes that were met have agreed on the longest ttl that the client has.
    ///
    /// # Errors
    ///
    /// [`Disagreement::MaxTtl`], if one of them has another.
    pub fn check_terms(&self) -> Result<(), Disagreement> {
        let ours_ms = self.max_ttl_ms;
        let told = self.seats.iter().filter_map(|seat| seat.met.as_ref()?.pact.as_ref());
        match told.map(|pact| pact.max_ttl_ms).find(|agreed_ms| *agreed_ms != ours_ms) {
            Some(agreed_ms) => Err(Disagreement::MaxTtl { agreed_ms, ours_ms }),
            None => Ok(()),
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

    /// A session goes on: the node is what it was.
    pub fn hear_again(&mut self, node: usize) {
        let seat = &mut self.seats[node];
        seat.asked_last = seat.asked;
    }

    /// A node has told what it is. Says what to do about it, and whether what the others were
    /// judged by has changed: then they must be met again.
    pub fn hear(&mut self, node: usize, met: Met) -> (Opinion, bool) {
        let is_changed = self.weigh(node, &met);
        if is_changed {
            self.seats.iter_mut().for_each(|seat| seat.is_here = false);
        }
        self.moment = self.moment.saturating_add(1);
        let seat = &mut self.seats[node];
        // A pact can come without a mark: by a place among the others.
        let is_same = |known: &Met| (known.mark, &known.pact) == (met.mark, &met.pact);
        if !seat.met.as_ref().is_some_and(is_same) {
            seat.since = self.moment;
        }
        seat.asked_last = seat.asked;
        let met = seat.met.insert(met).clone();
        if self.are_all_new() {
            self.found();
        }
        let opinion = self.judge(node, &met).unwrap_or_else(Opinion::Differs);
        self.seats[node].is_here = matches!(opinion, Opinion::Votes(_));
        (opinion, is_changed)
    }

    /// Takes over what a node knows of the set, if that is news. Returns true if another list was
    /// in force.
    fn weigh(&mut self, node: usize, met: &Met) -> bool {
        let Some(told) = &met.pact else { return false };
        let is_sure = met.doubt.is_none() || met.is_enrolled;
        let is_news = match &self.pact {
            None => true,
            Some(known) if known.origin == told.origin => known.change < told.change,
            // A set that only we remember is none.
            Some(known) => !self.is_backed(node, known) || is_sure && !self.is_sure,
        };
        self.is_sure |= is_sure;
        is_news && self.pact.replace(told.clone()).is_some()
    }

    /// Whether another node belongs to this set, for all we know.
    fn is_backed(&self, node: usize, pact: &Pact) -> bool {
        let told = |seat: &Seat| seat.met.as_ref()?.pact.as_ref().map(|it| it.origin);
        self.others(node).any(|seat| told(seat) == Some(pact.origin))
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
        let id = self.seats[node].met.as_ref().map(|met| met.id)?;
        self.others(node).find(|seat| seat.met.as_ref().is_some_and(|met| met.id == id))
    }

    /// All nodes are new, or have forgotten what we remember: they become a set, the same for
    /// everybody.
    fn found(&mut self) {
        self.is_sure = false;
        let member = |seat: &Seat| {
            let met = seat.met.as_ref()?;
            Some(Member { id: met.id, label: seat.label.clone() })
        };
        let members = self.seats.iter().map(member).collect::<Option<Vec<_>>>();
        self.pact = members
            .and_then(|it| Pact::founded_by(Members::new(it), self.max_ttl_ms, self.guard_ms));
    }

    fn judge(&self, node: usize, met: &Met) -> Result<Opinion, Disagreement> {
        let Some(pact) = &self.pact else {
            // A list in which two have one name would never be agreed upon.
            if let Some(twin) = self.twin(node) {
                return Err(Disagreement::SameNode { label: twin.label.clone() });
            }
            return match met.doubt {
                Some((why, left_ms)) => Ok(Opinion::Waits { why, left_ms }),
                None => Err(Disagreement::OtherSet),
            };
        };
        let Some(view) = pact.view(self.seats.len()) else {
            let (agreed, ours) = (pact.members.clone(), self.seats.len());
            return Err(Disagreement::Count { agreed, ours });
        };
        if pact.max_ttl_ms != self.max_ttl_ms {
            let (agreed_ms, ours_ms) = (pact.max_ttl_ms, self.max_ttl_ms);
            return Err(Disagreement::MaxTtl { agreed_ms, ours_ms });
        }
        // Two clients may have founded the set at the same time, and with different terms.
        let told = met.pact.as_ref().filter(|told| told.change == pact.change);
        if let Some(told) = told.filter(|told| told.max_ttl_ms != self.max_ttl_ms) {
            let (agreed_ms, ours_ms) = (told.max_ttl_ms, self.max_ttl_ms);
            return Err(Disagreement::MaxTtl { agreed_ms, ours_ms });
        }
        match met.doubt {
            Some(doubt) => self.judge_doubted(node, met, pact, doubt),
            None => self.judge_trusted(node, met, pact, view),
        }
    }

    fn judge_doubted(
        &self,
        node: usize,
        met: &Met,
        pact: &Pact,
        (why, left_ms): (Doubt, u64),
    ) -> Result<Opinion, Disagreement> {
        let waits = Opinion::Waits { why, left_ms };
        let label = &self.seats[node].label;
        let slot = pact.members.at(label).or_else(|| self.any_slot(node, met, pact));
        let Some(slot) = slot else {
            return Err(Disagreement::NotMember { agreed: pact.members.clone() });
        };
        let is_told = met.pact.as_ref().is_some_and(|told| told.change >= pact.change);
        if met.is_enrolled && is_told {
            return Ok(waits);
        }
        if !self.may_enrol(node, met, slot.id, pact) {
            // It can be counted by others when it has heard of the change, if not by itself.
            let is_behind = |told: &Pact| told.origin == pact.origin && told.change < pact.change;
            return Ok(match met.pact.as_ref().is_some_and(is_behind) {
                true => Opinion::Tell { mark: met.mark, pact: pact.clone() },
                false => waits,
            });
        }
        let (mark, id, pact) = (met.mark, slot.id, pact.clone());
        Ok(Opinion::Enrol(Enrolment { mark, id, pact, wall_ms: 0 }))
    }

    fn any_slot<'a>(&self, node: usize, met: &Met, pact: &'a Pact) -> Option<&'a Member> {
        let is_taken = |id| {
            let mut others = self.others(node);
            others.any(|other| other.met.as_ref().is_some_and(|it| it.id == id))
        };
        let is_free = |member: &&Member| member.id == met.id || !is_taken(member.id);
        mutant::is_on(Mutant::AnyLabel).then(|| pact.members.iter().find(is_free)).flatten()
    }

    /// Enough others go by this list that no later one can have been agreed upon without them, by
    /// as many as are a majority with the node itself: it may have been one of those, and has
    /// forgotten. Or all are there, and nobody has ever gone by another list. For one that was no
    /// node before they must be a majority of the nodes before it: none can be had any more by
    /// whoever goes by the list before, nor by another one that was made at the same time.
    fn may_enrol(&self, node: usize, met: &Met, id: NodeId, pact: &Pact) -> bool {
        let goes = |seat: &Seat| seat.goes_by(pact);
        let is_open = |seat: &Seat| seat.is_new() || seat.goes_by(pact);
        let nodes = pact.members.len();
        if pact.newcomer == Some(id) {
            let needed = majority(pact.before.as_ref().map_or(nodes, Members::len));
            let counted = usize::from(mutant::is_on(Mutant::HastyNewcomer));
            return self.at_once(node, goes).saturating_add(counted) >= needed;
        }
        // A clock that was set forward has made it forget locks, and nothing else.
        let is_mindful = matches!(met.doubt, Some((Doubt::ClockStepped, _)));
        let knows = usize::from(is_mindful && goes(&self.seats[node]));
        let nodes = pact.before.as_ref().map_or(nodes, |before| nodes.max(before.len()));
        let needed = nodes.div_ceil(2).min(nodes.saturating_sub(1));
        let is_founded = || self.at_once(node, is_open) >= self.seats.len().saturating_sub(1);
        self.is_vouched && self.is_backed(node, pact)
            || self.at_once(node, goes).saturating_add(knows) >= needed
            || pact.change == 1 && is_founded()
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
        met: &Met,
        pact: &Pact,
        view: &Members,
    ) -> Result<Opinion, Disagreement> {
        let told = met.pact.as_ref().ok_or(Disagreement::OtherSet)?;
        if told.origin != pact.origin {
            return Err(Disagreement::OtherSet);
        }
        let is_any = mutant::is_on(Mutant::AnyPact);
        if !view.has(met.id) && !is_any {
            return Err(Disagreement::NotMember { agreed: pact.members.clone() });
        }
        if told.change < pact.change && !is_any {
            return Ok(Opinion::Tell { mark: met.mark, pact: pact.clone() });
        }
        if told.change == pact.change && !told.members.are(&pact.members) {
            return Err(Disagreement::OtherList { agreed: told.members.clone() });
        }
        // While two lists are in use, majorities of the new one need not meet those of yet another
        // one that was made at the same time, unless most of the nodes before go by it.
        if let Some(before) = &pact.before {
            let goes = |seat: &&Seat| seat.goes_by(pact);
            let (heard, needed) = (self.seats.iter().filter(goes).count(), majority(before.len()));
            if heard < needed && !is_any {
                return Err(Disagreement::Unsettled { heard, needed });
            }
        }
        // A server that votes without a guard after a restart must not do so with another's record.
        let slot = view.at(&self.seats[node].label);
        let is_elsewhere = slot.is_some_and(|slot| slot.id != met.id);
        if met.is_durable && is_elsewhere && !mutant::is_on(Mutant::DurableAnyPlace) {
            return Err(Disagreement::OtherPlace);
        }
        let is_same = |seat: &&Seat| {
            seat.is_here && seat.met.as_ref().is_some_and(|other| other.id == met.id)
        };
        match self.others(node).find(is_same) {
            Some(twin) => Err(Disagreement::SameNode { label: twin.label.clone() }),
            None => Ok(Opinion::Votes(met.mark)),
        }
    }

    fn others(&self, node: usize) -> impl Iterator<Item = &Seat> {
        self.seats.iter().enumerate().filter(move |(number, _)| *number != node).map(|it| it.1)
    }
}

/// What a client and the nodes see differently.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Disagreement {
    /// How many nodes there are.
    Count {
        /// The nodes that were agreed upon.
        agreed: Members,
        /// How many the client has.
        ours: usize,
    },
    /// The longest ttl.
    MaxTtl {
        /// What was agreed upon.
        agreed_ms: u64,
        /// The client's.
        ours_ms: u64,
    },
    /// Whether this server is one of the nodes.
    NotMember {
        /// The nodes that were agreed upon.
        agreed: Members,
    },
    /// Which nodes there are: this one was told of others at the same change.
    OtherList {
        /// The nodes that it was told of.
        agreed: Members,
    },
    /// Whether a change of the set was agreed upon: too few nodes have heard of it yet.
    Unsettled {
        /// How many have.
        heard: usize,
        /// How many must.
        needed: usize,
    },
    /// Which set this is: this node is of another one.
    OtherSet,
    /// Which of the nodes this is: it has the record of another.
    OtherPlace,
    /// Whether it is one node or two: another address leads to the same one.
    SameNode {
        /// The other address.
        label: Arc<str>,
    },
    /// The version of the record.
    Wire {
        /// The record's.
        agreed: u32,
    },
    /// Whether nodes are guarded: they are, and this client does not want that.
    Guard,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { agreed, ours } => write!(
                f,
                "the nodes have agreed to be {} ({agreed}), this client has {ours}",
                agreed.len()
            ),
            Self::MaxTtl { agreed_ms, ours_ms } => write!(
                f,
                "the nodes have agreed on a max_ttl of {agreed_ms} ms, this client has {ours_ms} ms"
            ),
            Self::NotMember { agreed } => write!(
                f,
                "the nodes have agreed on {agreed}, this client has another address for one of them"
            ),
            Self::OtherList { agreed } => write!(
                f,
                "this node was told of {agreed} by a change that the others have not heard of"
            ),
            Self::Unsettled { heard, needed } => write!(
                f,
                "the set of nodes is being changed: {heard} of the {needed} nodes that are needed \
                 have heard of it"
            ),
            Self::OtherPlace => f.write_str("this node has the record of another one"),
            Self::OtherSet => f.write_str("this node belongs to another set of nodes"),
            Self::SameNode { label } => write!(f, "is the same node as {label}"),
            Self::Wire { agreed } => write!(
                f,
                "the node's record has version {agreed}, this client reads version {}",
                super::WIRE
            ),
            Self::Guard => {
                f.write_str("the nodes are under the restart guard, which this client has off")
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The record of a node about itself, and when the node goes into quarantine.

use super::{
    AgreedConfig, BACK_TOLERANCE_MS, Command, Enrolment, Handshake, Known, Mark, NodeId, NodeInfo,
    Quarantine, Reason, Reply, STEP_TOLERANCE_MS, WALL_TOLERANCE_MS,
};
use crate::{command::SessionTerms, moment::NodeTime};

/// The membership of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Node {
    record: Option<Record>,
    /// The run of the server.
    run: u64,
}

/// The record of a node about itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Record {
    /// The run of the server that wrote it.
    run: u64,
    mark: Mark,
    id: NodeId,
    config: Option<AgreedConfig>,
    is_enrolled: bool,
    is_durable: bool,
    /// Why the node is in quarantine, and since when.
    quarantined: Option<(Reason, Instant)>,
    /// When a client last attached or pinged, by the node's clock and by the client's.
    seen: Instant,
    /// When the config last changed.
    changed_ms: u64,
    /// When the node last went into quarantine, by its own clock.
    quarantined_ms: u64,
    /// Until when clients must not request locks from it, by its own clock.
    recovers_until_ms: u64,
}

/// One instant on two clocks. No single clock decides when the quarantine ends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Instant {
    node_ms: u64,
    wall_ms: u64,
}

impl Instant {
    const fn new(now: NodeTime, wall_ms: u64) -> Self {
        Self { node_ms: now.as_millis(), wall_ms }
    }

    /// The remaining quarantine time, by the slower clock.
    fn left_ms(self, now: Self, quarantine_ms: u64) -> u64 {
        let node_ms = now.node_ms.saturating_sub(self.node_ms);
        let wall_ms = now.wall_ms.saturating_sub(self.wall_ms);
        let passed_ms = node_ms.min(wall_ms);
        mutate!(QuarantineByNodeClock => let passed_ms = node_ms);
        quarantine_ms.saturating_sub(passed_ms)
    }
}

impl Node {
    pub(crate) const fn new(run: u64) -> Self {
        Self { record: None, run }
    }

    /// Begins another run: the server was restarted, or another server serves its data.
    pub const fn set_run(&mut self, run: u64) {
        self.run = run;
    }

    /// The same server without a record.
    pub(crate) const fn cleared(&self) -> Self {
        Self::new(self.run)
    }

    /// The same server with the record of another.
    pub(crate) fn with_record_of(&self, other: &Self) -> Self {
        Self { record: other.record.clone(), run: self.run }
    }

    /// The origin of its set, and whether it votes there, for simulations.
    #[must_use]
    pub fn origin(&self) -> Option<(NodeId, bool)> {
        let record = self.record.as_ref()?;
        record.config.as_ref().map(|config| (config.origin, record.quarantined.is_none()))
    }

    /// When a client last attached or pinged, if this run has written the record, for simulations.
    /// Such a record cannot be distinguished from one that was never away.
    #[must_use]
    pub fn seen_ms(&self) -> Option<u64> {
        let record = self.record.as_ref().filter(|record| record.run == self.run);
        record.map(|record| record.seen.node_ms)
    }

    /// Whether the command would create the record.
    pub(crate) const fn is_creating(&self, command: &Command) -> bool {
        let is_handshake = matches!(command, Command::Handshake(it) if !it.is_read_only);
        is_handshake && self.record.is_none()
    }

    /// Executes a command on a node that has this number of keys. `None`: the node has another mark
    /// or is not in a state for the command, and nothing was done.
    pub(crate) fn apply(&mut self, now: NodeTime, command: &Command, keys: u64) -> Option<Reply> {
        match command {
            Command::Handshake(handshake) => {
                Some(Reply::Info(Box::new(self.handshake(now, handshake, keys))))
            }
            Command::Enrol(enrolment) => self.enrol(now, enrolment),
            Command::Change { mark, config, fresh } => self.change(now, *mark, config, *fresh),
            Command::Admit { mark, fresh } => self.admit(*mark, *fresh, keys),
        }
    }

    fn handshake(&mut self, now: NodeTime, handshake: &Handshake, keys: u64) -> NodeInfo {
        let at = Instant::new(now, handshake.wall_ms);
        let run = self.run;
        let before = handshake.is_read_only.then(|| self.record.clone());
        mutate!(WritingInspect => let before = None);
        // A node without a record is in quarantine for that reason.
        let reason = self.record.as_ref().and_then(|record| record.reason(at, run, handshake));
        let record = self.record.get_or_insert_with(|| Record::new(run, at, handshake));
        let is_kept = reason == Some(Reason::OtherRun) && record.has_kept_all(handshake);
        record.run = run;
        // The restart has lost nothing, unless the clocks disagree.
        let reason = if is_kept { record.reason(at, run, handshake) } else { reason };
        mutate!(DurableAnyClock if is_kept => let reason = None);
        match reason {
            Some(reason) => {
                // The name came with the data of another node, and no set knows this node by it.
                if reason == Reason::OtherRun && record.config.is_none() {
                    record.id = handshake.id;
                }
                record.mark = handshake.mark;
                record.quarantined = Some((reason, at));
                record.quarantined_ms = at.node_ms;
                record.is_enrolled = false;
            }
            None if is_kept => {
                record.mark = handshake.mark;
                record.quarantined = None;
                record.is_enrolled = true;
            }
            None => record.end_quarantine(at, handshake),
        }
        record.is_durable = handshake.is_durable && record.may_be_durable();
        record.see(at);
        let info = record.info(at, now.as_micros(), handshake, keys);
        if let Some(before) = before {
            self.record = before;
        }
        info
    }

    fn enrol(&mut self, now: NodeTime, enrolment: &Enrolment) -> Option<Reply> {
        let Enrolment { mark, id, config, wall_ms } = enrolment;
        let record = self.marked(*mark)?;
        let (_, since) = record.quarantined.as_mut()?;
        let known = record.config.as_ref().map_or(0, |config| config.change);
        if record.is_enrolled && known >= config.change {
            return Some(Reply::Enrolled);
        }
        record.id = *id;
        record.config = Some(config.clone());
        record.is_enrolled = true;
        let began = Instant::new(now, *wall_ms);
        mutate!(QuarantineFromCause => let began = *since);
        *since = began;
        // The node has now received this change. Before the first change no client uses another
        // config.
        if config.change > 1 {
            record.changed_ms = now.as_millis();
        }
        Some(Reply::Enrolled)
    }

    fn change(
        &mut self,
        now: NodeTime,
        mark: Mark,
        config: &AgreedConfig,
        fresh: Mark,
    ) -> Option<Reply> {
        let record = self.marked(mark)?;
        let is_next =
            |known: &AgreedConfig| known.origin == config.origin && known.change < config.change;
        record.config.as_ref().filter(|known| is_next(known))?;
        let left_ms = record.changes_in_ms(now.as_millis());
        if left_ms > 0 {
            return Some(Reply::TooSoon { left_ms });
        }
        record.config = Some(config.clone());
        record.mark = fresh;
        record.changed_ms = now.as_millis();
        Some(Reply::Changed)
    }

    fn admit(&mut self, mark: Mark, fresh: Mark, keys: u64) -> Option<Reply> {
        mutate!(AdmitAnything => let keys = 0);
        let record = self.marked(mark)?;
        let is_new = record.quarantined.is_some_and(|(reason, _)| reason == Reason::Unknown);
        mutate!(AdmitAnything => let is_new = true);
        if !is_new || !record.is_enrolled {
            return None;
        }
        if keys > 0 {
            return Some(Reply::Holds { keys });
        }
        record.quarantined = None;
        record.mark = fresh;
        Some(Reply::Admitted)
    }

    fn marked(&mut self, mark: Mark) -> Option<&mut Record> {
        self.record.as_mut().filter(|record| record.mark == mark)
    }

    /// Whether the node is in quarantine.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.quarantined.is_some())
    }

    /// Whether a session with these terms may continue: the client knows the node's present mark.
    pub(crate) fn lets_go_on(&self, terms: &SessionTerms) -> bool {
        match (&self.record, terms.mark) {
            (None, None) => true,
            // A client with quarantine has contacted the server, but it belongs to no set yet.
            (Some(record), None) => record.config.is_none(),
            (Some(record), Some(mark)) => {
                mutate!(AnyMark => let mark = record.mark);
                record.mark == mark && record.quarantined.is_none()
            }
            (None, Some(_)) => false,
        }
    }

    /// Whether a session may begin. Without this check, a step of the clock since the handshake
    /// would go unnoticed.
    pub(crate) fn lets_begin(&self, now: NodeTime, terms: &SessionTerms) -> bool {
        mutate!(LateSession => return true);
        let seen_ms = self.record.as_ref().map_or(0, |record| record.seen.node_ms);
        let is_late = now.as_millis() > seen_ms.saturating_add(terms.lifetime_ms);
        terms.mark.is_none() || !is_late
    }

    /// Records that a client has attached or pinged.
    pub(crate) fn see(&mut self, now: NodeTime, wall_ms: u64) {
        if let Some(record) = &mut self.record {
            record.see(Instant::new(now, wall_ms));
        }
    }
}

impl Record {
    const fn new(run: u64, at: Instant, handshake: &Handshake) -> Self {
        Self {
            run,
            mark: handshake.mark,
            id: handshake.id,
            config: None,
            is_enrolled: false,
            is_durable: false,
            quarantined: Some((Reason::Unknown, at)),
            seen: at,
            changed_ms: 0,
            quarantined_ms: at.node_ms,
            recovers_until_ms: 0,
        }
    }

    /// Why the node may have forgotten locks, if it may.
    fn reason(&self, now: Instant, run: u64, handshake: &Handshake) -> Option<Reason> {
        mutate!(AnyRun => let run = self.run);
        if self.run != run {
            return Some(Reason::OtherRun);
        }
        // What a client saw before the last quarantine says nothing about the time since.
        let known = handshake.known.filter(|known| known.seen_ms >= self.quarantined_ms);
        if known.is_some_and(|known| self.is_rolled_back(known)) {
            return Some(Reason::RolledBack);
        }
        self.has_stepped(now, known, handshake.lifetime_ms).then_some(Reason::ClockStepped)
    }

    /// Whether its data is older than what a client has seen of it.
    fn is_rolled_back(&self, known: Known) -> bool {
        mutate!(NoRollbackCheck => return false);
        self.seen.node_ms < known.seen_ms
    }

    /// Whether its clock was set forward.
    fn has_stepped(&self, now: Instant, known: Option<Known>, lifetime_ms: u64) -> bool {
        mutate!(NoStepCheck => return false);
        let is_beyond = |known: Known| {
            let latest_ms = known.expected_ms.saturating_add(STEP_TOLERANCE_MS);
            // If another client was connected later than that, the clock of this client stood
            // still.
            now.node_ms > latest_ms && self.seen.node_ms <= latest_ms
        };
        // All sessions have expired: either no client was connected, or the node's clock has
        // stepped. The clients' clocks show which.
        let gap_ms = now.node_ms.saturating_sub(self.seen.node_ms);
        let wall_gap_ms = now.wall_ms.saturating_sub(self.seen.wall_ms);
        let is_ahead = gap_ms > wall_gap_ms.saturating_add(WALL_TOLERANCE_MS);
        known.is_some_and(is_beyond) || gap_ms > lifetime_ms && is_ahead
    }

    /// Whether a restart has lost nothing: the node wrote everything to disk before it answered,
    /// and still does.
    fn has_kept_all(&self, handshake: &Handshake) -> bool {
        let (was_durable, is_durable) = (self.is_durable, handshake.is_durable);
        mutate!(NewlyDurable => let was_durable = true);
        mutate!(OnceDurable => let is_durable = true);
        was_durable && is_durable && self.may_be_durable()
    }

    /// A node in quarantine may have forgotten locks already. A restart must not end the
    /// quarantine.
    fn may_be_durable(&self) -> bool {
        mutate!(DurableInQuarantine => return true);
        self.quarantined.is_none()
    }

    /// Ends the quarantine if its time has passed on both clocks and the node has its place.
    fn end_quarantine(&mut self, now: Instant, handshake: &Handshake) {
        let Some((_, since)) = &mut self.quarantined else { return };
        // If the node's clock was set back, that must not extend the quarantine.
        since.node_ms = since.node_ms.min(now.node_ms);
        // The same holds if the clock of the client that began the quarantine was ahead.
        if now.wall_ms.saturating_add(WALL_TOLERANCE_MS) < since.wall_ms {
            since.wall_ms = now.wall_ms;
        }
        let Some(config) = self.config.as_ref().filter(|_| self.is_enrolled) else { return };
        let left_ms = since.left_ms(now, config.quarantine_ms);
        mutate!(NoQuarantine => let left_ms = 0);
        if left_ms == 0 {
            self.quarantined = None;
            self.mark = handshake.mark;
            self.recovers_until_ms = now.node_ms.saturating_add(handshake.lifetime_ms);
        }
    }

    /// The remaining time in which holders renew their locks on the node before clients request
    /// locks from it. If the clock was set back, that must not extend the recovery.
    fn recovers_in_ms(&self, now: Instant, lifetime_ms: u64) -> u64 {
        mutate!(NoRecovery | NoQuarantine => return 0);
        let left_ms = self.recovers_until_ms.saturating_sub(now.node_ms);
        let is_set_back = left_ms > lifetime_ms.saturating_add(BACK_TOLERANCE_MS);
        if is_set_back { 0 } else { left_ms.min(lifetime_ms) }
    }

    /// Records when a client attached or pinged. A clock that was set back is recorded too: keys
    /// that are stored by it expire immediately when it is corrected, and the record must show
    /// that.
    fn see(&mut self, now: Instant) {
        let is_back = now.node_ms.saturating_add(BACK_TOLERANCE_MS) < self.seen.node_ms;
        if now.node_ms >= self.seen.node_ms || is_back {
            self.seen = now;
        }
    }

    /// For how long it accepts no other config: no client may use the config before the last one
    /// any more.
    fn changes_in_ms(&self, now_ms: u64) -> u64 {
        mutate!(HastyChange => return 0);
        let config = self.config.as_ref().filter(|_| self.changed_ms > 0);
        let Some(config) = config else { return 0 };
        let due_ms = self.changed_ms.min(now_ms).saturating_add(config.quarantine_ms);
        due_ms.saturating_sub(now_ms)
    }

    fn info(&self, now: Instant, time_us: u64, handshake: &Handshake, keys: u64) -> NodeInfo {
        let agreed_ms = self.config.as_ref().map(|config| config.quarantine_ms);
        let quarantine_ms = agreed_ms.unwrap_or(handshake.quarantine_ms);
        // The quarantine time begins only when the node has its place.
        let left_ms = |since: Instant| match self.is_enrolled {
            true => since.left_ms(now, quarantine_ms),
            false => quarantine_ms,
        };
        let quarantine = self.quarantined;
        let quarantine =
            quarantine.map(|(reason, since)| Quarantine { reason, left_ms: left_ms(since) });
        NodeInfo {
            time_us,
            mark: self.mark,
            id: self.id,
            config: self.config.clone(),
            is_enrolled: self.is_enrolled,
            quarantine,
            is_durable: self.is_durable,
            keys,
            changes_in_ms: self.changes_in_ms(now.node_ms),
            recovers_in_ms: self.recovers_in_ms(now, handshake.lifetime_ms),
        }
    }
}

//! Random commands of quarantine, with few instants and marks, so that they collide.

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Command, Reply, SessionTerms, Value},
    membership::{
        AgreedConfig, BACK_TOLERANCE_MS, Command as Membership, Enrolment, Handshake, Known, Mark,
        Member, Members, NodeId, NodeInfo, Reply as MembershipReply, SESSION_LIFE_MS,
        STEP_TOLERANCE_MS,
    },
    moment::NodeTime,
    name::Name,
    queue::{Sender, Session},
    store::Store,
};

use super::super::{
    batch::Memory,
    keys::{PREFIX, session_key},
};

/// One thing that is done to both sides.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// One of our own commands.
    Ask(Command),
    /// Another program stores something.
    Plant { name: Name, ttl_ms: Option<u64> },
    /// Another program deletes that.
    Forget { name: Name },
    /// Every key is deleted.
    Clear,
    /// The server has no memory left from now on, or has some again.
    Fill(bool),
    /// The record is that of another run from now on, until the next handshake.
    OtherRun,
}

impl Step {
    /// Does it to the store; `run` counts its runs. Only our own commands have a reply.
    pub(super) fn apply(&self, store: &mut Store, run: &mut u64, now: NodeTime) -> Option<Reply> {
        match self {
            Self::Ask(command) => return Some(store.apply(now, command)),
            Self::Plant { name, ttl_ms } => {
                store.plant(now, name, Value::Text(b"something".as_slice().into()), *ttl_ms);
            }
            Self::Forget { name } => drop(store.forget(name)),
            Self::Clear => store.clear(),
            Self::Fill(is_full) => store.set_full(*is_full),
            Self::OtherRun => {
                *run += 1;
                store.membership.set_run(*run);
            }
        }
        None
    }
}

/// Draws steps, all of which follow from one seed and from what the store would do.
pub(super) struct Draw {
    jitter: Jitter,
    memory: Memory,
    callers: Vec<Caller>,
    /// Which of them sends the command.
    at: usize,
    planted: Name,
    /// All marks of the node, the last one last.
    marks: Vec<Mark>,
    /// What the node knows about the set.
    config: Option<AgreedConfig>,
    /// What the clocks of the clients with correct clocks show.
    wall_ms: u64,
    /// When the node was last seen, quarantined, enrolled, and given another set.
    instants: [Instant; 4],
    next: u128,
}

/// A client.
struct Caller {
    client: ClientId,
    session: Session,
    /// How far its wall clock is ahead.
    ahead_ms: u64,
    /// When it was last answered.
    answered: Option<Instant>,
}

/// One instant on two clocks.
#[derive(Clone, Copy, Default)]
struct Instant {
    node_ms: u64,
    wall_ms: u64,
}

impl Draw {
    pub(super) fn new(jitter: Jitter, memory: Memory, wall_ms: u64) -> Self {
        let caller = |(byte, ahead_ms)| Caller {
            client: ClientId::from_random([byte; 20]),
            session: Session::from_random(0),
            ahead_ms,
            answered: None,
        };
        Self {
            jitter,
            memory,
            callers: [(1, 0), (0xa2, 60), (0xff, 4_000)].map(caller).into(),
            at: 0,
            planted: Name::parse("x", PREFIX).expect("a name"),
            marks: vec![Mark::from_random(0)],
            config: None,
            wall_ms,
            instants: [Instant { node_ms: wall_ms, wall_ms }; 4],
            next: 0,
        }
    }

    /// The keys that end by themselves.
    pub(super) fn keys(&self) -> Vec<String> {
        let sessions = self.callers.iter().map(|caller| session_key(caller.client));
        sessions.chain([self.planted.to_string()]).collect()
    }

    /// Lets time pass, or sets clocks: what the node's shows next, and how many microseconds of
    /// that millisecond have passed.
    pub(super) fn set_clocks(&mut self, now_ms: u64) -> (u64, u64) {
        let span_ms = self.span_ms();
        let due_ms = self.instant().node_ms + span_ms;
        let due_ms = self.around(due_ms);
        let (node_ms, passed_ms) = match self.up_to(39) {
            0..=15 => self.both(now_ms, 8),
            16..=20 => self.both(now_ms, 7_000),
            21 => self.both(now_ms, 86_400_000),
            22..=29 => (due_ms.max(now_ms), due_ms.saturating_sub(now_ms)),
            30 | 31 => (due_ms, 0),
            32 | 33 => (self.around(now_ms - BACK_TOLERANCE_MS), 0),
            34 => (now_ms - self.up_to(100_000), 0),
            35 => (now_ms + self.up_to(86_400_000), 0),
            36 => (now_ms + self.up_to(5_000), 0),
            _ => (now_ms, self.up_to(25_000)),
        };
        self.wall_ms += passed_ms;
        (node_ms, [0, 1, 500, 999][self.index(4)])
    }

    /// Time passes for the node and for the clients.
    const fn both(&mut self, now_ms: u64, passed_ms_max: u64) -> (u64, u64) {
        let passed_ms = self.up_to(passed_ms_max);
        (now_ms + passed_ms, passed_ms)
    }

    fn instant(&mut self) -> Instant {
        let index = self.index(self.instants.len());
        self.instants[index]
    }

    /// Something may have expired after this time.
    fn span_ms(&mut self) -> u64 {
        let quarantine_ms = self.config.as_ref().map_or(100, |config| config.quarantine_ms);
        let index = self.index(7);
        let others = [SESSION_LIFE_MS, LONG_LIFE_MS, BACK_TOLERANCE_MS, STEP_TOLERANCE_MS];
        others.get(index).copied().unwrap_or(quarantine_ms)
    }

    /// The steps of one batch. `store` is a copy, to see what would come.
    pub(super) fn batch(&mut self, mut store: Store, mut run: u64, now: NodeTime) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..3 + self.up_to(9) {
            // Now and then a session is the first to see that a clock was set.
            let is_ping = steps.is_empty() && self.up_to(1) == 0;
            let step = self.step(&store, now, is_ping);
            let reply = step.apply(&mut store, &mut run, now);
            if let (Step::Ask(command), Some(reply)) = (&step, &reply) {
                self.handle(command, reply, now.as_millis());
            }
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, store: &Store, now: NodeTime, is_ping: bool) -> Step {
        let at = self.index(self.callers.len());
        self.at = at;
        let is_full = store.is_full();
        if self.memory.changes(is_full, |last| self.up_to(last)) {
            return Step::Fill(!is_full);
        }
        let is_recorded = is_recorded(store, now);
        let kind = match is_recorded || self.up_to(2) == 0 {
            _ if is_ping => 80,
            true => self.up_to(99),
            // Without quarantine there are only sessions.
            false => 70 + self.up_to(20),
        };
        Step::Ask(match kind {
            0..=34 => {
                Command::Membership(Membership::Handshake(self.handshake(at, now.as_millis())))
            }
            35..=52 => {
                let (mark, id, config) = (self.mark(), self.id(), self.new_config());
                let wall_ms = self.wall(at, now.as_millis());
                Command::Membership(Membership::Enrol(Enrolment { mark, id, config, wall_ms }))
            }
            53..=61 => {
                let (mark, config, fresh) = (self.mark(), self.new_config(), self.fresh());
                Command::Membership(Membership::Change { mark, config, fresh })
            }
            62..=69 => {
                Command::Membership(Membership::Admit { mark: self.mark(), fresh: self.fresh() })
            }
            70..=79 => {
                if self.up_to(3) > 0 {
                    self.next += 1;
                    self.callers[at].session = Session::from_random(self.next << 64);
                }
                let terms = self.terms(at, now.as_millis(), is_recorded);
                Command::Attach { sender: self.sender(at), terms }
            }
            80..=90 => {
                let terms = self.terms(at, now.as_millis(), is_recorded);
                Command::Ping { sender: self.sender(at), terms }
            }
            // Another program may store nothing on a full server.
            91 | 92 | 96.. if is_full => Command::Ping {
                terms: self.terms(at, now.as_millis(), is_recorded),
                sender: self.sender(at),
            },
            91 | 92 => {
                let ttl_ms = (self.up_to(1) > 0).then(|| 1 + self.up_to(20));
                return Step::Plant { name: self.planted.clone(), ttl_ms };
            }
            93 | 94 => return Step::Forget { name: self.planted.clone() },
            95 => return Step::Clear,
            _ if is_recorded => return Step::OtherRun,
            _ => Command::Membership(Membership::Handshake(self.handshake(at, now.as_millis()))),
        })
    }

    /// What follows from the reply for the commands to come.
    fn handle(&mut self, command: &Command, reply: &Reply, node_ms: u64) {
        let [seen, quarantined, enrolled, changed] = &mut self.instants;
        let mut see = |wall_ms| {
            if node_ms >= seen.node_ms || node_ms + BACK_TOLERANCE_MS < seen.node_ms {
                *seen = Instant { node_ms, wall_ms };
            }
        };
        let answered = Some(Instant { node_ms, wall_ms: self.wall_ms });
        match (command, reply) {
            (
                Command::Membership(Membership::Handshake(handshake)),
                Reply::Membership(MembershipReply::Info(info)),
            ) => {
                let NodeInfo { mark, config, quarantine, .. } = &**info;
                see(handshake.wall_ms);
                if quarantine.is_some() && *mark == handshake.mark {
                    *quarantined = Instant { node_ms, wall_ms: handshake.wall_ms };
                }
                self.config.clone_from(config);
                self.set_mark(*mark);
                self.callers[self.at].answered = answered;
            }
            (
                Command::Membership(Membership::Enrol(enrolment)),
                Reply::Membership(MembershipReply::Enrolled),
            ) => {
                *enrolled = Instant { node_ms, wall_ms: enrolment.wall_ms };
                self.config = Some(enrolment.config.clone());
            }
            (
                Command::Membership(Membership::Change { config, fresh, .. }),
                Reply::Membership(MembershipReply::Changed),
            ) => {
                *changed = Instant { node_ms, wall_ms: self.wall_ms };
                self.config = Some(config.clone());
                self.set_mark(*fresh);
            }
            (
                Command::Membership(Membership::Admit { fresh, .. }),
                Reply::Membership(MembershipReply::Admitted),
            ) => self.set_mark(*fresh),
            (
                Command::Attach { terms, .. } | Command::Ping { terms, .. },
                Reply::Attached { .. },
            ) => {
                see(terms.wall_ms);
                self.callers[self.at].answered = answered;
            }
            _ => {}
        }
    }

    fn handshake(&mut self, at: usize, now_ms: u64) -> Handshake {
        Handshake {
            wall_ms: self.wall(at, now_ms),
            known: self.known(at, now_ms),
            mark: self.fresh(),
            id: self.id(),
            lifetime_ms: [SESSION_LIFE_MS, LONG_LIFE_MS, LONG_LIFE_MS, 50][self.index(4)],
            quarantine_ms: self.quarantine_ms(),
            is_read_only: self.up_to(15) == 0,
            is_durable: self.up_to(3) > 0,
        }
    }

    /// Mostly what the client's wall clock shows.
    fn wall(&mut self, at: usize, now_ms: u64) -> u64 {
        let Instant { node_ms, wall_ms } = self.instant();
        let span_ms = self.span_ms();
        match self.up_to(39) {
            0 | 1 => self.around(wall_ms + span_ms),
            2..=4 => {
                let passed_ms = now_ms.saturating_sub(node_ms);
                self.around((wall_ms + passed_ms).saturating_sub(STEP_TOLERANCE_MS))
            }
            5 => self.around(wall_ms),
            6 => self.up_to(1),
            7 => self.wall_ms + self.up_to(20_000),
            8 => self.wall_ms - self.up_to(20_000),
            _ => self.wall_ms + self.callers[at].ahead_ms,
        }
    }

    /// What the client knows of the node's clock, or what would be close to one of the limits.
    fn known(&mut self, at: usize, now_ms: u64) -> Option<Known> {
        let instant = self.instant().node_ms;
        let answered = self.callers[at].answered;
        let true_seen_ms = answered.map_or(instant, |answered| answered.node_ms);
        let passed_ms = answered.map_or(0, |answered| self.wall_ms - answered.wall_ms);
        let seen_ms = match self.up_to(19) {
            0..=4 => return None,
            5 | 6 => self.around(instant),
            7 => self.around(now_ms),
            8 => 0,
            _ => true_seen_ms,
        };
        let expected_ms = match self.up_to(19) {
            0..=2 => self.around(now_ms - STEP_TOLERANCE_MS),
            3 | 4 => self.around(instant - STEP_TOLERANCE_MS),
            5 => self.around(now_ms),
            _ => true_seen_ms + passed_ms + passed_ms / 100,
        };
        Some(Known { seen_ms, expected_ms })
    }

    fn terms(&mut self, at: usize, now_ms: u64, is_recorded: bool) -> SessionTerms {
        let lifetime_ms = match self.up_to(1) {
            0 => SESSION_LIFE_MS,
            _ => 1 + self.up_to(20),
        };
        let has_quarantine = is_recorded == (self.up_to(6) > 0);
        let mark = has_quarantine.then(|| self.mark());
        let slack_us = [0, 1_000, 10_000_000][self.index(3)];
        SessionTerms { lifetime_ms, mark, slack_us, wall_ms: self.wall(at, now_ms) }
    }

    fn sender(&mut self, at: usize) -> Sender {
        let Caller { client, session, .. } = self.callers[at];
        match self.up_to(9) {
            0 => Sender { client, session: Session::from_random(1) },
            _ => Sender { client, session },
        }
    }

    /// Another config than the node's, or nearly the same.
    fn new_config(&mut self) -> AgreedConfig {
        let known = self.config.as_ref().map(|config| (config.change, config.origin));
        let (change, origin) = known.unwrap_or((1, NodeId::from_random(1)));
        AgreedConfig {
            change: match self.up_to(9) {
                0 | 1 => change,
                2 => change.saturating_sub(1),
                3 => change + 1 + self.up_to(1 << 40),
                _ => change + 1,
            },
            origin: if self.up_to(9) > 0 { origin } else { self.id() },
            members: self.members(),
            before: (self.up_to(1) > 0).then(|| self.members()),
            newcomer: (self.up_to(1) > 0).then(|| self.id()),
            max_ttl_ms: 1 + self.up_to(60_000),
            quarantine_ms: self.quarantine_ms(),
        }
    }

    fn members(&mut self) -> Members {
        let labels = ["127.0.0.1:7001", "/a path", "größe:1", "x"];
        let count = 1 + self.index(4);
        Members::new(labels.iter().take(count).map(|label| {
            let id = NodeId::from_random(u128::from(self.jitter.next()) << 60);
            Member { id, label: (*label).into() }
        }))
    }

    const fn quarantine_ms(&mut self) -> u64 {
        match self.up_to(3) {
            0 => 100 + self.up_to(19_900),
            _ => 100 + self.up_to(500),
        }
    }

    const fn id(&mut self) -> NodeId {
        NodeId::from_random(1 + self.up_to(3) as u128)
    }

    /// Mostly the node's mark, else an earlier one, or one of no node.
    fn mark(&mut self) -> Mark {
        let last = self.marks.len() - 1;
        match self.up_to(11) {
            0 => self.fresh(),
            1 => {
                let index = self.index(last + 1);
                self.marks[index]
            }
            _ => self.marks[last],
        }
    }

    fn fresh(&mut self) -> Mark {
        self.next += 1;
        Mark::from_random(self.next)
    }

    fn set_mark(&mut self, mark: Mark) {
        if self.marks.last() != Some(&mark) {
            self.marks.push(mark);
        }
        if self.marks.len() > MARKS_MAX {
            self.marks.remove(0);
        }
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.up_to(len as u64 - 1)).expect("a small number")
    }

    /// A number from zero to `last`, both included.
    const fn up_to(&mut self, last: u64) -> u64 {
        self.jitter.next() % (last + 1)
    }

    /// One millisecond more or less, or none.
    const fn around(&mut self, ms: u64) -> u64 {
        (ms + self.up_to(2)).saturating_sub(1)
    }
}

/// Whether the node has a record of itself.
fn is_recorded(store: &Store, now: NodeTime) -> bool {
    let (client, session) = (ClientId::from_random([0; 20]), Session::from_random(0));
    let sender = Sender { client, session };
    let attach = Command::Attach { sender, terms: SessionTerms::without_membership(1) };
    store.clone().apply(now, &attach) == Reply::MembershipRequired
}

const MARKS_MAX: usize = 4;
/// A session that lasts longer than clocks may differ: only then its end counts by itself.
const LONG_LIFE_MS: u64 = 8_000;

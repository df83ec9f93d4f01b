//! Sets against three real stores. Every message is delivered at a random time.

use super::*;
use crate::{
    command::SessionTerms,
    moment::NodeTime,
    queue::{Sender, Session},
    store::Store,
};

/// Sets that overlap, in orders in which they could deadlock.
const SETS: [&[&str]; 4] = [&["a", "b"], &["b", "c"], &["c", "a"], &["b"]];
const SEEDS: u64 = 2_000;
/// The nodes' time at the start, in milliseconds.
const T0: u64 = 1_800_000_000_000;

#[test]
fn overlapping_sets_are_held_one_at_a_time_and_none_waits_forever() {
    let mut shared_holds = 0;
    for seed in 0..SEEDS {
        shared_holds += Run::new(seed, Dialect::Queue).run(Policy::Wait);
    }
    assert!(shared_holds > SEEDS / 2, "{shared_holds}: disjoint locks should be held at once");
}

#[test]
fn overlapping_sets_are_held_one_at_a_time_without_a_queue() {
    for seed in 0..SEEDS {
        Run::new(seed, Dialect::Classic).run(Policy::Wait);
    }
}

#[test]
fn tries_acquire_all_or_nothing_and_leave_no_key() {
    for seed in 0..SEEDS {
        Run::new(seed, Dialect::Queue).run(Policy::Try);
        Run::new(seed, Dialect::Classic).run(Policy::Try);
    }
}

#[test]
fn set_whose_caller_leaves_blocks_no_other() {
    for seed in 0..SEEDS {
        Run::new(seed, Dialect::Queue).run(Policy::FirstGoes);
        Run::new(seed, Dialect::Classic).run(Policy::FirstGoes);
    }
}

#[test]
fn a_member_with_a_majority_gives_way_until_the_set_is_held() {
    let mut client = client();
    let calls = client.acquire_all(vec![want("a", WAIT), want("b", WAIT)], at(0));
    let ticket = |client: &Client<Numbers>, at: usize| {
        client.call(calls[at]).and_then(Call::waiter).and_then(Waiter::ticket)
    };
    assert_eq!(ticket(&client, 0), ticket(&client, 1), "they have the same ticket");
    for node in 0..NODES {
        let [Transmit { about, command }] = &sent(&mut client, node)[..] else {
            panic!("they are sent together")
        };
        let reply = Reply::Batch([Some(granted(5)), Some(queued())].into());
        client.handle_answer(node, (about, command), Some(&reply), at(1));
    }
    assert_eq!(client.take_outcome(calls[0]), None, "b has no majority");
    let owner = client.call(calls[0]).and_then(Call::waiter).unwrap().owner().clone();
    let (name, fence, kind) = (Name::parse("a", "").unwrap(), Fence::new(5), PushKind::Inquired);
    client.handle_push(0, Push { client: id(), name, owner, kind, fence, session: None }, at(2));
    let node_call = sent(&mut client, 0);
    let [Transmit { command: Command::Release { yields: Some(it), .. }, .. }] = &node_call[..]
    else {
        panic!("{node_call:?}")
    };
    assert_eq!(it.fence, fence);
}

/// Otherwise a member that did not fail would sleep until its next heartbeat, and the others with
/// it.
#[test]
fn members_of_a_classic_set_retry_together() {
    let mut client = client();
    let wants = ["a", "b"].map(|name| Want { dialect: Dialect::Classic, ..want(name, WAIT) });
    let calls = client.acquire_all(wants.into(), at(0));
    answer_each(&mut client, &[Reply::Stored, Reply::NotOwner], at(1));
    let due = client.poll_timeout().expect("they try again");
    assert!(due < at(20), "{due:?}");
    // The releases of what was granted.
    (0..NODES).for_each(|node| _ = sent(&mut client, node));
    client.handle_timeout(WALL, &patience, due);
    answer_each(&mut client, &[Reply::Stored, Reply::Stored], due);
    for call in calls {
        let ended = client.take_outcome(call);
        assert!(matches!(ended, Some(Ended::Acquire(acquire::Outcome::Held { .. }))), "{ended:?}");
    }
}

/// All nodes answer the first requests of the members, which are sent together.
fn answer_each(client: &mut Client<Numbers>, replies: &[Reply], now: Moment) {
    let asked: Vec<_> = (0..NODES).map(|node| sent(client, node)).collect();
    for (node, asked) in asked.iter().enumerate() {
        let [Transmit { about, command }] = &asked[..] else { panic!("{asked:?}") };
        let reply = Reply::Batch(replies.iter().cloned().map(Some).collect());
        client.handle_answer(node, (about, command), Some(&reply), now);
    }
}

#[test]
fn set_of_a_client_that_has_ended_is_abandoned() {
    let mut client = client();
    client.close(at(0));
    let calls = client.acquire_all(vec![want("a", WAIT), want("b", WAIT)], at(0));
    let abandoned = Some(Ended::Acquire(acquire::Outcome::Abandoned));
    assert_eq!(
        calls.iter().map(|call| client.take_outcome(*call)).collect::<Vec<_>>(),
        [abandoned; 2]
    );
    assert!(client.sets.is_empty() && client.naming.of_sets.is_empty(), "the set is removed");
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Policy {
    Wait,
    Try,
    /// The caller of the first set leaves at a random time.
    FirstGoes,
}

struct Run {
    seed: u64,
    dialect: Dialect,
    chance: Jitter,
    now: Moment,
    stores: [Store; NODES],
    callers: Vec<Caller>,
}

/// A client that acquires one set once.
struct Caller {
    id: ClientId,
    machine: Client<Named>,
    names: &'static [&'static str],
    calls: Box<[CallId]>,
    leases: Vec<LeaseId>,
    requests: [VecDeque<Transmit>; NODES],
    replies: [VecDeque<(Transmit, Reply)>; NODES],
    pushes: [VecDeque<Push>; NODES],
    is_over: bool,
}

#[derive(Debug)]
struct Named(ClientId, u64);

impl OwnerSource for Named {
    fn next_owner(&mut self, place: &Position, _kind: &OwnerKind) -> Owner {
        self.1 += 1;
        place.owner(self.1)
    }

    fn next_plain_owner(&mut self, _kind: &OwnerKind) -> Owner {
        self.1 += 1;
        Owner::new(&self.0, self.1, "me")
    }
}

impl Run {
    fn new(seed: u64, dialect: Dialect) -> Self {
        let mut world = Self {
            seed,
            dialect,
            chance: Jitter::new(seed),
            now: at(0),
            stores: [(); NODES].map(|()| Store::new()),
            callers: Vec::new(),
        };
        for (number, names) in SETS.iter().enumerate() {
            world.callers.push(Caller::new(number, names));
        }
        let now = world.time();
        for (number, caller) in world.callers.iter_mut().enumerate() {
            for (node, store) in world.stores.iter_mut().enumerate() {
                let sender = Sender { client: caller.id, session: session(number) };
                let terms = SessionTerms::without_membership(60_000);
                store.subscribe(caller.id);
                store.apply(now, &Command::Attach { sender, terms });
                caller.machine.handle_time(node, now.as_micros(), world.now);
                caller.machine.handle_up(node, world.now);
            }
        }
        world
    }

    fn time(&self) -> NodeTime {
        NodeTime::from_micros(T0 * 1_000 + self.now.as_nanos() / 1_000)
    }

    /// Returns how often a set was held while another set was held.
    fn run(mut self, policy: Policy) -> u64 {
        let mut together = 0;
        let mut order: Vec<usize> = (0..self.callers.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64 + 1));
        }
        let wait = if policy == Policy::Try { Wait::Never } else { WAIT };
        for number in order {
            self.step_often();
            let caller = &mut self.callers[number];
            let dialect = self.dialect;
            let wants = caller.names.iter().map(|name| Want { dialect, ..want(name, wait) });
            let wants = wants.collect();
            caller.calls = caller.machine.acquire_all(wants, self.now);
        }
        for _ in 0..100_000 {
            if policy == Policy::FirstGoes && !self.callers[0].is_over && self.below(20) == 0 {
                self.leave(0);
            }
            if !self.step() {
                if self.callers.iter().all(|caller| caller.is_over) {
                    self.judge_end();
                    return together;
                }
                self.pass_time();
            }
            together += self.count_together();
        }
        panic!("seed {}: it does not end", self.seed);
    }

    /// Advances the time until something is due, when no message is in transit.
    fn pass_time(&mut self) {
        let due = self.callers.iter().filter_map(|it| it.machine.poll_timeout()).min();
        let due = due.unwrap_or_else(|| panic!("seed {}: all wait forever", self.seed));
        self.now = self.now.max(due);
        assert!(self.now < at(60_000), "seed {}: a caller waits forever", self.seed);
        for caller in &mut self.callers {
            caller.machine.handle_timeout(WALL, &patience, self.now);
        }
    }

    fn step_often(&mut self) {
        for _ in 0..self.below(8) {
            self.step();
        }
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.chance.next() % bound).unwrap()
    }

    /// Moves one message one step further. Returns false if there is none.
    fn step(&mut self) -> bool {
        let mut options = Vec::new();
        for (number, caller) in self.callers.iter_mut().enumerate() {
            for node in 0..NODES {
                caller.requests[node].extend(sent_all(&mut caller.machine, node));
                let ways = [
                    !caller.requests[node].is_empty(),
                    !caller.replies[node].is_empty(),
                    !caller.pushes[node].is_empty(),
                ];
                let open = ways.iter().enumerate().filter(|(_, is_open)| **is_open);
                options.extend(open.map(|(way, _)| (number, node, way)));
            }
        }
        if options.is_empty() {
            return false;
        }
        self.now = self.now.saturating_add(Duration::from_micros(50));
        let (number, node, way) = options[self.below(options.len() as u64)];
        let (now, time) = (self.now, self.time());
        let caller = &mut self.callers[number];
        match way {
            0 => {
                let mut transmit = caller.requests[node].pop_front().unwrap();
                transmit.command.set_session(session(number));
                let reply = self.stores[node].apply(time, &transmit.command);
                caller.replies[node].push_back((transmit, reply));
                for push in self.stores[node].take_pushes() {
                    let whose = self.callers.iter_mut().find(|it| it.id == push.client);
                    whose.unwrap().pushes[node].push_back(push);
                }
            }
            1 => {
                let (Transmit { about, command }, reply) =
                    caller.replies[node].pop_front().unwrap();
                caller.machine.handle_answer(node, (&about, &command), Some(&reply), now);
            }
            _ => {
                let push = caller.pushes[node].pop_front().unwrap();
                caller.machine.handle_push(node, push, now);
            }
        }
        true
    }

    /// Checks which sets are held, and lets holders continue. Returns how many sets were held at
    /// the same time as another.
    fn count_together(&mut self) -> u64 {
        let now = self.now;
        for number in 0..self.callers.len() {
            let is_done = self.below(6) == 0;
            let caller = &mut self.callers[number];
            if caller.is_over {
            } else if !caller.leases.is_empty() {
                if is_done {
                    self.leave(number);
                }
            } else {
                caller.take(self.seed, now);
            }
        }
        let holders: Vec<&Caller> = self.callers.iter().filter(|it| it.is_held(now)).collect();
        for (at, one) in holders.iter().enumerate() {
            for other in &holders[at + 1..] {
                let is_same = one.names.iter().any(|name| other.names.contains(name));
                assert!(!is_same, "seed {}: {:?} and {:?}", self.seed, one.names, other.names);
            }
        }
        u64::from(holders.len() > 1)
    }

    /// The caller releases its set, or leaves the queues.
    fn leave(&mut self, number: usize) {
        let now = self.now;
        let caller = &mut self.callers[number];
        for lease in std::mem::take(&mut caller.leases) {
            if let Some(call) = caller.machine.release(lease, &patience, now) {
                caller.machine.close_call(call);
            }
        }
        for call in std::mem::take(&mut caller.calls) {
            caller.machine.abandon(call, now);
        }
        caller.is_over = true;
    }

    fn judge_end(&mut self) {
        let now = self.time();
        for store in &mut self.stores {
            assert!(store.names(now).is_empty(), "seed {}: a key is left", self.seed);
            assert!(store.queued_names(now).is_empty(), "seed {}: a waiter is queued", self.seed);
        }
        for caller in &self.callers {
            let machine = &caller.machine;
            assert!(machine.is_idle(), "seed {}: a call is left", self.seed);
            assert!(machine.sets.is_empty() && machine.naming.of_sets.is_empty());
        }
    }
}

impl Caller {
    fn new(number: usize, names: &'static [&'static str]) -> Self {
        let id = ClientId::from_random([u8::try_from(number).unwrap() + 1; 20]);
        let config = Config {
            client: id,
            nodes: NODES,
            has_sessions: true,
            max_ttl: Duration::from_secs(60),
        };
        Self {
            id,
            machine: Client::new(config, Named(id, 0), Jitter::new(number as u64)),
            names,
            calls: Box::default(),
            leases: Vec::new(),
            requests: Default::default(),
            replies: Default::default(),
            pushes: Default::default(),
            is_over: false,
        }
    }

    /// Takes the outcome: all locks, or none.
    fn take(&mut self, seed: u64, now: Moment) {
        let ended = |id: &CallId| self.machine.call(*id).and_then(Call::ended);
        let ended: Vec<_> = self.calls.iter().map(ended).collect();
        let is_held =
            |it: &Option<Ended>| matches!(it, Some(Ended::Acquire(acquire::Outcome::Held { .. })));
        let held = ended.iter().filter(|it| is_held(it)).count();
        assert!(held == 0 || held == ended.len(), "seed {seed}: {held} of {}", ended.len());
        if ended.is_empty() || ended.iter().any(Option::is_none) {
            return;
        }
        let hold = Hold { renewal: Renewal::On, until: Moment::from_nanos(u64::MAX) };
        for call in std::mem::take(&mut self.calls) {
            self.machine.take_outcome(call);
            self.leases.extend(self.machine.keep(call, hold, now));
            self.machine.close_call(call);
        }
        self.is_over = held == 0;
    }

    fn is_held(&self, now: Moment) -> bool {
        let is_valid = |lease: &LeaseId| {
            self.machine.lease(*lease).is_some_and(|held| now < held.lease().valid_until())
        };
        !self.leases.is_empty() && self.leases.iter().all(is_valid)
    }
}

fn sent_all(machine: &mut Client<Named>, node: usize) -> Vec<Transmit> {
    while machine.poll_event().is_some() {}
    std::iter::from_fn(|| machine.poll_transmit(node, |_, _| true)).collect()
}

fn session(number: usize) -> Session {
    Session::from_random(number as u128 + 1)
}

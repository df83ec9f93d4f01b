//! Schedules for the deliberate bugs that random runs hardly reach.

use quorate_core::{
    command::{ClientId, Command, Reply, SessionTerms},
    membership::{self, Mark, NodeInfo, View, plan},
    mutant::Mutant,
    name::Name,
    queue::{AcquireRequest, Position, Sender, Session},
};

use super::{GUARD, LIFE_MS, QUARANTINE_MS, TTL, TTL_MS, settings};
use crate::{
    client,
    clock::{MS, NodeClock},
    directed::Schedule,
    node::Node,
    run::{Env, Options, Run, Without},
    settings::{Settings, label, wall_ms},
};

pub(crate) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::HastyChange, the_set_does_not_change_away_from_a_holder),
    (Mutant::HastyNewNode, a_newcomer_waits_until_a_majority_has_heard_of_it),
    (Mutant::AdmitAnything, a_node_with_old_data_is_not_admitted),
    (Mutant::QuarantineFromCause, guard_counts_from_when_the_node_got_its_place),
    (Mutant::DurableAnyPlace, durable_server_with_the_data_of_another_does_not_vote),
];

/// Servers whose clients have clocks that agree, and where nothing takes time.
struct Bench {
    env: Env,
    /// Nobody hears these just now.
    cut: Vec<usize>,
}

impl Bench {
    /// The first servers are nodes, and one is spare.
    fn founded(nodes: usize) -> (Self, View) {
        let rates = vec![0; nodes + 1];
        let settings = Settings { nodes, spares: 1, node_rates: rates, ..settings(0) };
        let mut env = Run::new(settings, &Without::default(), Options::default()).env;
        for node in &mut env.nodes {
            node.clock = NodeClock::new(wall_ms(0) * 1_000, 0);
        }
        let mut bench = Self { env, cut: Vec::new() };
        let list: Vec<usize> = (0..nodes).collect();
        let mut council = Self::council(&list);
        bench.settle(&mut council, &list);
        bench.env.now += GUARD;
        bench.settle(&mut council, &list);
        (bench, council)
    }

    fn council(list: &[usize]) -> View {
        client::view_of(list, TTL_MS, QUARANTINE_MS)
    }

    fn settle(&mut self, council: &mut View, list: &[usize]) -> Vec<Option<Mark>> {
        self.env.settle(council, list, &self.cut)
    }

    fn node(&mut self, node: usize) -> &mut Node {
        &mut self.env.nodes[node]
    }

    fn met(&mut self, node: usize) -> Option<NodeInfo> {
        (!self.cut.contains(&node)).then(|| self.env.meet(node))
    }

    /// A client takes the lock on each of these nodes that votes. Says how many granted it.
    fn take(&mut self, client: u8, council: &mut View, list: &[usize], on: &[usize]) -> usize {
        let votes = self.settle(council, list);
        let client = ClientId::from_random([client; 20]);
        let owner =
            Position { ticket: wall_ms(self.env.now) * 1_000, ttl_ms: TTL_MS, client }.owner(1);
        let name = Name::parse("lock", "").expect("valid");
        let mut granted = 0;
        for (node, mark) in list.iter().zip(votes).filter(|(node, _)| on.contains(node)) {
            let sender = Sender { client, session: Session::from_random(self.env.random()) };
            let wall_ms = wall_ms(self.env.now);
            let terms = SessionTerms { lifetime_ms: LIFE_MS, mark, slack_us: 1_000, wall_ms };
            if mark.is_none()
                || self.env.apply(*node, &Command::Attach { sender, terms }) == Reply::Stale
            {
                continue;
            }
            let (name, owner) = (name.clone(), owner.clone());
            let ask = AcquireRequest { name, owner, is_waiting: false, is_known: false };
            let reply = self.env.apply(*node, &Command::Acquire { sender, request: ask });
            granted += usize::from(matches!(reply, Reply::Granted { .. }));
        }
        granted
    }

    /// One step to another list, told to all its nodes. Says whether all take it.
    fn change(&mut self, wanted: &[usize]) -> bool {
        let met: Vec<_> = wanted.iter().map(|node| (label(*node), self.met(*node))).collect();
        let Ok(config) = plan(met.iter().map(|(label, met)| (label, met.as_ref()))) else {
            return false;
        };
        wanted.iter().zip(&met).all(|(node, (_, met))| {
            let fresh = self.env.fresh();
            met.as_ref().is_some_and(|NodeInfo { mark, .. }| {
                let (mark, config) = (*mark, config.clone());
                let command = membership::Command::Change { mark, config, fresh };
                let changed = Reply::Membership(membership::Reply::Changed);
                self.env.apply(*node, &command.into()) == changed
            })
        })
    }
}

/// The set changes twice while the lock is held by nodes that are not in it at last.
///
/// Fails if the lock has two holders.
fn the_set_does_not_change_away_from_a_holder() -> Result<(), String> {
    let (mut bench, mut old) = Bench::founded(5);
    if bench.take(1, &mut old, &[0, 1, 2, 3, 4], &[2, 3, 4]) < 3 {
        return Err("the lock is not to be had".into());
    }
    // One is removed, that is ended, and the next one is removed.
    for wanted in [&[0, 1, 2, 3][..], &[0, 1, 2, 3], &[0, 1, 2]] {
        if !bench.change(wanted) {
            return Ok(());
        }
    }
    let mut new = Bench::council(&[0, 1, 2]);
    match bench.take(2, &mut new, &[0, 1, 2], &[0, 1]) {
        2 => Err("two majorities of two lists hold one lock".into()),
        _ => Ok(()),
    }
}

/// A node is replaced, only one of the others hears of it, and the old one is there for some.
///
/// Fails if the lock has two holders.
fn a_newcomer_waits_until_a_majority_has_heard_of_it() -> Result<(), String> {
    let (mut bench, mut old) = Bench::founded(3);
    let list = [0, 1, 3];
    let met: Vec<_> = list.iter().map(|node| (label(*node), bench.met(*node))).collect();
    let config = plan(met.iter().map(|(label, met)| (label, met.as_ref())));
    let config = config.map_err(|error| error.to_string())?;
    let fresh = bench.env.fresh();
    let mark = met[0].1.as_ref().map_or(fresh, |met| met.mark);
    bench.env.apply(0, &membership::Command::Change { mark, config, fresh }.into());
    let mut new = Bench::council(&list);
    bench.cut = vec![1];
    bench.settle(&mut new, &list);
    bench.env.now += GUARD;
    let kind = bench.take(1, &mut new, &list, &[0, 3]);
    bench.cut = vec![0];
    match (kind, bench.take(2, &mut old, &[0, 1, 2], &[1, 2])) {
        (2, 2) => Err("the new node and the old one gave the lock away".into()),
        (_, 2) => Ok(()),
        (_, few) => Err(format!("only {few} of the old nodes go on")),
    }
}

/// A node that was set back, and holds something, is not let in before its time.
///
/// Fails if the lock has two holders.
fn a_node_with_old_data_is_not_admitted() -> Result<(), String> {
    let (mut bench, mut first) = Bench::founded(3);
    let list = [0, 1, 2];
    bench.take(9, &mut first, &list, &[1]);
    bench.env.now += TTL + LIFE_MS * MS;
    bench.take(9, &mut first, &list, &[1]);
    let snapshot = bench.node(1).store.clone();
    bench.env.now += TTL + MS;
    if bench.take(1, &mut first, &list, &[0, 1]) < 2 {
        return Err("the lock is not to be had".into());
    }
    bench.node(1).store = snapshot;
    bench.node(1).run_anew();
    let mut second = Bench::council(&list);
    bench.settle(&mut second, &list);
    let fresh = bench.env.fresh();
    let mark = bench.met(1).map(|met| met.mark).unwrap_or(fresh);
    bench.env.apply(1, &membership::Command::Admit { mark, fresh }.into());
    match bench.take(2, &mut second, &list, &[1, 2]) {
        2 => Err("a node that was set back gave the lock away again".into()),
        _ => Ok(()),
    }
}

/// A server is met long before it is a node. The lock is held by a node that it replaces.
///
/// Fails if the lock has two holders.
fn guard_counts_from_when_the_node_got_its_place() -> Result<(), String> {
    let (mut bench, mut old) = Bench::founded(3);
    bench.met(3);
    bench.env.now += GUARD;
    if bench.take(1, &mut old, &[0, 1, 2], &[1, 2]) < 2 {
        return Err("the lock is not to be had".into());
    }
    // The new server has no place yet, and cannot be told of the change.
    bench.change(&[0, 1, 3]);
    let mut new = Bench::council(&[0, 1, 3]);
    match bench.take(2, &mut new, &[0, 1, 3], &[0, 3]) {
        2 => Err("the new node and the one that it replaces gave the lock away".into()),
        _ => Ok(()),
    }
}

/// A holds two nodes of three, and the third is B's. A server of A's restarts with the disk of the
/// third, which is away.
///
/// Fails if the lock has two holders.
fn durable_server_with_the_data_of_another_does_not_vote() -> Result<(), String> {
    let (mut bench, mut first) = Bench::founded(3);
    let list = [0, 1, 2];
    bench.env.settings.quarantine.iter_mut().for_each(|quarantine| quarantine.is_durable = true);
    if bench.take(1, &mut first, &list, &[1, 2]) < 2 {
        return Err("the lock is not to be had".into());
    }
    let mut granted = bench.take(2, &mut Bench::council(&list), &list, &[0]);
    bench.node(1).store = bench.node(0).store.clone();
    bench.node(1).run_anew();
    bench.cut = vec![0];
    granted += bench.take(2, &mut Bench::council(&list), &list, &[1]);
    match granted {
        2 => Err("a server with another's data gave the lock away again".into()),
        _ => Ok(()),
    }
}

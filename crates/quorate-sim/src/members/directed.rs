//! Schedules for the deliberate bugs that random seeds hardly detect.

use quorate_core::{
    command::{ClientId, Command, Reply, SessionTerms},
    membership::{self, Mark, NodeInfo, View, plan},
    mutant::Mutant,
    name::Name,
    queue::{AcquireRequest, Position, Sender, Session},
};

use super::{QUARANTINE_MS, QUARANTINE_TIME, SESSION_MS, TTL, TTL_MS, settings};
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
    (Mutant::HastyNewNode, a_new_node_waits_until_a_majority_knows_of_it),
    (Mutant::AdmitAnything, a_node_with_old_data_is_not_admitted),
    (Mutant::QuarantineFromCause, quarantine_counts_from_when_the_node_was_enrolled),
    (Mutant::DurableAnyPlace, durable_server_with_the_data_of_another_does_not_vote),
];

/// Servers whose clients have clocks that agree, and where nothing takes time.
struct Fixture {
    env: Env,
    /// No client reaches these now.
    cut: Vec<usize>,
}

impl Fixture {
    /// The first servers are nodes, and one is spare.
    fn founded(nodes: usize) -> (Self, View) {
        let rates = vec![0; nodes + 1];
        let settings = Settings { nodes, spares: 1, node_rates: rates, ..settings(0) };
        let mut env = Run::new(settings, &Without::default(), Options::default()).env;
        for node in &mut env.nodes {
            node.clock = NodeClock::new(wall_ms(0) * 1_000, 0);
        }
        let mut fixture = Self { env, cut: Vec::new() };
        let list: Vec<usize> = (0..nodes).collect();
        let mut view = Self::view(&list);
        fixture.settle(&mut view, &list);
        fixture.env.now += QUARANTINE_TIME;
        fixture.settle(&mut view, &list);
        (fixture, view)
    }

    fn view(list: &[usize]) -> View {
        client::view_of(list, TTL_MS, QUARANTINE_MS)
    }

    fn settle(&mut self, view: &mut View, list: &[usize]) -> Vec<Option<Mark>> {
        self.env.settle(view, list, &self.cut)
    }

    fn node(&mut self, node: usize) -> &mut Node {
        &mut self.env.nodes[node]
    }

    fn info(&mut self, node: usize) -> Option<NodeInfo> {
        (!self.cut.contains(&node)).then(|| self.env.run_handshake(node))
    }

    /// A client acquires the lock on each of these nodes that votes. Returns the number of grants.
    fn take(&mut self, client: u8, view: &mut View, list: &[usize], on: &[usize]) -> usize {
        let votes = self.settle(view, list);
        let client = ClientId::from_random([client; 20]);
        let owner =
            Position { ticket: wall_ms(self.env.now) * 1_000, ttl_ms: TTL_MS, client }.owner(1);
        let name = Name::parse("lock", "").expect("valid");
        let mut granted = 0;
        for (node, mark) in list.iter().zip(votes).filter(|(node, _)| on.contains(node)) {
            let sender = Sender { client, session: Session::from_random(self.env.random()) };
            let wall_ms = wall_ms(self.env.now);
            let terms = SessionTerms { lifetime_ms: SESSION_MS, mark, slack_us: 1_000, wall_ms };
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

    /// One step to another list, sent to all its nodes. Returns whether all accept it.
    fn change(&mut self, wanted: &[usize]) -> bool {
        let infos: Vec<_> = wanted.iter().map(|node| (label(*node), self.info(*node))).collect();
        let Ok(config) = plan(infos.iter().map(|(label, info)| (label, info.as_ref()))) else {
            return false;
        };
        wanted.iter().zip(&infos).all(|(node, (_, info))| {
            let fresh = self.env.fresh();
            info.as_ref().is_some_and(|NodeInfo { mark, .. }| {
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
    let (mut fixture, mut old) = Fixture::founded(5);
    if fixture.take(1, &mut old, &[0, 1, 2, 3, 4], &[2, 3, 4]) < 3 {
        return Err("the lock is not granted".into());
    }
    // A node is removed, that change is completed, and the next node is removed.
    for wanted in [&[0, 1, 2, 3][..], &[0, 1, 2, 3], &[0, 1, 2]] {
        if !fixture.change(wanted) {
            return Ok(());
        }
    }
    let mut new = Fixture::view(&[0, 1, 2]);
    match fixture.take(2, &mut new, &[0, 1, 2], &[0, 1]) {
        2 => Err("majorities of two lists hold the same lock".into()),
        _ => Ok(()),
    }
}

/// A node is replaced, only one of the others learns of it, and some clients still reach the old
/// one.
///
/// Fails if the lock has two holders.
fn a_new_node_waits_until_a_majority_knows_of_it() -> Result<(), String> {
    let (mut fixture, mut old) = Fixture::founded(3);
    let list = [0, 1, 3];
    let infos: Vec<_> = list.iter().map(|node| (label(*node), fixture.info(*node))).collect();
    let config = plan(infos.iter().map(|(label, info)| (label, info.as_ref())));
    let config = config.map_err(|error| error.to_string())?;
    let fresh = fixture.env.fresh();
    let mark = infos[0].1.as_ref().map_or(fresh, |info| info.mark);
    fixture.env.apply(0, &membership::Command::Change { mark, config, fresh }.into());
    let mut new = Fixture::view(&list);
    fixture.cut = vec![1];
    fixture.settle(&mut new, &list);
    fixture.env.now += QUARANTINE_TIME;
    let kind = fixture.take(1, &mut new, &list, &[0, 3]);
    fixture.cut = vec![0];
    match (kind, fixture.take(2, &mut old, &[0, 1, 2], &[1, 2])) {
        (2, 2) => Err("the new node and the old one granted the lock to two clients".into()),
        (_, 2) => Ok(()),
        (_, few) => Err(format!("only {few} of the old nodes grant the lock")),
    }
}

/// A node that was rolled back and stores a key is not admitted before the end of its quarantine.
///
/// Fails if the lock has two holders.
fn a_node_with_old_data_is_not_admitted() -> Result<(), String> {
    let (mut fixture, mut first) = Fixture::founded(3);
    let list = [0, 1, 2];
    fixture.take(9, &mut first, &list, &[1]);
    fixture.env.now += TTL + SESSION_MS * MS;
    fixture.take(9, &mut first, &list, &[1]);
    let snapshot = fixture.node(1).store.clone();
    fixture.env.now += TTL + MS;
    if fixture.take(1, &mut first, &list, &[0, 1]) < 2 {
        return Err("the lock is not granted".into());
    }
    fixture.node(1).store = snapshot;
    fixture.node(1).run_anew();
    let mut second = Fixture::view(&list);
    fixture.settle(&mut second, &list);
    let fresh = fixture.env.fresh();
    let mark = fixture.info(1).map(|info| info.mark).unwrap_or(fresh);
    fixture.env.apply(1, &membership::Command::Admit { mark, fresh }.into());
    match fixture.take(2, &mut second, &list, &[1, 2]) {
        2 => Err("a node that was rolled back granted the lock again".into()),
        _ => Ok(()),
    }
}

/// A client makes a handshake with a server long before it is a node. The lock is held by a node
/// that the server replaces.
///
/// Fails if the lock has two holders.
fn quarantine_counts_from_when_the_node_was_enrolled() -> Result<(), String> {
    let (mut fixture, mut old) = Fixture::founded(3);
    fixture.info(3);
    fixture.env.now += QUARANTINE_TIME;
    if fixture.take(1, &mut old, &[0, 1, 2], &[1, 2]) < 2 {
        return Err("the lock is not granted".into());
    }
    // The new server is not enrolled yet, and cannot be notified of the change.
    fixture.change(&[0, 1, 3]);
    let mut new = Fixture::view(&[0, 1, 3]);
    match fixture.take(2, &mut new, &[0, 1, 3], &[0, 3]) {
        2 => Err("the new node and the replaced one granted the lock to two clients".into()),
        _ => Ok(()),
    }
}

/// A holds two nodes of three, and the third is B's. A server of A's restarts with the disk of the
/// third, which is away.
///
/// Fails if the lock has two holders.
fn durable_server_with_the_data_of_another_does_not_vote() -> Result<(), String> {
    let (mut fixture, mut first) = Fixture::founded(3);
    let list = [0, 1, 2];
    fixture.env.settings.quarantine.iter_mut().for_each(|quarantine| quarantine.is_durable = true);
    if fixture.take(1, &mut first, &list, &[1, 2]) < 2 {
        return Err("the lock is not granted".into());
    }
    let mut granted = fixture.take(2, &mut Fixture::view(&list), &list, &[0]);
    fixture.node(1).store = fixture.node(0).store.clone();
    fixture.node(1).run_anew();
    fixture.cut = vec![0];
    granted += fixture.take(2, &mut Fixture::view(&list), &list, &[1]);
    match granted {
        2 => Err("a server with the data of another one granted the lock again".into()),
        _ => Ok(()),
    }
}

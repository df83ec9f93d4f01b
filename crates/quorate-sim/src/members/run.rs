//! One run: a set is founded, changed again and again, and must settle in the end.

use quorate_core::membership::AgreedConfig;

use super::{QUARANTINE_MS, QUARANTINE_TIME, Report, TTL_MS, faults, operator::Operator};
use crate::{
    check::Promise,
    client::view_of,
    clock::{MS, Nanos},
    dice::Dice,
    event::{Event, Part},
    fault::Keeps,
    run::{Counts, Options, Run, Without},
    settings::Settings,
};

/// A delayed part of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Later {
    Crash(usize, Keeps),
    Anew(usize),
    /// Messages between a client and a server are delayed until then.
    Cut(usize, usize, Nanos),
}

/// Simulates a run to its end.
pub(super) fn play(settings: Settings, is_traced: bool) -> Report {
    let options = Options { is_traced, ..Options::default() };
    let mut run = Run::new(settings, &Without::default(), options);
    run.begin_changes();
    run.play(3 * QUARANTINE_TIME - 1);
    run.set_rough(true);
    let last = run.changes.faults.iter().map(|(when, _)| *when).max().unwrap_or(0);
    run.play(last + 4 * QUARANTINE_TIME);
    run.calm_down();
    let lists: Vec<_> = run.agreed().iter().map(list_of).collect();
    let is_settled = lists.iter().any(|list| run.settles(list));
    let needs = if is_settled { None } else { run.repairs() };
    let changes = run.agreed().first().map_or(0, |config| config.change);
    let Counts { acquisitions: holds, .. } = run.env.count;
    let violation = run.env.check.violation.map(|it| format!("{}: {}", it.promise, it.text));
    Report { holds, changes, needs, violation, trace: run.env.trace }
}

impl Run {
    fn begin_changes(&mut self) {
        let Settings { seed, nodes, .. } = self.env.settings;
        self.changes.lists.push((0..nodes).collect());
        self.changes.faults = faults::draw(&mut Dice::new(seed, STREAM + 1));
        for (number, (when, _)) in self.changes.faults.iter().enumerate() {
            let event = Event::Fault { index: number as u16, part: Part::Begin };
            self.env.queue.add(*when, event);
        }
        self.env.apart = vec![vec![0; self.env.nodes.len()]; self.clients.len()];
        self.clients.iter_mut().for_each(|client| client.start(&mut self.env));
    }

    /// Sets whether messages may be very late from now on.
    fn set_rough(&mut self, is_rough: bool) {
        self.env.is_rough = is_rough;
        let late_max = if is_rough { self.env.late_max() } else { 0 };
        self.env.net.links().for_each(|link| link.late_max = late_max);
    }

    /// The list that was agreed upon last, as far as operators know.
    pub(super) fn latest(&self) -> Vec<usize> {
        self.changes.lists.last().cloned().unwrap_or_default()
    }

    pub(super) fn operate(&mut self, wanted: Vec<usize>, sends: usize) {
        let env = &mut self.env;
        let party = env.apart.len();
        env.net.add_client();
        env.apart.push(vec![0; env.nodes.len()]);
        if env.dice.below(2) == 0 && env.is_rough {
            let server = env.dice.pick(&wanted);
            env.apart[party][server] = env.now + 2 * QUARANTINE_TIME;
        }
        let operator = Operator::new(env, party, wanted, sends);
        self.changes.operators.push(operator);
        self.set_rough(self.env.is_rough);
    }

    /// The process of a client ends, and another one starts with this list.
    pub(super) fn begin_anew(&mut self, client: usize, list: Vec<usize>) {
        let env = &mut self.env;
        env.note_change(|| format!("client {client} restarts with {list:?}"));
        let client = &mut self.clients[client];
        client.crash(env);
        client.list = list;
        client.restart(env);
    }

    /// The next step of an operator.
    pub(crate) fn tick(&mut self, party: usize) {
        let operator = &mut self.changes.operators[party - self.clients.len()];
        if operator.tick(&mut self.env) {
            self.changes.lists.push(operator.wanted.clone());
        }
    }

    pub(crate) fn handle_change(&mut self, index: usize, part: Part) {
        match part {
            Part::Begin if self.env.is_rough => self.strike(self.changes.faults[index].1),
            Part::End => self.env.nodes[index].crashes = 0,
            Part::Begin | Part::Remember => {}
        }
    }

    fn play(&mut self, end: Nanos) {
        while self.env.check.violation.is_none() {
            let now = self.env.now;
            let due = self.changes.later.iter().position(|(when, _)| *when <= now);
            if let Some((_, later)) = due.map(|at| self.changes.later.swap_remove(at)) {
                match later {
                    Later::Crash(server, keeps) => self.crash(server, keeps, 10 * MS),
                    Later::Anew(client) => self.begin_anew(client, self.latest()),
                    Later::Cut(client, server, until) => self.env.apart[client][server] = until,
                }
            }
            let Some((at, event)) = self.env.queue.next_by(end) else { break };
            self.env.now = at;
            self.handle(event);
        }
        self.env.now = end.max(self.env.now);
    }

    fn calm_down(&mut self) {
        self.set_rough(false);
        self.env.note_change(|| "faults have stopped".into());
        self.env.settings.is_hoarding = false;
        self.changes.later.clear();
        self.env.apart.iter_mut().flatten().for_each(|until| *until = 0);
        self.env.nodes.iter_mut().for_each(|node| node.crashes = 0);
        self.changes.operators.iter_mut().for_each(|operator| operator.is_done = true);
    }

    /// The latest configs that any server knows: more than one if operators disagreed.
    fn agreed(&mut self) -> Vec<AgreedConfig> {
        let servers = self.env.nodes.len();
        let known: Vec<AgreedConfig> =
            (0..servers).filter_map(|it| self.env.probe(it).config).collect();
        let last = known.iter().map(|config| config.change).max().unwrap_or(0);
        let mut latest: Vec<AgreedConfig> = Vec::new();
        for config in known.into_iter().filter(|config| config.change == last) {
            if !latest.contains(&config) {
                latest.push(config);
            }
        }
        latest
    }

    /// Whether every client gets the lock with this list.
    fn settles(&mut self, list: &[usize]) -> bool {
        for client in 0..self.clients.len() {
            self.begin_anew(client, list.to_vec());
        }
        for _ in 0..12 {
            self.play(self.env.now + QUARANTINE_TIME);
            if self.env.check.violation.is_some() {
                return true;
            }
            if self.clients.iter().all(|client| client.wins > 0) {
                return true;
            }
        }
        false
    }

    /// An operator settles the set by naming one of the latest lists. Returns the reason.
    fn repairs(&mut self) -> Option<String> {
        let seen =
            self.clients.iter().find(|it| it.wins == 0).map(|it| format!("{:?}", it.opinion));
        let agreed = self.agreed();
        let seen = seen.unwrap_or_default();
        let seen = seen.split([' ', ';']).take(3).collect::<Vec<_>>().join(" ");
        let summary = format!("{} lists, {seen}", agreed.len());
        self.show_all();
        self.env.note_change(|| format!("the set does not settle: {summary}"));
        let mut why = Vec::new();
        for config in &agreed {
            let list = list_of(config);
            self.operate(list.clone(), usize::MAX);
            self.play(self.env.now + 5 * QUARANTINE_TIME);
            why.extend(self.changes.operators.last().and_then(|it| it.why_not.clone()));
            if self.settles(&list) {
                return Some(summary);
            }
        }
        if agreed.first().is_some_and(|config| self.rescues(config)) {
            return Some(format!("vouched: {summary}"));
        }
        let (now, stuck) =
            (self.env.now, format!("no operator can settle the set: {summary} {why:?}"));
        self.env.check.report(now, Promise::Progress, None, Vec::new(), stuck);
        Some(summary)
    }

    /// An operator vouches: all other servers are off, and servers with another list have no locks
    /// to remember.
    fn rescues(&mut self, config: &AgreedConfig) -> bool {
        let list = list_of(config);
        for server in 0..self.env.nodes.len() {
            self.env.nodes[server].crashes = u32::from(!list.contains(&server));
            if self.env.probe(server).config.is_some_and(|known| known != *config) {
                self.env.nodes[server].store.clear();
            }
        }
        let mut view = view_of(&list, TTL_MS, QUARANTINE_MS);
        view.set_vouched(true);
        self.env.settle(&mut view, &list, &[]);
        self.settles(&list)
    }

    fn show_all(&mut self) {
        for server in 0..self.env.nodes.len() {
            let info = self.env.probe(server);
            let config = info.config.map(|it| {
                format!("{} {} after {}", it.change, it.members, it.before.unwrap_or_default())
            });
            let (quarantine, is_enrolled) = (info.quarantine, info.is_enrolled);
            self.env.note_change(|| {
                format!("server {server}: {config:?} {quarantine:?} {is_enrolled}")
            });
        }
    }
}

fn list_of(config: &AgreedConfig) -> Vec<usize> {
    let number = |label: &str| label.trim_start_matches('n').parse().unwrap_or(0);
    config.members.iter().map(|member| number(&member.label)).collect()
}

pub(super) const STREAM: u64 = 77;

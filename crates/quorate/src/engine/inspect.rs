//! Asks all nodes what they know about locks, and combines that into one report for people.

use std::{collections::BTreeSet, time::Duration};

use quorate_core::{
    command::{ClientId, Command, KeyObservation, Owner, Reply, Value},
    fence::Fence,
    inspect::{Inspected, Listed, ShareInfo, WAITING_SHOWN_MAX},
    name::Name,
    queue::{Position, is_shared},
};

use super::{
    Engine,
    report::Failure,
    survey::{Identity, Whos, ask, most_seen, of_all},
};
use crate::inspect::{Holder, LockReport, NodeView, Observation, Waiter};

/// What is known about a lock.
pub(crate) async fn inspect(engine: &Engine, name: Name, patience: Duration) -> LockReport {
    let command = Command::Inspect { name: name.clone(), shown: WAITING_SHOWN_MAX };
    let answers = ask(engine, of_all(engine, &command).collect(), patience, inspected).await;
    let view = View::new(&name, answers);
    let mut whos = Whos::default();
    whos.learn(engine, view.clients(), patience).await;
    view.report(engine, &whos)
}

/// What is known about each of these locks, without the waiters.
pub(crate) async fn inspect_all(
    engine: &Engine,
    names: &[Name],
    patience: Duration,
) -> Vec<LockReport> {
    let mut whos = Whos::default();
    let mut reports = Vec::with_capacity(names.len());
    for names in names.chunks(ASKED_AT_ONCE_MAX) {
        let commands = names.iter().map(|name| Command::Inspect { name: name.clone(), shown: 0 });
        let questions = commands.flat_map(|command| of_all(engine, &command).collect::<Vec<_>>());
        let answers = ask(engine, questions.collect(), patience, inspected).await;
        let mut answers = answers.into_iter();
        let views: Vec<View> = names
            .iter()
            .map(|name| View::new(name, answers.by_ref().take(engine.nodes.len()).collect()))
            .collect();
        whos.learn(engine, views.iter().flat_map(View::clients), patience).await;
        reports.extend(views.into_iter().map(|view| view.report(engine, &whos)));
    }
    reports
}

/// What the nodes know about one lock.
struct View {
    name: Name,
    nodes: Vec<Result<Inspected, Failure>>,
    /// The waiters that at least half of the nodes report.
    waiting: Vec<Owner>,
    waiting_total: u64,
    /// The value that most nodes report.
    value: Option<Value>,
    /// The other holders of a shared lock.
    others: Vec<Value>,
    /// The nodes' time.
    time_us: u64,
}

impl View {
    fn new(name: &Name, nodes: Vec<Result<Inspected, Failure>>) -> Self {
        let reports: Vec<&Inspected> = nodes.iter().flatten().collect();
        let entries: Vec<Entry> = reports.iter().flat_map(|it| entries(it)).collect();
        let most = most_seen(entries.iter(), |it| &it.value);
        let value = most.map(|it| it.value.clone());
        let is_together = most.is_some_and(|it| it.is_together);
        let others =
            if is_together { others(&entries, value.as_ref(), reports.len()) } else { vec![] };
        let waiting = waiting(&reports, value.iter().chain(&others));
        let is_all = reports.iter().all(|it| it.waiting_total == it.waiting.len() as u64);
        let waiting_total = match is_all {
            true => waiting.len() as u64,
            false => {
                let total = middle(reports.iter().map(|it| it.waiting_total));
                total.max(waiting.len() as u64)
            }
        };
        let time_us = middle(reports.iter().map(|it| it.time_us));
        Self { name: name.clone(), waiting, waiting_total, value, others, time_us, nodes }
    }

    /// The clients that the report mentions and whose descriptions are not known.
    fn clients(&self) -> impl Iterator<Item = ClientId> {
        let stored = self.nodes.iter().flatten().flat_map(entries);
        let holders = stored.filter_map(|it| Identity::of(&it.value).asked());
        let waiting = self.waiting.iter().filter_map(|owner| Position::of(owner.as_bytes()));
        holders.chain(waiting.map(|position| position.client))
    }

    fn report(self, engine: &Engine, whos: &Whos) -> LockReport {
        // The number of nodes on which this holder holds the lock, and their combined reports.
        let held = |value: &Value| {
            let entries = self.nodes.iter().flatten().flat_map(entries);
            let its = entries.filter(|entry| entry.value == *value);
            let holders: Vec<Holder> = its.map(|entry| entry.holder(engine, whos)).collect();
            (holders.len(), holders.into_iter().reduce(Holder::and))
        };
        let (votes, holder) = self.value.as_ref().map(held).unwrap_or_default();
        let shared_with = self.others.iter().filter_map(|value| held(value).1).collect();
        let waiter = |owner: &Owner| {
            let position = Position::of(owner.as_bytes())?;
            Some(Waiter {
                who: whos.words(&Identity::of_text(owner.as_bytes())),
                is_this_client: position.client == engine.client,
                waiting_for: Duration::from_micros(self.time_us.saturating_sub(position.ticket)),
            })
        };
        let waiting = self.waiting.iter().filter_map(waiter).collect();
        let view = |(node, node_call): (usize, &Result<Inspected, Failure>)| NodeView {
            node: engine.nodes[node].label().to_owned(),
            observation: match node_call {
                Ok(reports) => match entries(reports).first() {
                    Some(entry) => Observation::Held(entry.holder(engine, whos)),
                    None => Observation::Free,
                },
                Err(failure) => Observation::NodeError(failure.now(&*engine.nodes[node])),
            },
        };
        LockReport {
            name: self.name.to_string(),
            holder,
            shared_with,
            votes,
            waiting,
            waiting_total: self.waiting_total,
            nodes: self.nodes.iter().enumerate().map(view).collect(),
        }
    }
}

/// The report of one node about one holder.
struct Entry {
    value: Value,
    fence: Option<Fence>,
    held_ms: Option<u64>,
    left_ms: Option<u64>,
    /// Whether the lock is shared.
    is_together: bool,
}

/// The holders on one node: several, if the lock is shared.
fn entries(reports: &Inspected) -> Vec<Entry> {
    let share = |share: &ShareInfo| Entry {
        value: Value::Text(share.owner.as_bytes().into()),
        // The fence of a reader means nothing to a resource.
        fence: reports.fence.filter(|_| !is_shared(&share.owner)).map(|it| it.fence),
        held_ms: Some(share.held_ms),
        left_ms: Some(share.left_ms),
        is_together: true,
    };
    let alone = |seen: &KeyObservation| {
        // Holders from classic mode or other libraries have no fence.
        let has_fence = matches!(Identity::of(&seen.value), Identity::Queue(..));
        let fence = reports.fence.filter(|_| has_fence);
        Entry {
            value: seen.value.clone(),
            fence: fence.map(|it| it.fence),
            held_ms: fence.map(|it| it.age_ms),
            left_ms: seen.expires_in_ms,
            is_together: false,
        }
    };
    match reports.shares.is_empty() {
        true => reports.observation.iter().map(alone).collect(),
        false => reports.shares.iter().map(share).collect(),
    }
}

impl Entry {
    fn holder(&self, engine: &Engine, whos: &Whos) -> Holder {
        let left = self.left_ms.map(Duration::from_millis);
        Holder {
            fence: self.fence,
            held_for: self.held_ms.map(Duration::from_millis),
            ..whos.holder(engine, &self.value, left)
        }
    }
}

/// The holders of a shared lock that at least half of the `nodes` that replied report, except
/// `first`, in the order of their tickets.
fn others(entries: &[Entry], first: Option<&Value>, nodes: usize) -> Vec<Value> {
    let owners = entries.iter().filter(|it| it.is_together && Some(&it.value) != first);
    let mut owners: Vec<&[u8]> = owners.filter_map(|it| text(&it.value)).collect();
    owners.sort_unstable();
    let same = owners.chunk_by(|one, other| one == other);
    same.filter(|same| same.len() * 2 >= nodes).map(|it| Value::Text(it[0].into())).collect()
}

fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(text) => Some(text),
        Value::Shared(_) | Value::OtherType(_) => None,
    }
}

/// The waiters that at least half of the nodes that replied report, in the order of their tickets.
/// Without the holders, which may still be queued on some nodes.
fn waiting<'a>(reports: &[&Inspected], holders: impl Iterator<Item = &'a Value>) -> Vec<Owner> {
    let holders: BTreeSet<&[u8]> = holders.filter_map(text).collect();
    let is_holder = |owner: &Owner| holders.contains(owner.as_bytes());
    let mut owners: Vec<&Owner> = reports.iter().flat_map(|it| &it.waiting).collect();
    owners.sort_unstable();
    let places = owners.chunk_by(|one, other| one == other);
    let kept = places.filter(|same| same.len() * 2 >= reports.len() && !is_holder(same[0]));
    let longest = reports.iter().map(|it| it.waiting.len()).max().unwrap_or_default();
    kept.map(|same| same[0].clone()).take(longest).collect()
}

/// The median: the report of a single node does not count.
fn middle(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

pub(super) fn inspected(reply: Reply) -> Option<Inspected> {
    match reply {
        Reply::Inspected(inspected) => Some(*inspected),
        _ => None,
    }
}

pub(super) fn listed(reply: Reply) -> Option<Listed> {
    match reply {
        Reply::Listed(listed) => Some(listed),
        _ => None,
    }
}

/// How many locks are asked for at the same time. Callers that acquire a lock wait behind these
/// questions.
const ASKED_AT_ONCE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NodeError;

    fn owner(ticket: u64) -> Owner {
        Position { ticket, ttl_ms: 1, client: ClientId::from_random([1; 20]) }.owner(ticket)
    }

    /// The report of a node with the key of `holder` and these waiters, and `hidden` more waiters.
    fn reports(holder: Option<u64>, tickets: &[u64], hidden: u64) -> Result<Inspected, Failure> {
        let value = |ticket| Value::Text(owner(ticket).as_bytes().into());
        Ok(Inspected {
            observation: holder
                .map(|it| KeyObservation { value: value(it), expires_in_ms: Some(1) }),
            fence: None,
            waiting: tickets.iter().map(|it| owner(*it)).collect(),
            waiting_total: tickets.len() as u64 + hidden,
            time_us: 0,
            shares: [].into(),
        })
    }

    fn view(nodes: impl IntoIterator<Item = Result<Inspected, Failure>>) -> (Vec<Owner>, u64) {
        let name = Name::parse("a", "").unwrap();
        let view = View::new(&name, nodes.into_iter().collect());
        (view.waiting, view.waiting_total)
    }

    #[test]
    fn waiters_on_half_of_the_nodes_are_reported() {
        let nodes =
            [reports(Some(1), &[2, 3], 0), reports(Some(1), &[3, 4], 0), reports(Some(1), &[2], 0)];
        assert_eq!(view(nodes), (vec![owner(2), owner(3)], 2), "in the order of their tickets");
        let silent = || Err(Failure::new(NodeError::TimedOut, 0));
        assert_eq!(
            view([reports(None, &[5, 6], 0), silent(), silent()]).0.len(),
            2,
            "one node has replied"
        );
        assert_eq!(view([silent(), silent()]), (vec![], 0));
    }

    #[test]
    fn holder_is_not_reported_as_a_waiter() {
        let nodes =
            [reports(Some(1), &[2], 0), reports(Some(1), &[2], 0), reports(Some(2), &[1], 0)];
        assert_eq!(view(nodes), (vec![owner(2)], 1));
        let nodes = [reports(Some(1), &[2], 0), reports(Some(2), &[1], 0)];
        assert_eq!(view(nodes), (vec![owner(2)], 1), "with two reports the first one counts");
    }

    #[test]
    fn length_of_a_long_queue_is_the_median() {
        let nodes =
            [reports(None, &[1, 2], 7), reports(None, &[1, 2], 9), reports(None, &[3, 4], 900)];
        assert_eq!(view(nodes), (vec![owner(1), owner(2)], 11));
    }
}

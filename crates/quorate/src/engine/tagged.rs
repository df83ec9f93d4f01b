//! Finds the leases of tagged owners.

use std::{collections::BTreeMap, time::Duration};

use quorate_core::{
    command::{Command, Owner, Value},
    inspect::Inspected,
    name::Name,
    queue::{Position, Tag, tag_of},
    quorum::majority,
};

use super::{
    Engine,
    inspect::inspected,
    survey::{ask, of_all},
};
use crate::{detached_lease::DetachedLease, error::NodeError};

/// The leases of tagged owners that a majority of the nodes has. If no node replied, the error of
/// each node.
pub(crate) async fn tagged(
    engine: &Engine,
    names: &[Name],
    patience: Duration,
) -> Result<Vec<(Tag, DetachedLease)>, Vec<Option<NodeError>>> {
    let commands = names.iter().map(|name| Command::Inspect { name: name.clone(), shown: 0 });
    let questions = commands.flat_map(|command| of_all(engine, &command).collect::<Vec<_>>());
    let answers = ask(engine, questions.collect(), patience, inspected).await;
    let nodes = engine.nodes.len();
    if answers.iter().all(Result::is_err) {
        let first = answers.into_iter().take(nodes).zip(&engine.nodes);
        let node_error =
            first.map(|(answer, node)| answer.err().map(|failure| failure.now(&**node)));
        return Err(node_error.collect());
    }
    let mut found = Vec::new();
    for (name, answers) in names.iter().zip(answers.chunks(nodes)) {
        let reports = answers.iter().filter_map(|answer| answer.as_ref().ok());
        found.extend(leases(name, reports, majority(nodes)));
    }
    Ok(found)
}

/// The leases of one lock that at least `quorum` nodes have.
fn leases<'a>(
    name: &Name,
    reports: impl Iterator<Item = &'a Inspected>,
    quorum: usize,
) -> Vec<(Tag, DetachedLease)> {
    let mut seen: BTreeMap<Owner, usize> = BTreeMap::new();
    for owner in reports.flat_map(owners) {
        *seen.entry(owner).or_default() += 1;
    }
    let known = seen.into_iter().filter(|(_, count)| *count >= quorum);
    let lease = |(owner, _): (Owner, usize)| {
        let (tag, position) = (tag_of(owner.as_bytes())?, Position::of(owner.as_bytes())?);
        let ttl = Duration::from_millis(position.ttl_ms);
        Some((tag, DetachedLease::new(name.clone(), owner, ttl, Some(tag.fence))))
    };
    known.filter_map(lease).collect()
}

/// The holders of the lock on one node.
fn owners(inspected: &Inspected) -> impl Iterator<Item = Owner> {
    let alone = match &inspected.observation {
        Some(observation) if inspected.shares.is_empty() => match &observation.value {
            Value::Text(text) => Some(Owner::from_bytes(text)),
            Value::Shared(_) | Value::OtherType(_) => None,
        },
        _ => None,
    };
    alone.into_iter().chain(inspected.shares.iter().map(|share| share.owner.clone()))
}

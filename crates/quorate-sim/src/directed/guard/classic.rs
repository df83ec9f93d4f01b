//! The same for clients in classic mode.

use quorate_core::{
    command::{Command, Owner, Prolongation},
    contend::Outcome,
    renew::{self, Renew},
};

use super::{
    super::{Try, at, name, terms},
    Guest, Hall, TTL_MS,
};

/// A holds three nodes of five, and B is granted the two others. One of those is made a replica of
/// a node of A's, and a master again: it has A's key, and has forgotten B. A renews where it can,
/// and the node that it cannot reach lets go of its key, which B gets.
///
/// # Errors
///
/// If A holds on with the help of a node that has voted for B, and forgotten that.
pub fn a_node_that_was_a_replica_prolongs_nothing() -> Result<(), String> {
    let mut hall = Hall::founded(5);
    let [a, b] = [1, 2].map(|number| Guest::start(&mut hall, number, 0));
    let mut taking = Try::start(terms(TTL_MS), 5, 0);
    (0..3).for_each(|node| a.take(&mut hall, &mut taking, node, 1));
    let Some(Outcome::Held { valid_until, .. }) = taking.outcome() else {
        return Err(format!("an attempt ended as {:?}, not with the lock", taking.outcome()));
    };

    let mut taking = Try::start(terms(TTL_MS), 5, 85);
    (3..5).for_each(|node| b.take(&mut hall, &mut taking, node, 86));
    let other = hall.stores[0].clone();
    hall.stores[3].copy(&other);
    let mut renewal = Renew::start(terms(TTL_MS), 5, valid_until, at(88));
    for node in [0, 1, 3] {
        let entry = Prolongation { name: name(), owner: a.classic_owner(), ttl_ms: TTL_MS };
        let speaker = Some(a.speaker(node));
        let prolong = Command::Prolong { entries: [entry].into(), speaker };
        let reply = hall.apply(node, 89, &prolong);
        renewal.handle_vote(node, prolong.vote(&reply), at(90));
    }
    b.take(&mut hall, &mut taking, 2, 102);
    match (renewal.outcome(), taking.outcome()) {
        (Some(renew::Outcome::Extended { .. }), Some(Outcome::Held { .. })) => {
            Err("a node that has forgotten its vote lets another hold on".to_owned())
        }
        (_, Some(Outcome::Held { .. })) => Ok(()),
        (_, other) => Err(format!("who has three nodes of five ends as {other:?}")),
    }
}

impl Guest {
    /// Asks one node, in time.
    fn take(&self, hall: &mut Hall, taking: &mut Try, node: usize, ms: u64) {
        let (owner, speaker) = (self.classic_owner(), Some(self.speaker(node)));
        let take = Command::Take { name: name(), owner, ttl_ms: TTL_MS, speaker };
        let reply = hall.apply(node, ms, &take);
        taking.vote(node, take.vote(&reply), ms);
    }

    fn classic_owner(&self) -> Owner {
        Owner::new(&self.place.client, 1, "classic")
    }
}

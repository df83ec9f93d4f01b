//! One attempt to win a lock, from the question to the guard: for locking and for adopting.

use std::{sync::Arc, time::Duration};

use quorate_core::{
    acquire::{Acquire, Outcome},
    command::Owner,
    name::Name,
    quorum::NodeSet,
    terms::Terms,
};

use crate::{
    client::Inner,
    engine::{Attempt, Claim, Ended, Machine},
    error::NodeReport,
    guard::{Guard, Hold, Won},
};

/// What is wanted.
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) terms: Terms,
    pub(crate) hold: Hold,
    /// The owner who left the lock to us, if so.
    pub(crate) from: Option<Owner>,
    /// How long silent nodes are waited for at the most, whatever the terms say.
    pub(crate) patience: Duration,
}

/// What came of it.
pub(crate) enum Got {
    Held(Guard),
    Contended,
    /// Too few nodes answered, or so late that nothing of the lease is left.
    Silence(Box<[NodeReport]>),
    /// The client was shut down.
    ShutDown,
}

/// Asks all nodes once.
pub(crate) async fn acquire(client: &Arc<Inner>, want: Want) -> Got {
    let engine = &client.engine;
    // A shutdown waits for us, so that a lock that is won meanwhile is given back.
    let _call = engine.enter_call();
    if client.is_closed() {
        return Got::ShutDown;
    }
    let Want { name, terms, hold, from, patience } = want;
    let terms = terms.with_vote_timeout(terms.vote_timeout().min(patience));
    let owner = engine.next_owner();
    let now = engine.now();
    let (untaken, machine) = (NodeSet::EMPTY, Acquire::start(terms, engine.nodes.len(), now));
    let claim = Claim { name: name.clone(), owner: owner.clone(), terms, from, untaken };
    let attempt = Attempt::start(engine, claim, now, Machine::Acquire(machine));
    let Ended::Acquire(outcome) = attempt.clone().outcome().await else {
        unreachable!("an acquire ends as one")
    };
    match outcome {
        Outcome::Held { valid_until } => {
            let untaken = attempt.untaken();
            let won = Won { name, owner, terms, sent_at: now, valid_until, hold, untaken };
            let guard = Guard::new(client.clone(), won);
            // A shutdown meanwhile did not see this guard, or has given the lock back already.
            if client.is_closed() {
                return Got::ShutDown;
            }
            // The caller may have been kept from running until now.
            match guard.check() {
                Ok(()) => Got::Held(guard),
                Err(_) => Got::Silence(attempt.reports()),
            }
        }
        Outcome::Contended => Got::Contended,
        Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned if client.is_closed() => {
            Got::ShutDown
        }
        Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned => {
            Got::Silence(attempt.reports())
        }
    }
}

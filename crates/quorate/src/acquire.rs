//! One attempt to win a lock, from the question to the guard: for locking and for adopting.

use std::{sync::Arc, time::Duration};

use quorate_core::{
    acquire::{Acquire, Outcome},
    client::{waiter, watchdog::HeldLease},
    command::Owner,
    contend::{self, Mode},
    lease::LostReason,
    line::FencedLease,
    moment::Moment,
    name::Name,
    quorum::NodeSet,
    release::Release,
    terms::Terms,
};

use crate::{
    client::Inner,
    engine::{Asking, Call, Claim, Ended, Engine, OwnerKind},
    error::{AdoptError, Lost, NodeReport},
    guard::{Guard, Hold},
    held::Held,
};

/// What is wanted.
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) terms: Terms,
    pub(crate) hold: Hold,
    pub(crate) kind: OwnerKind,
}

/// What came of it.
pub(crate) enum Got {
    Held(Guard),
    /// Somebody else has the lock or is after it; or the lease that was left is gone.
    Contended,
    /// Too few nodes answered, or their answers came too late.
    Silence(Box<[NodeReport]>),
    ShutDown,
}

/// Asks every node once in classic mode. Dropping the future gives back whatever was taken.
pub(crate) async fn take(client: &Arc<Inner>, want: Want, patience: Duration) -> Got {
    let terms = want.terms;
    let terms = terms.with_vote_timeout(terms.vote_timeout().min(patience));
    acquire(client, Want { terms, ..want }, None, None).await
}

/// Takes over the lease that another has left.
pub(crate) async fn adopt(
    client: &Arc<Inner>,
    want: Want,
    from: Owner,
    fenced: Option<FencedLease>,
) -> Got {
    acquire(client, want, Some(from), fenced).await
}

/// Puts another owner in the place of the one that holds the lock: the same place, but one that
/// never stands in line.
pub(crate) async fn rename(
    client: &Arc<Inner>,
    held: &Held,
    lease: &HeldLease,
) -> Result<Owner, AdoptError> {
    let engine = &client.engine;
    // A shutdown waits for us, so that nothing stays that nobody has.
    let _call = engine.enter_call();
    if client.is_closed() {
        return Err(AdoptError::ShutDown);
    }
    let (now, terms) = (engine.now(), lease.terms());
    let terms = terms.with_vote_timeout(engine.vote_timeout(terms.ttl()));
    let owner = engine.owner_beside(&held.owner, terms.ttl_ms(), now);
    let claim = Claim { from: Some(held.owner.clone()), ..as_owner(lease, &owner, terms) };
    let machine = Asking::Acquire(Acquire::start(terms, engine.nodes.len(), now));
    let call = Call::ask(engine, claim, machine);
    let Ended::Take(outcome) = call.outcome().await else { unreachable!("an acquire ends as one") };
    match outcome {
        Outcome::Held { .. } => {}
        Outcome::Contended => return Err(Lost::new(LostReason::Gone).into()),
        Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned => {
            held.check(engine, engine.now())?;
            return Err(match client.is_closed() {
                true => AdoptError::ShutDown,
                false => AdoptError::NoQuorum { nodes: call.reports() },
            });
        }
    }
    let mut renamed = Renamed { engine, lease, owner: &owner, terms, is_kept: false };
    // Only what was held all the time is held still: where the old owner stood in line it may have
    // come after others.
    held.check(engine, engine.now())?;
    // Whoever goes on with the lease may give it back at once, and what we have sent to a node that
    // is slow must not come after that.
    call.settled().await;
    if client.is_closed() {
        return Err(AdoptError::ShutDown);
    }
    renamed.is_kept = true;
    drop(renamed);
    Ok(owner)
}

fn as_owner(lease: &HeldLease, owner: &Owner, terms: Terms) -> Claim {
    Claim { owner: owner.clone(), untaken: NodeSet::EMPTY, ..lease.claim(terms) }
}

/// A lease that goes on as another owner, unless nobody wants it any more.
struct Renamed<'a> {
    engine: &'a Arc<Engine>,
    lease: &'a HeldLease,
    owner: &'a Owner,
    terms: Terms,
    is_kept: bool,
}

impl Drop for Renamed<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let (engine, now) = (self.engine, self.engine.now());
            let machine = Asking::Release(Release::start(self.terms, engine.nodes.len(), now));
            drop(Call::ask(engine, as_owner(self.lease, self.owner, self.terms), machine));
        }
    }
}

async fn acquire(
    client: &Arc<Inner>,
    want: Want,
    from: Option<Owner>,
    fenced: Option<FencedLease>,
) -> Got {
    let engine = &client.engine;
    // A shutdown waits for us, so that a lock that is won meanwhile is given back.
    let _call = engine.enter_call();
    if client.is_closed() {
        return Got::ShutDown;
    }
    let Want { name, terms, hold, kind } = want;
    let now = engine.now();
    let owner = engine.next_owner(terms.ttl_ms(), &kind, now);
    let (untaken, machine) = (NodeSet::EMPTY, Acquire::start(terms, engine.nodes.len(), now));
    let claim = Claim { name, owner, terms, from, untaken, fenced };
    let call = Call::ask(engine, claim, Asking::Acquire(machine));
    let Ended::Take(outcome) = call.outcome().await else { unreachable!("an acquire ends as one") };
    match outcome {
        Outcome::Held { .. } => hand_out(client, call, hold),
        Outcome::Contended => Got::Contended,
        Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned if client.is_closed() => {
            Got::ShutDown
        }
        Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned => Got::Silence(call.reports()),
    }
}

/// Contends for the lock in line, or once. Dropping the future leaves the line and gives back
/// whatever was granted.
pub(crate) async fn contend(
    client: &Arc<Inner>,
    want: Want,
    mode: Mode,
    deadline: Option<Moment>,
) -> Got {
    let engine = &client.engine;
    // A shutdown waits for us, so that a lock that is won meanwhile is given back.
    let _call = engine.enter_call();
    if client.is_closed() {
        return Got::ShutDown;
    }
    let Want { name, terms, hold, kind } = want;
    let want = waiter::Want { name, terms, kind, mode, max_ttl: engine.max_ttl };
    let call = Call::acquire(engine, want);
    let Some(ended) = call.outcome_until(deadline).await else {
        return match call.is_short() {
            _ if client.is_closed() => Got::ShutDown,
            true => Got::Silence(call.reports()),
            false => Got::Contended,
        };
    };
    let Ended::Acquire(outcome) = ended else { unreachable!("an acquire ends as one") };
    match outcome {
        contend::Outcome::Held { .. } => hand_out(client, call, hold),
        contend::Outcome::Contended => Got::Contended,
        contend::Outcome::NoQuorum | contend::Outcome::Abandoned if client.is_closed() => {
            Got::ShutDown
        }
        contend::Outcome::NoQuorum | contend::Outcome::Abandoned => Got::Silence(call.reports()),
    }
}

fn hand_out(client: &Arc<Inner>, call: Call, hold: Hold) -> Got {
    let guard = Guard::new(client.clone(), call, hold);
    // A shutdown meanwhile did not see this guard, or has given the lock back already.
    if client.is_closed() {
        return Got::ShutDown;
    }
    // The caller may have been kept from running until now.
    match guard.check() {
        Ok(()) => Got::Held(guard),
        Err(_) => Got::Silence(guard.call().reports()),
    }
}

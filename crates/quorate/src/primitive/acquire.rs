//! One attempt to win a lock, from the question to the guard: for locking and for adopting.

use std::sync::Arc;

use quorate_core::{
    client::{waiter::Want as Asked, watchdog::HeldLease},
    command::Owner,
    contend::{Outcome, Wait},
    dialect::Adoption,
    lease::LostReason,
    line::FencedLease,
    moment::Moment,
    name::Name,
    quorum::NodeSet,
    round::{Round, Verb},
    terms::Terms,
};

use crate::{
    engine::{
        Asking, Call, Claim, Ended, Engine, OwnerKind,
        held::{Held, Hold},
    },
    error::{AdoptError, LockError, Lost, NodeReport},
    primitive::{guard::Guard, inner::Inner},
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
}

impl Got {
    /// The guard; `None` if somebody else has the lock.
    pub(crate) fn into_guard(self) -> Result<Option<Guard>, LockError> {
        match self {
            Self::Held(guard) => Ok(Some(guard)),
            Self::Contended => Ok(None),
            Self::Silence(nodes) => Err(LockError::NoQuorum { nodes }),
        }
    }
}

/// Acquires the lock, waiting for it or trying once. Dropping the future leaves the queue and gives
/// back whatever was granted.
pub(crate) async fn acquire(
    client: &Arc<Inner>,
    want: Want,
    wait: Wait,
    deadline: Option<Moment>,
) -> Result<Got, LockError> {
    let Want { name, terms, hold, kind } = want;
    let dialect = client.engine.dialect;
    let asked = Asked { name, terms, kind, wait, dialect, adopts: None };
    win(client, asked, hold, deadline).await.ok_or(LockError::ShutDown)
}

/// Takes over the lease that another has left.
pub(crate) async fn adopt(
    client: &Arc<Inner>,
    want: Want,
    from: Owner,
    fenced: Option<FencedLease>,
) -> Result<Got, AdoptError> {
    let Want { name, terms, hold, kind } = want;
    let engine = &client.engine;
    let owner = engine.next_owner(terms.ttl_ms(), &kind, engine.now());
    let adopts = Some(Box::new(Adoption { from, owner, fenced }));
    let (wait, dialect) = (Wait::Never, engine.dialect);
    let asked = Asked { name, terms, kind, wait, dialect, adopts };
    win(client, asked, hold, None).await.ok_or(AdoptError::ShutDown)
}

/// `None` once the client is shut down.
async fn win(
    client: &Arc<Inner>,
    asked: Asked,
    hold: Hold,
    deadline: Option<Moment>,
) -> Option<Got> {
    let engine = &client.engine;
    // A shutdown waits for us, so that a lock that is won meanwhile is given back.
    let _call = engine.enter_call();
    if client.is_closed() {
        return None;
    }
    let call = Call::acquire(engine, asked);
    match call.outcome_until(deadline).await.map(acquired) {
        Some(Outcome::Held { .. }) => hand_out(client, call, hold),
        Some(Outcome::NoQuorum | Outcome::Abandoned) | None if client.is_closed() => None,
        Some(Outcome::NoQuorum | Outcome::Abandoned) => Some(Got::Silence(call.reports())),
        None if call.is_short() => Some(Got::Silence(call.reports())),
        Some(Outcome::Contended) | None => Some(Got::Contended),
    }
}

fn acquired(ended: Ended) -> Outcome {
    let Ended::Acquire(outcome) = ended else { unreachable!("an acquire ends as one") };
    outcome
}

fn hand_out(client: &Arc<Inner>, call: Call, hold: Hold) -> Option<Got> {
    let guard = Guard::new(client.clone(), call, hold);
    // A shutdown meanwhile did not see this guard, or has given the lock back already.
    if client.is_closed() {
        return None;
    }
    // The caller may have been kept from running until now.
    Some(match guard.check() {
        Ok(()) => Got::Held(guard),
        Err(_) => Got::Silence(guard.call().reports()),
    })
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
    let terms = lease.terms();
    let terms = terms.with_vote_timeout(engine.vote_timeout(terms.ttl()));
    let owner = engine.owner_beside(&held.owner, terms.ttl_ms(), engine.now());
    let (name, kind) = (lease.name().clone(), OwnerKind::of(&owner));
    let (from, fenced) = (held.owner.clone(), lease.fenced());
    let adopts = Some(Box::new(Adoption { from, owner: owner.clone(), fenced }));
    let (wait, dialect) = (Wait::Never, engine.dialect);
    let call = Call::acquire(engine, Asked { name, terms, kind, wait, dialect, adopts });
    match acquired(call.outcome().await) {
        Outcome::Held { .. } => {}
        Outcome::Contended => return Err(Lost::new(LostReason::Gone).into()),
        Outcome::NoQuorum | Outcome::Abandoned => {
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
    call.settled(terms).await;
    if client.is_closed() {
        return Err(AdoptError::ShutDown);
    }
    renamed.is_kept = true;
    drop(renamed);
    Ok(owner)
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
            let Self { engine, lease, owner, terms, .. } = *self;
            let (owner, untaken) = (owner.clone(), NodeSet::EMPTY);
            let claim = Claim { owner, untaken, ..lease.claim(terms) };
            let nodes = engine.nodes.len();
            let machine = Round::start(Verb::Release, terms, nodes, engine.now());
            drop(Call::ask(engine, claim, Asking::Round(machine)));
        }
    }
}

//! One attempt to acquire a lock or to adopt a lease, from the request to the guard.

use std::sync::Arc;

use quorate_core::{
    acquire::{Outcome, Wait},
    client::{waiter::Want as Asked, watchdog::HeldLease},
    command::Owner,
    dialect::Adoption,
    lease::LostReason,
    moment::Moment,
    name::Name,
    queue::FencedLease,
    quorum::NodeSet,
    round::{Round, RoundKind},
    terms::Terms,
};

use crate::{
    engine::{
        Asking, Call, Claim, Ended, Engine, Entered, OwnerKind,
        held::{Held, Hold},
    },
    error::{LeaseError, LockError, Lost, NodeReport},
    observe::LockKind,
    primitive::{guard::Guard, inner::Inner},
};

/// What is wanted.
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) terms: Terms,
    pub(crate) hold: Hold,
    pub(crate) kind: OwnerKind,
    /// As events name it.
    pub(crate) lock_kind: LockKind,
}

/// The outcome.
pub(crate) enum Got<T = Guard> {
    Held(T),
    /// Another owner holds the lock or tries to; or the detached lease has ended.
    Contended,
    /// Too few nodes answered, or their answers arrived too late.
    Silence(Silence),
}

impl<T> Got<T> {
    /// The guard; `None` if another owner holds the lock.
    pub(crate) fn into_guard(self) -> Result<Option<T>, LockError> {
        match self {
            Self::Held(guard) => Ok(Some(guard)),
            Self::Contended => Ok(None),
            Self::Silence(silence) => Err(silence.into()),
        }
    }
}

/// Too few nodes answered in time.
pub(crate) struct Silence {
    pub(crate) lock: Name,
    pub(crate) nodes: Box<[NodeReport]>,
}

impl From<Silence> for LockError {
    fn from(Silence { lock, nodes }: Silence) -> Self {
        Self::NoQuorum { lock: lock.to_string(), nodes }
    }
}

impl From<Silence> for LeaseError {
    fn from(Silence { lock, nodes }: Silence) -> Self {
        Self::NoQuorum { lock: lock.to_string(), nodes }
    }
}

/// Starts to acquire the lock, waiting for it or trying once.
pub(crate) fn begin(client: &Arc<Inner>, want: Want, wait: Wait) -> Result<Begun<'_>, LockError> {
    let Want { name, terms, hold, kind, lock_kind } = want;
    let dialect = client.engine.dialect;
    let asked = Asked { name, terms, kind: kind.boxed(), wait, dialect, adopts: None };
    Begun::new(client, asked, lock_kind, hold).ok_or(LockError::ShutDown)
}

/// Acquires several locks, all or none. Dropping the future leaves all queues and releases what was
/// granted.
pub(crate) async fn acquire_all(
    client: &Arc<Inner>,
    wants: Vec<Want>,
    wait: Wait,
    deadline: Option<Moment>,
) -> Result<Got<Vec<Guard>>, LockError> {
    win_all(client, wants, wait, deadline).await.ok_or(LockError::ShutDown)
}

/// `None` once the client is shut down.
async fn win_all(
    client: &Arc<Inner>,
    wants: Vec<Want>,
    wait: Wait,
    deadline: Option<Moment>,
) -> Option<Got<Vec<Guard>>> {
    let engine = &client.engine;
    // A shutdown waits for this call, so that locks that are acquired meanwhile are released.
    let _call = engine.enter_call();
    if client.is_closed() {
        return None;
    }
    let (dialect, holds) = (engine.dialect, wants.iter().map(|want| want.hold));
    let holds: Vec<Hold> = holds.collect();
    let names: Vec<Name> = wants.iter().map(|want| want.name.clone()).collect();
    let ask = |Want { name, terms, kind, .. }| Asked {
        name,
        terms,
        kind: kind.boxed(),
        wait,
        dialect,
        adopts: None,
    };
    let calls = Call::acquire_all(engine, wants.into_iter().map(ask).collect());
    let outcomes = outcomes_until(&calls, deadline).await;
    if outcomes.iter().all(is_held) {
        let guards = calls.into_iter().zip(holds);
        let guards = guards.map(|(call, hold)| Guard::new(client.clone(), call, hold)).collect();
        return hand_out(client, guards, Vec::as_slice);
    }
    let blamed = blamed(&outcomes, &calls);
    failure(client, outcomes[blamed], &calls[blamed], &names[blamed])
}

/// The outcome of each call; `None` if the deadline comes first.
async fn outcomes_until(calls: &[Call], deadline: Option<Moment>) -> Vec<Option<Outcome>> {
    let mut outcomes = Vec::with_capacity(calls.len());
    for call in calls {
        outcomes.push(call.outcome_until(deadline).await.map(acquired));
    }
    // All are held at the same moment. It may come after the first was given up, and before the
    // last.
    if outcomes.iter().any(is_held) {
        for (outcome, call) in outcomes.iter_mut().zip(calls).filter(|(it, _)| it.is_none()) {
            *outcome = Some(acquired(call.outcome().await));
        }
    }
    outcomes
}

const fn is_held(outcome: &Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Held { .. }))
}

/// The lock that a set was not acquired for. If the caller's time had passed, a lock that another
/// owner holds comes before one that too few nodes answered about.
fn blamed(outcomes: &[Option<Outcome>], calls: &[Call]) -> usize {
    let is_decided = |it: &Option<Outcome>| {
        matches!(it, Some(Outcome::Contended | Outcome::NoQuorum)) // The others were abandoned.
    };
    let late = |is_blamed: fn(&Call) -> bool| {
        let mut both = outcomes.iter().zip(calls);
        both.position(|(outcome, call)| outcome.is_none() && is_blamed(call))
    };
    let decided = outcomes.iter().position(is_decided);
    decided.or_else(|| late(Call::is_contended)).or_else(|| late(Call::is_short)).unwrap_or(0)
}

/// Adopts a lease that another process detached.
pub(crate) async fn adopt(
    client: &Arc<Inner>,
    want: Want,
    from: Owner,
    fenced: Option<FencedLease>,
) -> Result<Got, LeaseError> {
    let Want { name, terms, hold, kind, lock_kind } = want;
    let engine = &client.engine;
    let owner = engine.next_owner(terms.ttl_ms(), &kind, engine.now());
    let adopts = Some(Box::new(Adoption { from, owner, fenced }));
    let (wait, dialect, kind) = (Wait::Never, engine.dialect, kind.boxed());
    let asked = Asked { name, terms, kind, wait, dialect, adopts };
    let begun = Begun::new(client, asked, lock_kind, hold).ok_or(LeaseError::ShutDown)?;
    begun.outcome(None).await.ok_or(LeaseError::ShutDown)
}

/// A request that was sent. Dropping it leaves the queue and releases what was granted.
///
/// It is not the state of an async function, which would keep everything that the request consists
/// of for as long as the caller waits.
pub(crate) struct Begun<'a> {
    client: &'a Arc<Inner>,
    name: Name,
    hold: Hold,
    call: Call,
    /// A shutdown waits for this call, so that a lock that is acquired meanwhile is released.
    _entered: Entered<'a>,
}

impl<'a> Begun<'a> {
    /// `None` once the client is shut down.
    fn new(client: &'a Arc<Inner>, asked: Asked, kind: LockKind, hold: Hold) -> Option<Self> {
        let engine = &client.engine;
        let entered = engine.enter_call();
        if client.is_closed() {
            return None;
        }
        let name = asked.name.clone();
        let call = Call::acquire(engine, asked, kind);
        Some(Self { client, name, hold, call, _entered: entered })
    }

    /// `None` once the client is shut down.
    ///
    /// An async function would contain `self` twice.
    #[expect(clippy::manual_async_fn, reason = "there may be many waiters")]
    pub(crate) fn outcome(
        self,
        deadline: Option<Moment>,
    ) -> impl Future<Output = Option<Got>> + use<'a> {
        async move {
            match self.call.outcome_until(deadline).await.map(acquired) {
                Some(Outcome::Held { .. }) => {
                    let guard = Guard::new(self.client.clone(), self.call, self.hold);
                    hand_out(self.client, guard, std::slice::from_ref)
                }
                failed => failure(self.client, failed, &self.call, &self.name),
            }
        }
    }
}

/// Why a call has acquired nothing; `None` if its deadline had passed.
fn failure<T>(
    client: &Inner,
    outcome: Option<Outcome>,
    call: &Call,
    lock: &Name,
) -> Option<Got<T>> {
    let silence = || Got::Silence(Silence { lock: lock.clone(), nodes: call.reports() });
    match outcome {
        Some(Outcome::NoQuorum | Outcome::Abandoned) | None if client.is_closed() => None,
        Some(Outcome::NoQuorum | Outcome::Abandoned) => Some(silence()),
        None if call.is_short() => Some(silence()),
        Some(Outcome::Contended | Outcome::Held { .. }) | None => Some(Got::Contended),
    }
}

fn acquired(ended: Ended) -> Outcome {
    let Ended::Acquire(outcome) = ended else { unreachable!("an acquire ends as one") };
    outcome
}

/// What was acquired, unless one of its leases has ended already.
fn hand_out<T>(client: &Inner, won: T, guards: impl FnOnce(&T) -> &[Guard]) -> Option<Got<T>> {
    // A shutdown meanwhile did not see these guards, or has released the locks already.
    if client.is_closed() {
        return None;
    }
    // The task may not have run until now.
    Some(match guards(&won).iter().find(|guard| guard.check().is_err()) {
        None => Got::Held(won),
        Some(over) => Got::Silence(over.silence()),
    })
}

/// Replaces the owner that holds the lock by another one with the same position, which is never
/// queued.
pub(crate) async fn rename(
    client: &Arc<Inner>,
    held: &Held,
    lease: &HeldLease,
) -> Result<Owner, LeaseError> {
    let engine = &client.engine;
    // A shutdown waits for this call, so that no key without a holder remains.
    let _call = engine.enter_call();
    if client.is_closed() {
        return Err(LeaseError::ShutDown);
    }
    let terms = lease.terms();
    let terms = terms.with_vote_timeout(engine.vote_timeout(terms.ttl()));
    let owner = engine.owner_beside(&held.owner, terms.ttl_ms(), engine.now());
    let (name, kind) = (lease.name().clone(), OwnerKind::of(&owner).boxed());
    let (from, fenced) = (held.owner.clone(), lease.fenced());
    let adopts = Some(Box::new(Adoption { from, owner: owner.clone(), fenced }));
    let (wait, dialect) = (Wait::Never, engine.dialect);
    let asked = Asked { name, terms, kind, wait, dialect, adopts };
    let call = Call::acquire(engine, asked, held.kind);
    match acquired(call.outcome().await) {
        Outcome::Held { .. } => {}
        Outcome::Contended => return Err(Lost::new(lease.name(), LostReason::Gone).into()),
        Outcome::NoQuorum | Outcome::Abandoned => {
            held.check(engine, engine.now())?;
            return Err(match client.is_closed() {
                true => LeaseError::ShutDown,
                false => Silence { lock: lease.name().clone(), nodes: call.reports() }.into(),
            });
        }
    }
    let (kind, owner_of) = (held.kind, &owner);
    let mut renamed = Renamed { engine, lease, kind, owner: owner_of, terms, is_kept: false };
    // Only keys that were stored all the time count: where the old owner was queued, another owner
    // may have held the lock before it.
    held.check(engine, engine.now())?;
    // The process that adopts the lease may release it at once, and a command to a slow node must
    // not follow that release.
    call.settled(terms).await;
    if client.is_closed() {
        return Err(LeaseError::ShutDown);
    }
    renamed.is_kept = true;
    drop(renamed);
    Ok(owner)
}

/// A lease that continues under another owner, unless its caller is gone.
struct Renamed<'a> {
    engine: &'a Arc<Engine>,
    lease: &'a HeldLease,
    kind: LockKind,
    owner: &'a Owner,
    terms: Terms,
    is_kept: bool,
}

impl Drop for Renamed<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let Self { engine, lease, kind, owner, terms, .. } = *self;
            let (owner, untaken) = (owner.clone(), NodeSet::EMPTY);
            let claim = Claim { owner, untaken, ..lease.claim(terms) };
            let nodes = engine.nodes.len();
            let machine = Round::start(RoundKind::Release, terms, nodes, engine.now());
            drop(Call::ask(engine, claim, kind, Asking::Round(machine)));
        }
    }
}

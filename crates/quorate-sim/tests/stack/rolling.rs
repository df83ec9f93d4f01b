//! Rolling restarts of servers with quarantine while a lock is held: each server restarts when all
//! vote.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    server::{Keeps, Node},
    trace::now,
    waiting::eventually,
};

#[test]
fn rolling_restarts_leave_an_uncontended_lock_with_its_holder() {
    for_seeds(6, |seed| {
        assert_holder_kept_its_lock(&run(seed, Rivals { waits: false, tries: false }));
    });
}

#[test]
fn rolling_restarts_with_a_waiter_leave_the_lock_with_its_holder() {
    for_seeds(6, |seed| {
        assert_holder_kept_its_lock(&run(seed, Rivals { waits: true, tries: false }));
    });
}

#[test]
fn rolling_restarts_with_late_callers_leave_the_lock_with_its_holder() {
    for_seeds(6, |seed| {
        assert_holder_kept_its_lock(&run(seed, Rivals { waits: false, tries: true }));
    });
}

#[test]
fn rolling_restarts_with_a_waiter_and_late_callers_leave_the_lock_with_its_holder() {
    for_seeds(6, |seed| {
        assert_holder_kept_its_lock(&run(seed, Rivals { waits: true, tries: true }));
    });
}

/// A renewal that is only due at a third of the ttl would come after the waiters have asked.
#[test]
fn rolling_restarts_with_a_waiter_leave_a_lock_that_is_seldom_renewed_with_its_holder() {
    for_seeds(3, |seed| {
        let rivals = Rivals { waits: true, tries: false };
        assert_holder_kept_its_lock(&run_with_ttl(seed, rivals, SELDOM_RENEWED));
    });
}

/// The holder kept its lock until all servers had restarted.
fn assert_holder_kept_its_lock(outcome: &Outcome) {
    let Outcome { restarts, lost_after } = outcome;
    assert_eq!(*lost_after, None, "the holder lost its lock during {restarts} restarts");
}

/// How a run ended.
#[derive(Debug)]
struct Outcome {
    restarts: usize,
    /// After how many restarts the holder lost its lock, if it did.
    lost_after: Option<usize>,
}

/// The other clients that want the lock.
#[derive(Clone, Copy, Debug)]
struct Rivals {
    /// A waiter is queued all the time.
    waits: bool,
    /// A program calls `try_lock` again and again.
    tries: bool,
}

fn run(seed: u64, rivals: Rivals) -> Outcome {
    run_with_ttl(seed, rivals, TTL)
}

fn run_with_ttl(seed: u64, rivals: Rivals, ttl: Duration) -> Outcome {
    let mut dice = Dice::new(seed, "rolling");
    let nodes = if dice.chance(50) { 3 } else { 5 };
    let times = (Duration::from_millis(5), dice.ms(5..=15));
    let mut fixture = Fixture::with_tick(seed, nodes, times).in_default_mode().quarantined(ttl);
    let story = Story { ttl, ..Story::default() };
    let holder = story.clone();
    fixture.program("holder", move |program| holder.clone().hold(program));
    if rivals.waits {
        let waiter = story.clone();
        fixture.program("waiter", move |program| waiter.clone().wait(program));
    }
    if rivals.tries {
        let caller = story.clone();
        fixture.program("caller", move |program| caller.clone().call(program));
    }
    let order = (0..nodes).collect();
    let mut restarts = Restarts { dice, order, story: story.clone(), back: None };
    fixture.run(RUN_MAX + 6 * WAIT_MAX, |fixture| restarts.step(fixture));
    fixture.assert_nothing_left(ttl);
    Outcome { restarts: story.restarts.get(), lost_after: story.lost_after.get() }
}

/// Restarts one server after the other.
struct Restarts {
    dice: Dice,
    /// Servers that have not restarted yet.
    order: Vec<usize>,
    story: Story,
    /// The server that is down, and until when.
    back: Option<(Duration, usize)>,
}

impl Restarts {
    fn step(&mut self, fixture: &mut Fixture) {
        let now = fixture.now();
        if let Some((_, node)) = self.back.filter(|(at, _)| *at <= now) {
            self.back = None;
            fixture.sim.bounce(Node::host(node));
        }
        let all_vote = self.back.is_none() && fixture.nodes.iter().all(|node| node.votes());
        if !self.story.is_held.get() || !all_vote {
            return;
        }
        // Renewals have given the last server its key back by then, if they can.
        let settled_at = *self.story.settled_at.borrow_mut().get_or_insert(now + SETTLED_AFTER);
        if now < settled_at {
            return;
        }
        self.story.settled_at.take();
        let Some(node) = self.order.pop() else {
            self.story.is_over.set(true);
            return;
        };
        let keeps = [Keeps::Everything, Keeps::Nothing][self.dice.below(2)];
        fixture.trace.add_at(now, format_args!("node-{node} restarts with {keeps:?}"));
        fixture.nodes[node].set_keeps(keeps);
        fixture.sim.crash(Node::host(node));
        self.story.restarts.set(self.story.restarts.get() + 1);
        self.back = Some((now + self.dice.ms(10..=800), node));
    }
}

/// What the programs and the restarts share.
#[derive(Clone, Default)]
struct Story {
    /// The ttl of the lock, and the longest one.
    ttl: Duration,
    is_held: Rc<Cell<bool>>,
    is_over: Rc<Cell<bool>>,
    restarts: Rc<Cell<usize>>,
    lost_after: Rc<Cell<Option<usize>>>,
    /// When the next server may restart.
    settled_at: Rc<RefCell<Option<Duration>>>,
}

impl Story {
    /// Holds the lock until all servers have restarted, or until it is lost.
    async fn hold(self, program: Program) {
        let client = program.client("").ttl(self.ttl).build().expect("valid");
        client.admit().await.expect("the servers are new");
        let guard = client.mutex(LOCK).lock().await.expect("no other client wants it");
        let claim = program.claim(&guard);
        self.is_held.set(true);
        let is_over = || self.is_over.get();
        let held = guard.run(eventually(RUN_MAX, "all servers have restarted", is_over)).await;
        drop(claim);
        if held.is_err() {
            self.lost_after.set(Some(self.restarts.get()));
        }
        drop(guard);
        eventually(RUN_MAX, "all servers have restarted", is_over).await;
        assert!(client.shutdown(WAIT_MAX).await.is_clean, "the holder owes a release");
    }

    /// Waits until it gets the lock.
    async fn wait(self, program: Program) {
        let client = program.client("").ttl(self.ttl).build().expect("valid");
        eventually(WAIT_MAX, "the lock is held", || self.is_held.get()).await;
        let guard = client.mutex(LOCK).lock_timeout(RUN_MAX).await.expect("the holder ends");
        let claim = program.claim(&guard);
        // A later restart may end it.
        let _ = guard.run(sleep(self.ttl)).await;
        drop(claim);
        drop(guard);
        assert!(client.shutdown(WAIT_MAX).await.is_clean, "the waiter owes a release");
    }

    /// Tries to get the lock again and again.
    async fn call(self, program: Program) {
        let mut dice = program.dice("tries");
        let client = program.client("").ttl(self.ttl).build().expect("valid");
        eventually(WAIT_MAX, "the lock is held", || self.is_held.get()).await;
        let until = now() + RUN_MAX;
        while !self.is_over.get() && now() < until {
            if let Ok(Some(guard)) = client.mutex(LOCK).try_lock().await {
                let claim = program.claim(&guard);
                // A later restart may end it.
                let _ = guard.run(sleep(dice.ms(0..=200))).await;
                drop(claim);
            }
            sleep(dice.ms(5..=150)).await;
        }
        assert!(client.shutdown(WAIT_MAX).await.is_clean, "the caller owes a release");
    }
}

const LOCK: &str = "lock";

/// Also the longest ttl: a server that restarted votes again after eight seconds.
const TTL: Duration = Duration::from_secs(1);

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Long enough for five restarts.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Long enough until a holder is notified that a server votes again.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// A third of it is much longer than a server recovers.
const SELDOM_RENEWED: Duration = Duration::from_secs(60);

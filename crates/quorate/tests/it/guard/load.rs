//! Clients at work on some locks, whose every claim is taken down.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quorate::{Client, Guard};
use quorate_testkit::history::{History, Holding, Moment, Recorder, Until};
use tokio::{task::JoinHandle, time::interval};

use super::stage::{Stage, TTL};
use crate::conformance::rig::PATIENCE;

/// Clients that take locks until they are told to stop: half of their tasks let go at once, the
/// other half holds on for longer than a ttl.
pub(crate) struct Load {
    recorder: Recorder,
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// On nodes to which every client is attached.
    pub(crate) async fn start(stage: &Stage) -> Self {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            clients.push(stage.client(&format!("client-{number}")).await);
        }
        Self::of(clients)
    }

    pub(crate) fn of(clients: impl IntoIterator<Item = Client>) -> Self {
        let load = Self {
            recorder: Recorder::in_memory(),
            is_over: Arc::default(),
            tasks: Vec::new(),
        };
        let works = |client: Client| WORKS.map(|work| (client.clone(), work));
        let tasks = clients.into_iter().flat_map(works).enumerate().map(|(number, (client, work))| {
            let (recorder, is_over) = (load.recorder.clone(), load.is_over.clone());
            tokio::spawn(async move {
                let name = format!("task-{number}");
                let mut locks = LOCKS.iter().cycle().skip(number);
                while !is_over.load(Ordering::SeqCst) {
                    let lock = locks.next().expect("they go round");
                    take_turn(&client, &recorder, &name, lock, work).await;
                }
            })
        });
        let tasks = tasks.collect();
        Self { tasks, ..load }
    }

    /// How often a lock was taken since then.
    pub(crate) fn claims_since(&self, then: Moment) -> usize {
        let history = self.recorder.history();
        history.claims().iter().filter(|claim| claim.acquired_at >= then).count()
    }

    /// Lets everybody end, and finds that all promises were kept.
    pub(crate) async fn end(self) -> History {
        self.is_over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.expect("nobody fails");
        }
        let history = self.recorder.history();
        history.assert_kept(Until::Believed);
        history
    }
}

async fn take_turn(client: &Client, recorder: &Recorder, who: &str, lock: &str, work: Duration) {
    let request = recorder.ask(who, lock);
    let guard = client.mutex(lock).lock_timeout(PATIENCE).await;
    let guard = guard.unwrap_or_else(|error| panic!("{who} waits for {lock}: {error}"));
    let fence = guard.fence().expect("there is a fence in this mode").get();
    let holding = request.acquired(Some(fence), Some(end_of(&guard)));
    do_work(&guard, &holding, work).await;
    match guard.check() {
        Ok(()) => holding.released(),
        Err(_) => holding.lost(),
    }
    // Whether it was lost is in the history.
    let _ = guard.release().await;
}

/// Takes a while, or until the lock is lost.
async fn do_work(guard: &Guard, holding: &Holding, work: Duration) {
    let mut steps = interval(STEP);
    let end = Moment::now().after(work);
    while Moment::now() < end && guard.check().is_ok() {
        holding.extended(end_of(guard));
        steps.tick().await;
    }
}

/// Until when the holder may act by its own clock.
fn end_of(guard: &Guard) -> Moment {
    // The moment first: a claim is never longer than it was believed to be.
    let now = Moment::now();
    now.after(guard.remaining())
}

const CLIENTS: usize = 3;

/// What a task of each kind holds a lock for.
const WORKS: [Duration; 2] = [Duration::from_millis(5), TTL.saturating_add(STEP.saturating_mul(5))];

const LOCKS: [&str; 3] = ["first", "second", "third"];

const STEP: Duration = Duration::from_millis(20);

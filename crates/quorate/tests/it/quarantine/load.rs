//! Clients at work on some locks, whose claims are all recorded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::{Client, Guard};
use quorate_testkit::history::{History, Holding, Moment, Recorder, Until};
use tokio::{task::JoinHandle, time::interval};

/// Clients that acquire locks until the test stops them.
pub(crate) struct Load {
    recorder: Recorder,
    is_over: Arc<AtomicBool>,
    lost: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Each client has each of the jobs.
    pub(crate) fn start<const N: usize>(clients: Vec<Client>, jobs: [Job; N]) -> Self {
        let (recorder, lost) = (Recorder::in_memory(), Arc::default());
        let load = Self { recorder, is_over: Arc::default(), lost, tasks: Vec::new() };
        let of_one = |client: Client| jobs.map(|job| (client.clone(), job));
        let all = clients.into_iter().flat_map(of_one).enumerate();
        let tasks = all.map(|(number, (client, Job { work, locks }))| {
            let (is_over, lost) = (load.is_over.clone(), load.lost.clone());
            let worker = Worker { name: format!("task-{number}"), client, work, lost };
            let recorder = load.recorder.clone();
            tokio::spawn(async move {
                for lock in locks.iter().cycle().skip(number) {
                    worker.take_turn(&recorder, lock).await;
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        });
        let tasks = tasks.collect();
        Self { tasks, ..load }
    }

    /// How often a lock was lost while it was held.
    pub(crate) fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }

    /// How often a lock was acquired since then.
    pub(crate) fn claims_since(&self, then: Moment) -> usize {
        let history = self.recorder.history();
        history.claims().iter().filter(|claim| claim.acquired_at >= then).count()
    }

    /// Ends all tasks, and checks the history.
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

/// What a task does all the time.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// For how long it holds a lock.
    pub(crate) work: Duration,
    /// The locks that it acquires in turn.
    pub(crate) locks: &'static [&'static str],
}

struct Worker {
    name: String,
    client: Client,
    work: Duration,
    lost: Arc<AtomicUsize>,
}

impl Worker {
    async fn take_turn(&self, recorder: &Recorder, lock: &str) {
        let request = recorder.ask(&self.name, lock);
        let guard = self.client.mutex(lock).lock_timeout(PATIENCE).await;
        let guard = guard.unwrap_or_else(|error| panic!("{} waits: {error}", self.name));
        let fence = guard.fence().expect("there is a fence in this mode").get();
        let holding = request.acquired(Some(fence), Some(end_of(&guard)));
        do_work(&guard, &holding, self.work).await;
        match guard.check() {
            Ok(()) => holding.released(),
            Err(_) => {
                holding.lost();
                self.lost.fetch_add(1, Ordering::SeqCst);
            }
        }
        // Whether it was lost is in the history.
        let _ = guard.release().await;
    }
}

/// Works for this time, or until the lock is lost.
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
    // The moment is read first, so the claim is never recorded as longer than the lease.
    let now = Moment::now();
    now.after(guard.remaining())
}

/// How often a holder checks its lock.
const STEP: Duration = Duration::from_millis(10);

/// Longer than any client waits on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

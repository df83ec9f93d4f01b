//! Where the engine runs, and how it ends.

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

use tokio::{
    runtime::{self, Runtime},
    sync::Notify,
    task::AbortHandle,
};

use super::Engine;
use crate::{
    error::ConfigError,
    node::{Driver, IdleSignal},
};

/// Where the engine runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Where {
    /// On a thread of its own, so that no user code can starve it.
    OwnThread,
    /// On the runtime that the client is built on: for paused clocks and simulations.
    ThisRuntime,
}

/// A running engine.
#[derive(Debug)]
pub(crate) struct Running {
    ending: Arc<Ending>,
    thread: Option<ThreadId>,
}

impl Running {
    /// Starts the timers and the drivers of all links.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        drivers: Vec<Driver>,
        place: Where,
        idle: Arc<IdleSignal>,
    ) -> Result<Self, ConfigError> {
        let ending = Arc::new(Ending { idle, ..Ending::default() });
        let life = live(engine.clone(), drivers, ending.clone());
        let thread = match place {
            Where::OwnThread => Some(start_thread(life)?),
            Where::ThisRuntime => {
                runtime::Handle::try_current()
                    .map_err(|error| refused("a task", &error))?
                    .spawn(life);
                None
            }
        };
        Ok(Self { ending, thread })
    }

    /// Asks the engine to end once nothing is outstanding, or after `grace`.
    pub(crate) fn order_end(&self, grace: Duration) {
        self.ending.lock().grace.get_or_insert(grace);
        self.ending.ordered.notify_one();
    }

    /// Waits for the end that was ordered; true if nothing was left outstanding.
    pub(crate) async fn ended(&self) -> bool {
        loop {
            let told = self.ending.has_ended.notified();
            let mut told = std::pin::pin!(told);
            // Enabled before the look, so that an end between the two is not missed.
            told.as_mut().enable();
            if let Some(is_clean) = self.ending.lock().is_clean {
                return is_clean;
            }
            told.await;
        }
    }

    /// Waits for the end that was ordered, but not for longer than `bound`, and not where waiting
    /// would keep the engine itself from going on.
    pub(crate) fn wait_for_end(&self, bound: Duration) {
        if self.thread.is_some_and(|thread| thread != thread::current().id()) {
            let state = self.ending.lock();
            let waited =
                self.ending.over.wait_timeout_while(state, bound, |state| state.is_clean.is_none());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Runs until the end is ordered, then until all is quiet or the grace is over.
async fn live(engine: Arc<Engine>, drivers: Vec<Driver>, ending: Arc<Ending>) {
    let tasks = Tasks(
        drivers
            .into_iter()
            .chain([Box::pin(engine.timers.clone().run(engine.clock)) as Driver])
            .map(|driver| tokio::spawn(driver).abort_handle())
            .collect(),
    );
    ending.ordered.notified().await;
    let grace = ending.lock().grace.unwrap_or_default();
    ending.idle.expect();
    let idle = async {
        while engine.is_busy() {
            // Debts that expire tell nobody, so we look now and then.
            let _ = tokio::time::timeout(LOOK_AGAIN, ending.idle.notified()).await;
        }
    };
    let is_clean = tokio::time::timeout(grace, idle).await.is_ok();
    drop(tasks);
    // Aborted tasks are dropped when the runtime comes by; links answer what waits as they go.
    tokio::task::yield_now().await;
    engine.timers.stop();
    ending.lock().is_clean = Some(is_clean);
    ending.over.notify_all();
    ending.has_ended.notify_waiters();
}

fn start_thread(life: impl Future<Output = ()> + Send + 'static) -> Result<ThreadId, ConfigError> {
    look_for_room().map_err(|error| refused("a runtime", &error))?;
    // The thread comes first: a runtime that nobody can run may not be dropped by a caller who runs
    // on another one.
    let (hand, take) = mpsc::channel::<Runtime>();
    let thread = thread::Builder::new()
        .name("quorate".into())
        .spawn(move || {
            if let Ok(runtime) = take.recv() {
                runtime.block_on(life);
            }
        })
        .map_err(|error| refused("a thread", &error))?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| refused("a runtime", &error))?;
    // It waits for nothing else.
    let _ = hand.send(runtime);
    Ok(thread.thread().id())
}

/// A runtime panics if it cannot open what signals need, in programs that listen to signals.
fn look_for_room() -> io::Result<()> {
    let pairs = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(pairs);
    Ok(())
}

fn refused(what: &'static str, error: &dyn std::error::Error) -> ConfigError {
    ConfigError::System { what, reason: error.to_string() }
}

/// Tasks that end together.
struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// How the engine is told to end, and tells that it did.
#[derive(Debug, Default)]
struct Ending {
    state: Mutex<EndingState>,
    ordered: Notify,
    over: Condvar,
    has_ended: Notify,
    idle: Arc<IdleSignal>,
}

#[derive(Debug, Default)]
struct EndingState {
    grace: Option<Duration>,
    is_clean: Option<bool>,
}

impl Ending {
    fn lock(&self) -> MutexGuard<'_, EndingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often an engine that is to end looks whether anything is left.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

//! Runs the engine, and ends it.

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
    /// On its own thread, so that user code cannot starve it.
    OwnThread,
    /// On the runtime on which the client is built, for paused clocks and simulations.
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
        let task = run_engine(engine.clone(), drivers, ending.clone());
        let thread = match place {
            Where::OwnThread => Some(start_thread(task)?),
            Where::ThisRuntime => {
                runtime::Handle::try_current()
                    .map_err(|error| refused("a task", &error))?
                    .spawn(task);
                None
            }
        };
        Ok(Self { ending, thread })
    }

    /// Ends the engine once nothing is outstanding, or after `grace`.
    pub(crate) fn order_end(&self, grace: Duration) {
        self.ending.lock().grace.get_or_insert(grace);
        self.ending.ordered.notify_one();
    }

    /// Waits for the end that was ordered. Returns whether nothing was left outstanding.
    pub(crate) async fn ended(&self) -> bool {
        loop {
            let end = self.ending.has_ended.notified();
            let mut end = std::pin::pin!(end);
            // Enabled before the check, so that an end between the two is not missed.
            end.as_mut().enable();
            if let Some(is_clean) = self.ending.lock().is_clean {
                return is_clean;
            }
            end.await;
        }
    }

    /// Waits for the end that was ordered, for up to `bound`. Does not wait on the engine's own
    /// thread or runtime, which could not continue then.
    pub(crate) fn wait_for_end(&self, bound: Duration) {
        if self.thread.is_some_and(|thread| thread != thread::current().id()) {
            let state = self.ending.lock();
            let waited =
                self.ending.over.wait_timeout_while(state, bound, |state| state.is_clean.is_none());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Runs until the end is ordered, then until nothing is outstanding or the grace period has passed.
async fn run_engine(engine: Arc<Engine>, drivers: Vec<Driver>, ending: Arc<Ending>) {
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
            // Nothing notifies the engine of debts that expire, so it checks from time to time.
            let _ = tokio::time::timeout(CHECK_AGAIN, ending.idle.notified()).await;
        }
    };
    let is_clean = tokio::time::timeout(grace, idle).await.is_ok();
    drop(tasks);
    // The runtime drops aborted tasks at the next opportunity. Then links fail what waits.
    tokio::task::yield_now().await;
    engine.timers.stop();
    ending.lock().is_clean = Some(is_clean);
    ending.over.notify_all();
    ending.has_ended.notify_waiters();
}

fn start_thread(task: impl Future<Output = ()> + Send + 'static) -> Result<ThreadId, ConfigError> {
    check_descriptors().map_err(|error| refused("a runtime", &error))?;
    // The thread is started first: if it failed, the runtime would have to be dropped here, which
    // panics if the caller runs on another runtime.
    let (send_runtime, receive_runtime) = mpsc::channel::<Runtime>();
    let thread = thread::Builder::new()
        .name("quorate".into())
        .spawn(move || {
            if let Ok(runtime) = receive_runtime.recv() {
                runtime.block_on(task);
            }
        })
        .map_err(|error| refused("a thread", &error))?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| refused("a runtime", &error))?;
    // The thread waits for nothing else.
    let _ = send_runtime.send(runtime);
    Ok(thread.thread().id())
}

/// Checks that file descriptors are available. A runtime panics if it cannot open those for
/// signals, in programs that listen to signals.
fn check_descriptors() -> io::Result<()> {
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

/// The order to end the engine, and the report that it has ended.
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

/// How often an engine that ends checks whether anything is outstanding.
const CHECK_AGAIN: Duration = Duration::from_millis(20);

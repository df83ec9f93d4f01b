//! Progress of work that takes longer than a second, on a terminal.

use std::{
    pin::pin,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use crate::{reporter::Reporter, time};

/// Runs blocking work. Meanwhile a status line states what it waits for.
pub(crate) fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let reporter = Reporter::default();
    if !reporter.is_interactive() {
        return work();
    }
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let started = Instant::now();
        let shower = thread::Builder::new().spawn_scoped(scope, move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let text = format!("{what} for {}", time::shown(started.elapsed()));
                reporter.status_of([text, what.to_owned()]);
            }
            reporter.status("");
        });
        let result = work();
        drop(running);
        // Without a thread there is no progress.
        let _ = shower.map(thread::ScopedJoinHandle::join);
        result
    })
}

/// Runs asynchronous work. Meanwhile a status line shows the text for the time that has passed.
pub(crate) async fn during_async<T>(
    reporter: &Reporter,
    text: impl Fn(Duration) -> String,
    work: impl Future<Output = T>,
) -> T {
    let (started, mut work) = (Instant::now(), pin!(work));
    loop {
        match tokio::time::timeout(INTERVAL, &mut work).await {
            Ok(result) => {
                reporter.status("");
                return result;
            }
            Err(_) => reporter.status(&text(started.elapsed())),
        }
    }
}

/// What commands wait for that ask the nodes.
pub(crate) const NODES: &str = "waiting for the nodes to answer";

const INTERVAL: Duration = Duration::from_secs(1);

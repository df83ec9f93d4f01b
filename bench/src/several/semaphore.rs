//! A semaphore beside a mutex, both with many waiters.

use std::time::Duration;

use quorate::Client;

use super::{
    crowd::{acquired_per_second, held},
    row,
};
use crate::setup::Plan;

/// Permits per second, and locks per second.
pub(super) async fn compare(client: &Client, nodes: usize, hold: Duration, plan: &Plan) {
    let (mut permits, mut locks) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let lock = acquired_per_second(CALLERS, hold, plan.time, |_| {
            let mutex = client.mutex("bench:line");
            async move || mutex.lock().await.expect("servers answer")
        });
        let lock = lock.await;
        let permit = acquired_per_second(CALLERS, hold, plan.time, |_| {
            let jobs = client.semaphore("bench:jobs", PERMITS);
            async move || jobs.acquire().await.expect("servers answer").into_guard()
        });
        let permit = permit.await;
        // The first round warms up.
        if round > 0 {
            locks.push(lock);
            permits.push(permit);
        }
    }
    let what = format!("semaphore of {PERMITS}, {CALLERS} callers, {}", held(hold));
    row(nodes, &what, "mutex, as many callers", &permits, &locks);
}

const CALLERS: usize = 64;
const PERMITS: u32 = 10;

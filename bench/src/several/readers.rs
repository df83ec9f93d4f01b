//! A lock that most callers only read, beside a mutex with the same callers.

use std::time::Duration;

use quorate::Client;

use super::{
    crowd::{acquired_per_second, held},
    row,
};
use crate::setup::Plan;

/// Times that the lock is held per second, by readers and writers together.
pub(super) async fn compare(client: &Client, nodes: usize, hold: Duration, plan: &Plan) {
    let (mut shared, mut locks) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let lock = acquired_per_second(CALLERS, hold, plan.time, |_| {
            let mutex = client.mutex("bench:mutex");
            async move || mutex.lock().await.expect("servers answer")
        });
        let lock = lock.await;
        let share = acquired_per_second(CALLERS, hold, plan.time, |caller| {
            let lock = client.rwlock("bench:rwlock");
            // No two callers write in the same turn.
            let mut turn = caller;
            async move || {
                turn += 1;
                if turn % ONE_WRITES_OF == 0 {
                    lock.write().await.expect("servers answer").into_guard()
                } else {
                    lock.read().await.expect("servers answer").into_guard()
                }
            }
        });
        let share = share.await;
        // The first round warms up.
        if round > 0 {
            locks.push(lock);
            shared.push(share);
        }
    }
    let what = format!("rwlock, 5 % write, {CALLERS} callers, {}", held(hold));
    row(nodes, &what, "mutex, as many callers", &shared, &locks);
}

const CALLERS: usize = 16;
const ONE_WRITES_OF: usize = 20;

//! Several permits for one caller beside one permit after the other.

use quorate::Client;

use super::row;
use crate::setup::{Plan, pairs_per_second};

/// Uncontended pairs of acquire and release.
pub(super) async fn compare(client: &Client, nodes: usize, plan: &Plan) {
    let jobs = client.semaphore("bench:many", PERMITS);
    let (mut together, mut each) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let all = pairs_per_second(1, plan.time, |_| {
            let jobs = jobs.clone();
            async move || {
                let guard = jobs.acquire_many(WANTED).await.expect("servers answer");
                guard.release().await.expect("servers answer");
            }
        });
        let all = all.await;
        let sequence = pairs_per_second(1, plan.time, |_| {
            let jobs = jobs.clone();
            async move || {
                let mut guards = Vec::new();
                // There is no other caller, so this never waits.
                for _ in 0..WANTED {
                    guards.push(jobs.acquire().await.expect("servers answer"));
                }
                for guard in guards {
                    guard.release().await.expect("servers answer");
                }
            }
        });
        let sequence = sequence.await;
        // The first round warms up.
        if round > 0 {
            together.push(all);
            each.push(sequence);
        }
    }
    let what = format!("acquire_many, {WANTED} of {PERMITS}");
    row(nodes, &what, "as many one by one", &together, &each);
}

const PERMITS: u32 = 10;
const WANTED: u32 = 4;

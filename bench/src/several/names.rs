//! Several locks for one caller beside one lock, and beside one lock after the other.

use quorate::Client;

use super::{alone, row};
use crate::setup::{Plan, pairs_per_second};

/// Uncontended pairs of acquire and release.
pub(super) async fn compare(client: &Client, nodes: usize, names: usize, plan: &Plan) {
    let name = |number: usize| format!("bench:{number}");
    let mutex = client.mutex(name(0));
    let mutexes: Vec<_> = (0..names).map(|number| client.mutex(name(number))).collect();
    let set = client.mutex_all((0..names).map(name));
    let (mut one, mut together, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let single = alone(&mutex, plan).await;
        let all = pairs_per_second(1, plan.time, |_| {
            let set = set.clone();
            async move || {
                let guard = set.lock().await.expect("servers answer");
                guard.release().await.expect("servers answer");
            }
        });
        let all = all.await;
        let sequence = pairs_per_second(1, plan.time, |_| {
            let mutexes = mutexes.clone();
            async move || {
                let mut guards = Vec::with_capacity(mutexes.len());
                for mutex in &mutexes {
                    guards.push(mutex.lock().await.expect("servers answer"));
                }
                for guard in guards {
                    guard.release().await.expect("servers answer");
                }
            }
        });
        let sequence = sequence.await;
        // The first round warms up.
        if round > 0 {
            one.push(single);
            together.push(all);
            each.push(sequence);
        }
    }
    let what = format!("mutex_all of {names}");
    row(nodes, &what, "mutex", &together, &one);
    row(nodes, &what, "as many one by one", &together, &each);
}

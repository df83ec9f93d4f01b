//! A reentrant lock: the outer entry, and one more while that is held.

use quorate::Client;

use super::{alone, row};
use crate::setup::Plan;

pub(super) async fn compare(client: &Client, nodes: usize, plan: &Plan) {
    let mutex = client.mutex("bench:plain");
    let outer = client.mutex("bench:outer").reentrant(client.identity());
    let nested = client.mutex("bench:nested").reentrant(client.identity());
    let held = nested.lock().await.expect("servers answer");
    let (mut plain, mut outermost, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let pairs =
            [alone(&mutex, plan).await, alone(&outer, plan).await, alone(&nested, plan).await];
        // The first round warms up.
        if round > 0 {
            plain.push(pairs[0]);
            outermost.push(pairs[1]);
            inner.push(pairs[2]);
        }
    }
    held.release().await.expect("it was held all the time");
    row(nodes, "reentrant, outer", "mutex", &outermost, &plain);
    row(nodes, "reentrant, nested", "mutex", &inner, &plain);
}

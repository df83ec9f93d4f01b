//! Nodes that grant the lock to different identities at the same moment.

use quorate_testkit::{Server, redis::cmd};

use super::{entry, release, waiting, won};
use crate::conformance::fixture::{Fixture, on_servers, take};

/// Without failures that happens while an entry rests: for a moment it is in no queue.
#[test]
fn identities_with_one_node_each_settle_before_their_heartbeats() {
    on_servers(&[2], identities_with_one_node_each_settle);
}

async fn identities_with_one_node_each_settle(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let holder = take(client.mutex("a")).await;
    let first = waiting(fixture, &client, entry(&client, "x"), 1).await;
    let owner = queue_of(&fixture.servers()[1]).remove(0);
    // A node asks one entry to give way, and several only when they ask themselves.
    let mut others = Vec::new();
    for total in [2, 3] {
        others.push(waiting(fixture, &client, entry(&client, "y"), total).await);
    }
    cmd("ZREM")
        .arg(LINE)
        .arg(owner)
        .exec(&mut fixture.servers()[1].connection())
        .expect("it is there");
    release(holder).await;
    release(won(first).await).await;
    for other in others {
        release(won(other).await).await;
    }
    fixture.wait_until_empty(fixture.all());
}

fn queue_of(server: &Server) -> Vec<String> {
    let mut range = cmd("ZRANGE");
    range.arg(LINE).arg(0).arg(-1).query(&mut server.connection()).expect("the server answers")
}

const LINE: &str = "quorate:q:{a}";

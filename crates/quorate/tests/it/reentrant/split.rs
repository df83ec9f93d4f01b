//! Nodes that are handed to different identities at the same moment.

use quorate_testkit::{Server, redis::cmd};

use super::{entry, release, waiting, won};
use crate::conformance::rig::{Rig, on_servers, take};

/// Without failures that happens while an entry rests: for a moment it stands in no queue.
#[test]
fn identities_that_are_handed_one_node_each_settle_before_their_heartbeats() {
    on_servers(&[2], identities_that_are_handed_one_node_each_settle);
}

async fn identities_that_are_handed_one_node_each_settle(rig: &Rig) {
    let client = rig.client("alice").await;
    let holder = take(client.mutex("a")).await;
    let first = waiting(rig, &client, entry(&client, "x"), 1).await;
    let owner = in_line(&rig.servers()[1]).remove(0);
    // A node asks one entry to give way, and several only when they ask themselves.
    let mut others = Vec::new();
    for total in [2, 3] {
        others.push(waiting(rig, &client, entry(&client, "y"), total).await);
    }
    cmd("ZREM").arg(LINE).arg(owner).exec(&mut rig.servers()[1].connection()).expect("it is there");
    release(holder).await;
    release(won(first).await).await;
    for other in others {
        release(won(other).await).await;
    }
    rig.wait_until_empty(rig.all());
}

fn in_line(server: &Server) -> Vec<String> {
    let mut range = cmd("ZRANGE");
    range.arg(LINE).arg(0).arg(-1).query(&mut server.connection()).expect("the server tells")
}

const LINE: &str = "quorate:q:{a}";

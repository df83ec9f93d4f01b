//! What is not promised, so that the documents say no more than is so.

use quorate::{
    Client,
    memory::{Behaviour, MemoryNodes},
};

use crate::conformance::fixture::{LONG, PATIENCE};

/// The documents said that only a majority that forgets can break exclusion. One node of three is
/// enough, if another had been away.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_forgets_lets_another_in_if_a_second_never_had_the_lock() {
    let nodes = MemoryNodes::new(3);
    let client = || Client::builder().memory(&nodes).ttl(LONG).build().expect("valid");
    let (alice, bob) = (client(), client());
    nodes.set(2, Behaviour::Fail);
    let guard = alice.mutex("a").lock().await.expect("a majority answers");
    nodes.set(2, Behaviour::Answer);
    assert!(nodes.names(2).is_empty(), "it gets the lock with the next extension only");
    nodes.forget(1);
    let second = bob.mutex("a").lock_timeout(PATIENCE).await.expect("two nodes know of nobody");
    guard.check().expect("nobody has told it");
    assert!(guard.fence() < second.fence(), "the resource can tell them apart");
    assert!(guard.verify().await.is_err(), "it is told as soon as it asks");
}

//! Servers that forget a script while something is under way.

use std::pin::pin;

use quorate_testkit::redis::cmd;

use crate::{
    cancellation::fixture::poll,
    conformance::fixture::{Fixture, PATIENCE, on_servers_in_both_modes, take},
};

/// A call that goes away sends its release behind its question. If the question came behind that,
/// it would take the lock for nobody.
#[test]
fn a_question_is_not_sent_again_behind_its_own_release() {
    on_servers_in_both_modes(&[1, 3], async |fixture| {
        let (client, other) = (fixture.client("client").await, fixture.client("other").await);
        for number in 0..40 {
            know_only_how_to_release(fixture, &other).await;
            let mutex = client.mutex(format!("a:{number}"));
            // Nearly always it goes before any server has answered.
            drop(poll(pin!(mutex.try_lock())));
        }
        assert!(client.shutdown(PATIENCE).await.is_clean, "everything is answered");
        assert!(other.shutdown(PATIENCE).await.is_clean, "everything is answered");
        assert!(fixture.is_empty(), "somebody left a lock behind");
    });
}

/// A server learns a script again when it gets its text.
async fn know_only_how_to_release(fixture: &Fixture, client: &quorate::Client) {
    let guard = take(client.mutex("b")).await;
    for server in fixture.servers() {
        let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
        flush.expect("the scripts are gone");
    }
    guard.release().await.expect("it is held");
}

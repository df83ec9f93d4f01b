//! A lock that is given back while others ask for it.

use std::sync::atomic::{AtomicBool, Ordering};

use quorate_core::line::Place;
use quorate_testkit::{Server, redis::cmd};

use super::queue::NAME;
use crate::conformance::rig::{on_servers, take};

/// A node that inquires just then must not make the release believe that the lock was lost.
#[test]
fn a_release_that_meets_inquiries_is_a_release() {
    on_servers(&[1], async |rig| {
        let client = rig.client("alice").await;
        let (server, is_over) = (&rig.servers()[0], AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    inquire(server);
                }
            });
            let rounds = async {
                for _ in 0..ROUNDS {
                    take(client.mutex(NAME)).await.release().await.expect("nobody took it away");
                }
            };
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(rounds));
            }));
            is_over.store(true, Ordering::Relaxed);
            ended.expect("every release is one");
        });
    });
}

/// Tells the holder, whoever it is, what a node tells it when somebody earlier waits.
fn inquire(server: &Server) {
    let Some(owner) = server.get(NAME) else { return };
    let Some(place) = Place::of(&owner) else { return };
    let fence = server.get(format!("quorate:f:{{{NAME}}}")).unwrap_or_default();
    let news = [b"I ", &fence[..], b" ", &owner, b"\n", NAME.as_bytes()].concat();
    let channel = format!("quorate:c:{}", place.client);
    let told = cmd("PUBLISH").arg(channel).arg(news).exec(&mut server.connection());
    told.expect("the server answers");
}

const ROUNDS: usize = 300;

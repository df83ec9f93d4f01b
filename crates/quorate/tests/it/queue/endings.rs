//! A lock that is released while others ask for it.

use std::sync::Arc;

use quorate::{
    Client,
    observe::{Action, Event},
};
use quorate_core::queue::Position;
use quorate_testkit::{Server, eventually, redis::cmd};

use super::fixture::NAME;
use crate::{conformance::fixture::PATIENCE, links::executor::block_on};

/// A node that inquires at that moment must not make the release report a loss.
#[test]
fn release_during_an_inquiry_is_not_a_loss() {
    let server = Arc::new(Server::start());
    let asking = server.clone();
    let observer = move |event: &Event<'_>| {
        if let Event::Started { action: Action::Release, .. } = event {
            let asked = asking.command_calls("evalsha");
            let owner = asking.get(NAME).expect("it is not released yet");
            tell(&asking, "I", &owner);
            // An unknown owner releases its grant: by then the first push was handled.
            tell(&asking, "G", &[&owner[..], b"0"].concat());
            let is_handled = || asking.command_calls("evalsha") > asked;
            eventually("the client has handled it", PATIENCE, is_handled);
        }
    };
    let builder = Client::builder().quarantine(false).nodes([server.url()]).observer(observer);
    let client = block_on(builder.connect()).expect("the server is there");
    for _ in 0..5 {
        let guard = block_on(client.mutex(NAME).lock()).expect("it is free");
        block_on(guard.release()).expect("no other client has acquired it");
    }
}

/// Sends the client of an owner a push: I when an earlier owner waits, G when the lock is granted
/// to it, with its session.
fn tell(server: &Server, what: &str, owner: &[u8]) {
    let place = Position::of(owner).expect("an owner in the queue");
    let fence = server.get(format!("quorate:f:{{{NAME}}}")).unwrap_or_default();
    let mut kind = [what.as_bytes(), b" ", &fence[..], b" "].concat();
    if what == "G" {
        let session = server.get(format!("quorate:s:{}", place.client)).expect("a session");
        kind.extend([&session[..32], b" "].concat());
    }
    kind.extend([owner, b"\n", NAME.as_bytes()].concat());
    let channel = format!("quorate:c:{}", place.client);
    let told = cmd("PUBLISH").arg(channel).arg(kind).exec(&mut server.connection());
    told.expect("the server answers");
}

//! New servers that vote at once.
//!
//! Responsible for their admission. Not for starting them.

use std::thread;

use quorate::{ClientBuilder, blocking};

use crate::Server;

/// Empties servers and admits them with these settings, so that they vote at once. Otherwise they
/// would wait for the end of their quarantine. Fewer than three servers have no quarantine, so
/// nothing happens to them.
///
/// # Panics
///
/// If the nodes of the settings are not these servers, or cannot be admitted.
pub fn admit(servers: &[Server], settings: ClientBuilder) {
    if servers.len() < 3 {
        return;
    }
    servers.iter().for_each(Server::flush_all);
    // Outside of any runtime of the test, the client has a thread of its own.
    let admitting = thread::spawn(move || {
        let client = settings.build().expect("the settings are valid");
        let client = blocking::Client::try_from(client).expect("the client has its own thread");
        client.admit().expect("the servers are new and empty");
    });
    admitting.join().expect("the servers are admitted");
}

//! The connections on which clients receive pushes of the node.

use std::collections::BTreeMap;

use quorate_core::{command::ClientId, queue::Push};
use quorate_testkit::redis::cmd;

use super::super::{connection::Connection, keys::channel};

/// One connection for each client that listens.
pub(super) struct NodeEvents {
    address: String,
    by_client: BTreeMap<ClientId, Listener>,
}

impl NodeEvents {
    pub(super) const fn new(address: String) -> Self {
        Self { address, by_client: BTreeMap::new() }
    }

    /// The server's number for the connection on which the client listens.
    pub(super) fn connection(&self, client: ClientId) -> Option<u64> {
        self.by_client.get(&client).map(|listener| listener.number)
    }

    /// Lets the client listen, on a new connection.
    pub(super) fn listen(&mut self, client: ClientId) {
        let mut connection = Connection::open(&self.address);
        let number = connection.fetch(cmd("CLIENT").arg("ID"));
        let subscription = cmd("SUBSCRIBE").arg(channel(client)).get_packed_command();
        connection.send(&subscription).expect("the server listens");
        connection.read().expect("an answer");
        self.by_client.insert(client, Listener { connection, number });
    }

    /// All pushes to the client so far.
    pub(super) fn received(&mut self, client: ClientId) -> Vec<Push> {
        let Listener { connection, .. } = self.by_client.get_mut(&client).expect("it listens");
        connection.send(&cmd("PING").get_packed_command()).expect("the server listens");
        let mut pushes = Vec::new();
        loop {
            let message = connection.read().expect("the answer arrives after all earlier pushes");
            if message == b"+PONG\r\n" {
                return pushes;
            }
            pushes.push(push(connection, client, &message));
        }
    }

    /// The connection was cut: the pushes that arrived before, which may not be all.
    pub(super) fn last_received(&mut self, client: ClientId) -> Vec<Push> {
        let Listener { mut connection, .. } = self.by_client.remove(&client).expect("it listened");
        let mut messages = Vec::new();
        while let Ok(message) = connection.read() {
            messages.push(message);
        }
        messages.iter().map(|message| push(&connection, client, message)).collect()
    }
}

struct Listener {
    connection: Connection,
    number: u64,
}

fn push(connection: &Connection, client: ClientId, message: &[u8]) -> Push {
    let push = connection.push(message);
    let push = push.unwrap_or_else(|| panic!("{} is no push", message.escape_ascii()));
    assert_eq!(push.client, client, "it listens to its own channel");
    push
}

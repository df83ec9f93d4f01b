//! The names of the owners of a simulated client.

use quorate_core::{
    client::owners::{OwnerKind, OwnerSource},
    command::{ClientId, Owner},
    queue::Position,
};

use crate::trace;

/// Numbers that are never used twice.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    client: usize,
    id: ClientId,
    sequence: u64,
    /// Whether tickets are coarse, and the last coarse one.
    is_coarse: bool,
    last_coarse: u64,
}

impl Names {
    pub(crate) const fn new(client: usize, id: ClientId, is_coarse: bool) -> Self {
        Self { client, id, sequence: 0, is_coarse, last_coarse: 0 }
    }

    /// Another process replaces it.
    pub(super) const fn rename(&mut self, id: ClientId) {
        self.id = id;
    }

    const fn next_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl OwnerSource for Names {
    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner {
        let number = self.next_number();
        match &kind.identity {
            Some(identity) => place.reentrant_owner(number, identity),
            None if kind.is_shared => place.shared_owner(number),
            None => place.owner(number),
        }
    }

    fn next_plain_owner(&mut self, _kind: &OwnerKind) -> Owner {
        let number = self.next_number();
        Owner::new(&self.id, number, &trace::client_name(self.client))
    }

    /// Rounds coarse tickets, so that only tickets of one client differ in the last digits.
    fn ticket(&mut self, drawn: u64) -> u64 {
        if !self.is_coarse {
            return drawn;
        }
        let coarse = drawn / COARSE_US * COARSE_US;
        let is_next = self.last_coarse / COARSE_US * COARSE_US == coarse;
        self.last_coarse = if is_next { self.last_coarse + 1 } else { coarse };
        self.last_coarse
    }
}

/// Coarse tickets are often the same for two clients.
const COARSE_US: u64 = 50_000;

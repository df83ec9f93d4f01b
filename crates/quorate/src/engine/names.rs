//! Creates the owners of a client.

use std::sync::Arc;

use quorate_core::{
    client::owners::{OwnerKind, OwnerSource},
    command::{ClientId, Owner},
    queue::{Position, Request},
};

use crate::nonces::OwnerKey;

/// Numbers that are never used twice, and a secret for each.
#[derive(Debug)]
pub(crate) struct Names {
    client: ClientId,
    key: OwnerKey,
    who: Arc<str>,
    sequence: u64,
}

impl Names {
    pub(super) const fn new(client: ClientId, key: OwnerKey, who: Arc<str>) -> Self {
        Self { client, key, who, sequence: 0 }
    }

    const fn next_number(&mut self) -> u64 {
        let number = self.sequence;
        self.sequence += 1;
        number
    }
}

impl OwnerSource for Names {
    fn next_owner(&mut self, position: &Position, kind: &OwnerKind) -> Owner {
        let number = self.next_number();
        // So the other owners of this client cannot be guessed from one of them.
        let secret = Some(self.key.secret(number));
        let OwnerKind { is_shared, ref identity, tag, ref label } = *kind;
        let (label, identity) = (label.as_deref(), identity.as_deref());
        position.owner_of(&Request { number, secret, tag, label, is_shared, identity })
    }

    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner {
        let number = self.next_number();
        Owner::new(&self.client, number, kind.label.as_deref().unwrap_or(&self.who))
    }
}

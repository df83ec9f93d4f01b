//! Ports on 127.0.0.1 that no two servers or proxies of one test process share.
//!
//! Responsible for choosing a free port and for not leasing it a second time while its owner
//! exists, even if nothing listens on it at the moment (a killed server, a refusing proxy). Other
//! processes can still take such a port; the owner has to handle that when it listens again.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A port that belongs to its owner until dropped.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
}

impl PortLease {
    /// A port that was free a moment ago.
    pub(crate) fn any_free() -> Self {
        Self::listening().0
    }

    /// A port with a listener on it, for owners that can keep the listener.
    pub(crate) fn listening() -> (Self, TcpListener) {
        // Listeners on ports that are leased already stay open until the end of the loop, so that
        // the system does not offer the same port again.
        let mut leased_to_others = Vec::new();
        loop {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .expect("a free port on 127.0.0.1 to listen on");
            let port = listener.local_addr().expect("a listener knows its address").port();
            if leases().insert(port) {
                return (Self { port }, listener);
            }
            leased_to_others.push(listener);
        }
    }

    /// A port that another process is known to use, for tests of that case.
    #[cfg(test)]
    pub(crate) fn of_another(port: u16) -> Self {
        Self { port }
    }

    pub(crate) fn number(&self) -> u16 {
        self.port
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        leases().remove(&self.port);
    }
}

fn leases() -> MutexGuard<'static, BTreeSet<u16>> {
    static LEASES: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    LEASES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leased_port_is_not_leased_again() {
        let leases: Vec<_> = (0..200).map(|_| PortLease::any_free()).collect();
        let distinct: BTreeSet<_> = leases.iter().map(PortLease::number).collect();
        assert_eq!(distinct.len(), leases.len());
    }
}

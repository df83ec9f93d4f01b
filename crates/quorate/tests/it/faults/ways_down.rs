//! The ways in which a node can be down, and back again.

use quorate::{Client, ClientBuilder, error::NodeError};
use quorate_testkit::Fault;

use super::fixture::{ProxyFixture, connect_to_all};

#[derive(Clone, Copy, Debug)]
pub(super) enum WayDown {
    /// The process is gone.
    Killed,
    /// The process is stopped, and the kernel still accepts data for it.
    Stopped,
    /// The network drops everything.
    BlackHoled,
    /// The network refuses connections.
    Refused,
}

impl WayDown {
    /// Two clients of one fixture, attached to all its nodes. Where the process itself ends
    /// there is no proxy in between: the client is to see what the system makes of it.
    pub(super) fn clients(self, fixture: &ProxyFixture) -> [Client; 2] {
        [(); 2].map(|()| connect_to_all(self.settings(fixture)))
    }

    /// The settings of such a client.
    pub(super) fn settings(self, fixture: &ProxyFixture) -> ClientBuilder {
        match self {
            Self::Killed | Self::Stopped => fixture.direct(),
            Self::BlackHoled | Self::Refused => fixture.through_proxies(),
        }
    }

    pub(super) fn take_down(self, fixture: &ProxyFixture, nodes: &[usize]) {
        for node in nodes {
            match self {
                Self::Killed => fixture.servers[*node].kill(),
                Self::Stopped => fixture.servers[*node].pause(),
                Self::BlackHoled => fixture.proxies[*node].set(Fault::BlackHole),
                Self::Refused => fixture.proxies[*node].set(Fault::Refuse),
            }
        }
    }

    pub(super) fn bring_back(self, fixture: &ProxyFixture, nodes: &[usize]) {
        for node in nodes {
            match self {
                Self::Killed => fixture.servers[*node].restart(),
                Self::Stopped => fixture.servers[*node].resume(),
                Self::BlackHoled | Self::Refused => fixture.proxies[*node].set(Fault::Pass),
            }
        }
    }

    /// The error that a client reports for such a node once it has noticed.
    pub(super) fn node_error(self) -> NodeError {
        match self {
            Self::Killed | Self::Refused => NodeError::ConnectionRefused,
            Self::Stopped | Self::BlackHoled => NodeError::TimedOut,
        }
    }
}

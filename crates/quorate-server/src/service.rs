//! One instance of the service.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use quorate::{Client, error::NodeAnswer};
use tokio::sync::watch;

use crate::{
    auth::Access,
    limits::{Limits, Quotas, Rates},
    problem::Problem,
    watch::Watch,
};

/// One instance of the service. Clones are the same instance.
///
/// It has no state that another instance would need: a lease is in its id, and on the nodes.
#[derive(Clone, Debug)]
pub struct Service(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    access: Access,
    limits: Limits,
    rates: Rates,
    quotas: Quotas,
    is_draining: watch::Sender<bool>,
    watch: Arc<Watch>,
}

impl Service {
    /// A service that locks with this client, for the clients that `access` allows.
    #[must_use]
    pub fn new(client: Client, access: Access, limits: Limits) -> Self {
        let (rates, quotas) = (Rates::new(limits.requests_per_second), Quotas::new(&limits));
        let is_draining = watch::Sender::new(false);
        // Ids of events are only compared.
        let epoch = format!("{:x}", RandomState::new().hash_one("epoch"));
        let watch = Arc::new(Watch::new(epoch));
        Self(Arc::new(Inner { client, access, limits, rates, quotas, is_draining, watch }))
    }

    /// Answers waiting and new acquire requests with `shutting_down`. Leases are renewed and
    /// released until the instance ends; none is released by the shutdown.
    pub fn drain(&self) {
        self.0.is_draining.send_replace(true);
    }

    /// True if a majority of the nodes votes, and the instance is not draining.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let nodes = self.0.client.node_status();
        let voting = nodes.iter().filter(|report| report.answer == NodeAnswer::Attached).count();
        voting > nodes.len() / 2 && !self.is_draining()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.0.quotas
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.0.watch
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.is_draining.borrow()
    }

    /// Fails if the instance is draining.
    pub(crate) fn check_open(&self) -> Result<(), Problem> {
        if self.is_draining() { Err(Problem::shutting_down()) } else { Ok(()) }
    }

    /// Waits until the instance drains.
    pub(crate) async fn drained(&self) {
        let mut is_draining = self.0.is_draining.subscribe();
        // The sender exists as long as this service.
        let _ = is_draining.wait_for(|is_draining| *is_draining).await;
    }
}

//! Gathering facts about the nodes, with the settings of a client but without one.

use tokio::task::JoinSet;

use super::{ClientBuilder, Source, build::targets};
use crate::{
    diagnose::{Facts, ServerFacts},
    error::ConfigError,
    node::redis::{self, Extent, Target},
    nonces::Nonces,
};

impl ClientBuilder {
    /// Asks all nodes at the same time what they know about themselves. It takes one or two
    /// seconds, and about one more if a node does not answer. It changes nothing on the nodes.
    ///
    /// Whether a node votes is not among the facts: ask a [read-only](Self::read_only) client for
    /// its [`node_status`](crate::Client::node_status).
    ///
    /// # Errors
    ///
    /// [`ConfigError`], as from [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// If the nodes are servers or a folder, and it is not called within a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// for server in Client::builder().nodes(nodes).diagnose().await?.servers {
    ///     println!("{}: {:?}", server.node, server.clock.first().map(|it| it.ahead_ms()));
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn diagnose(self) -> Result<Facts, ConfigError> {
        self.facts(Extent::All).await
    }

    /// Asks all servers at the same time for their `INFO`, which has for example the memory that
    /// they use. It takes no longer than one request to each, and about two seconds if one does not
    /// answer. All other [`Facts`] stay empty.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], as from [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// If the nodes are servers or a folder, and it is not called within a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// for server in Client::builder().nodes(["redis://10.0.0.1"]).server_info().await?.servers {
    ///     println!("{}: {:?}", server.node, server.info.get("used_memory_human"));
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn server_info(self) -> Result<Facts, ConfigError> {
        self.facts(Extent::Info).await
    }

    async fn facts(self, extent: Extent) -> Result<Facts, ConfigError> {
        self.check()?;
        let urls = match &self.source {
            Source::Memory(_) => return Ok(Facts::default()),
            #[cfg(feature = "local")]
            Source::Local(_) if extent == Extent::Info => return Ok(Facts::default()),
            #[cfg(feature = "local")]
            Source::Local(folder) => {
                let folder = Some(crate::node::local::diagnose(folder).await);
                return Ok(Facts { folder, ..Facts::default() });
            }
            Source::Urls(urls) => urls,
        };
        let targets = targets(urls)?;
        let servers = self.ask_all(targets, extent).await?;
        #[cfg(feature = "tls")]
        let client_certificate_ends = self.tls.identity_ends();
        #[cfg(not(feature = "tls"))]
        let client_certificate_ends = None;
        Ok(Facts { servers, folder: None, client_certificate_ends })
    }

    /// The facts in the order of the addresses. A server that does not answer delays no other.
    async fn ask_all(
        &self,
        targets: Vec<Target>,
        extent: Extent,
    ) -> Result<Vec<ServerFacts>, ConfigError> {
        let context = self.link_context(&targets, &self.parts(Nonces::of_the_system())?)?;
        let (mut asking, mut facts) = (JoinSet::new(), vec![ServerFacts::default(); targets.len()]);
        for (number, target) in targets.into_iter().enumerate() {
            let context = context.clone();
            asking.spawn(async move { (number, redis::diagnose(target, context, extent).await) });
        }
        while let Some(asked) = asking.join_next().await {
            let (number, known) = asked.expect("it does not panic, and nobody cancels it");
            facts[number] = known;
        }
        Ok(facts)
    }
}

//! `quorate serve`: the HTTP service.

mod files;
mod metrics;

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use quorate::{Client, error::QuarantineNotice, observe::metrics::Metrics};
use quorate_server::{
    Limits, Service,
    listen::{self, Options, Tls},
    router,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use self::files::Files;
use crate::{
    exit::{CONFIG, Failure, check_distinct},
    reporter::Reporter,
    runtime,
    settings::{NodeArgs, Settings},
    time,
};

/// Serve locks over HTTP
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Address to listen on. An address that other machines can reach requires authentication:
    /// --tokens or --tls-client-ca
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,
    /// Address on which to serve Prometheus metrics at /metrics, without authentication. Off by
    /// default
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// File with the accepted bearer tokens; `quorate token` prints its entries. The service reads
    /// the file again when it changes, and on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    tokens: Option<PathBuf>,
    /// Serve every client that can connect, even on an address that other machines can reach
    #[arg(long, conflicts_with = "tokens", help_heading = "Security")]
    insecure_no_auth: bool,
    /// PEM file with the certificate chain: serve only HTTPS. The service reads the files again
    /// when they change, and on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,
    /// PEM file with the authority that signs client certificates: reject clients without one
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Time for requests in progress to finish on shutdown
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "10s")]
    grace: Duration,
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    pub(crate) reporter: Reporter,
}

#[derive(Args, Debug)]
struct LimitArgs {
    /// Longest time that one request waits for a lock. Longer waits are shortened to this
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "60s")]
    #[arg(help_heading = "Limits")]
    max_wait: Duration,
    /// Requests of one token that may wait at the same time
    #[arg(long, value_name = "NUMBER", default_value = "10000", help_heading = "Limits")]
    max_waits: NonZeroUsize,
    /// Leases that one token may hold through this instance
    #[arg(long, value_name = "NUMBER", default_value = "100000", help_heading = "Limits")]
    max_leases: NonZeroUsize,
    /// Requests per second of one token; 0 means unlimited
    #[arg(long, value_name = "NUMBER", default_value = "10000", help_heading = "Limits")]
    max_rate: u32,
    /// Open connections [default: 20000, or what the limit of open files allows]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    max_connections: Option<NonZeroUsize>,
    /// Time in which the head of a request must arrive. Connections that are idle for longer, and
    /// TLS handshakes that take longer, are closed too
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "30s")]
    #[arg(help_heading = "Limits")]
    max_head_time: Duration,
    /// Time in which the body of a request must arrive
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "10s")]
    #[arg(help_heading = "Limits")]
    max_body_time: Duration,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        let settings = self.node_args.settings()?;
        settings.ttl()?;
        settings.warn(&self.reporter);
        let files = Files::load(self)?;
        self.check_exposure(&files)?;
        files.warn(self, &self.reporter);
        runtime::raise_file_limit();
        runtime::start_on_all_cores()?.block_on(self.serve(&settings, files))?;
        Ok(0)
    }

    /// An address that other machines can reach needs authentication.
    fn check_exposure(&self, files: &Files) -> Result<(), Failure> {
        let is_protected = !files.access.is_open() || self.tls_client_ca.is_some();
        if is_protected || self.listen.ip().is_loopback() || self.insecure_no_auth {
            return Ok(());
        }
        let text = format!(
            "refusing to listen on {} without authentication: other machines can reach it. Use \
             --tokens or --tls-client-ca, or a loopback address; --insecure-no-auth serves every \
             client that can connect",
            self.listen
        );
        Err(Failure::new(CONFIG, text))
    }

    async fn serve(&self, settings: &Settings, files: Files) -> Result<(), Failure> {
        let render = self.metrics.map(|_| metrics::install()).transpose()?;
        let builder = settings.builder()?.vote_timeout(VOTE_TIMEOUT);
        let client = match &render {
            Some(_) => builder.observer(Metrics::new()).build()?,
            None => builder.build()?,
        };
        let listener = bind(self.listen).await?;
        let metrics = match self.metrics {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        // Before the service reports that it listens: without a handler, a signal would kill it.
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [Ok(mut terminate), Ok(mut interrupt), Ok(hangup)] = kinds.map(signal) else {
            return Err(Failure::system("cannot handle signals", "the system refused"));
        };
        let service = Service::new(client.clone(), files.access.clone(), self.limits.limits());
        let options = self.options(files.tls.clone());
        self.report_start(settings, &listener, metrics.as_ref());
        let reload = files.reload_on_change(hangup, self.reporter.clone());
        let metrics = metrics::serve(metrics, render);
        let end = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            self.reporter.warn("shutting down: finishing requests in progress");
            // Requests that wait for a lock go to another instance.
            service.drain();
        };
        let serve = listen::serve(listener, router(service.clone()), options, end, self.grace);
        tokio::select! {
            () = serve => {}
            () = reload => {}
            () = metrics => {}
            failure = self.check_nodes(&client) => return Err(failure),
        }
        if !client.shutdown(self.grace).await.is_clean {
            self.reporter.warn("a node has not confirmed a release: its key expires after its ttl");
        }
        Ok(())
    }

    /// Reports whether new nodes are the reason that no lock can be acquired. Completes if two
    /// addresses lead to one server.
    async fn check_nodes(&self, client: &Client) -> Failure {
        for _ in 0..NODE_CHECKS {
            tokio::time::sleep(NODE_CHECK_INTERVAL).await;
            if let Err(failure) = check_distinct(&client.node_status()) {
                return failure;
            }
        }
        if let Some(notice) = QuarantineNotice::of(&client.node_status()) {
            self.reporter.warn(&notice.to_string());
        }
        std::future::pending().await
    }

    fn options(&self, tls: Option<Tls>) -> Options {
        let mut options = Options::default();
        options.connections_max = self.connections_max();
        options.head_time_max = self.limits.max_head_time;
        options.tls = tls;
        options
    }

    /// Connections must leave files for the nodes, tokens and certificates.
    fn connections_max(&self) -> usize {
        let requested = self.limits.max_connections.map(NonZeroUsize::get);
        let wanted = requested.unwrap_or(CONNECTIONS_MAX);
        let Some(files) = runtime::file_limit() else { return wanted };
        let possible = files.saturating_sub(FILES_RESERVED).max(1);
        if requested.is_some_and(|requested| requested > possible) {
            self.reporter.warn(&format!(
                "accepting {possible} connections instead of {wanted}: this process may open only \
                 {files} files"
            ));
        }
        wanted.min(possible)
    }

    fn report_start(
        &self,
        settings: &Settings,
        listener: &TcpListener,
        metrics: Option<&TcpListener>,
    ) {
        // Report this address first: scripts that wait for the address of the service then know
        // both.
        if let Some(Ok(address)) = metrics.map(TcpListener::local_addr) {
            self.reporter.warn(&format!("serving metrics on http://{address}/metrics"));
        }
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        let address = listener.local_addr().unwrap_or(self.listen);
        self.reporter.warn(&format!("listening on {scheme}://{address}"));
        if settings.is_local_by_default() {
            self.reporter.warn("no nodes are configured: the locks are local to this machine");
        }
        if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
            self.reporter.warn(&format!("cannot notify systemd: {error}"));
        }
    }
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.wait_max = self.max_wait;
        limits.waits_max = self.max_waits.get();
        limits.leases_max = self.max_leases.get();
        limits.requests_per_second = self.max_rate;
        limits.body_time_max = self.max_body_time;
        limits
    }
}

/// How long to wait for an unresponsive node. A client of the service would have to repeat its
/// request, and cannot know whether a release has had an effect, so it is worth waiting for a slow
/// node.
const VOTE_TIMEOUT: Duration = Duration::from_millis(500);

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let failed = |error| Failure::new(CONFIG, format!("cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(failed)
}

/// The nodes have answered or failed by then.
const NODE_CHECKS: u32 = 10;
const NODE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

const CONNECTIONS_MAX: usize = 20_000;

/// Files that are not connections of clients.
const FILES_RESERVED: usize = 256;

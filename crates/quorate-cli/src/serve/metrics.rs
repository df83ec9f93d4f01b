//! Prometheus metrics, on a listener of their own.

use std::{future, time::Duration};

use axum::{Router, http::header, routing::get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use quorate_server::listen::{self, Options};
use tokio::net::TcpListener;

use crate::exit::Failure;

/// Collects the metrics of this process from now on.
pub(super) fn install() -> Result<PrometheusHandle, Failure> {
    let failed = |error| Failure::system("cannot collect metrics", error);
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS_S)
        .map_err(failed)?
        .install_recorder()
        .map_err(failed)
}

/// Serves the metrics, if there is a listener. Never returns.
pub(super) async fn serve(listener: Option<TcpListener>, handle: Option<PrometheusHandle>) {
    let (Some(listener), Some(handle)) = (listener, handle) else {
        return future::pending().await;
    };
    let upkeep = handle.clone();
    let render = move || {
        let text = handle.render();
        async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
    };
    let app = Router::new().route("/metrics", get(render));
    let mut options = Options::default();
    options.connections_max = CONNECTIONS_MAX;
    let upkeep = async {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            upkeep.run_upkeep();
        }
    };
    tokio::select! {
        () = listen::serve(listener, app, options, future::pending(), Duration::ZERO) => {}
        () = upkeep => {}
    }
}

/// From a round trip on one machine to a long wait.
const BUCKETS_S: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

const CONNECTIONS_MAX: usize = 64;
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

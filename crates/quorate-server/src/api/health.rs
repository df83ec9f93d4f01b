//! Liveness and readiness of the instance.

use axum::extract::State;

use crate::{
    Service,
    problem::{Problem, ProblemDetails},
};

/// Liveness
///
/// Answers as long as the process runs.
#[utoipa::path(
    get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "The process runs", body = String))
)]
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// Readiness
///
/// A majority of the nodes votes, and the instance is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "health", security(()),
    responses(
        (status = 200, description = "A majority of the nodes votes", body = String),
        (status = 503, description = "It does not, or the instance shuts down",
         body = ProblemDetails, content_type = "application/problem+json")
    )
)]
pub(super) async fn ready(State(service): State<Service>) -> Result<&'static str, Problem> {
    service.check_open()?;
    if service.is_ready() {
        return Ok("ok\n");
    }
    let detail = "too few nodes vote".to_owned();
    // Probes have no token: if other requests need one, probes do not get the addresses.
    let is_shown = service.access().is_open();
    let nodes = if is_shown { service.client().node_status() } else { Box::default() };
    Err(Problem::no_quorum(detail, &nodes))
}

//! Leases: what the service has granted.

use std::time::Instant;

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::{Body, Named, NoFields};
use crate::{
    Service,
    auth::{Caller, Scope},
    lease_id,
    problem::{Problem, ProblemDetails, millis},
};

/// A lease that lives on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Renewed {
    /// For how long the lock is still held.
    valid_for_ms: u64,
    /// How long the service took. The lock is held until `waited_ms + valid_for_ms` after the
    /// request was sent, whatever the network did.
    waited_ms: u64,
}

/// Renew a lease
///
/// The lease lives for its ttl from now. Any instance can renew it.
#[utoipa::path(
    post, path = "/v1/leases/{lease_id}/renew", tag = "leases",
    params(("lease_id" = String, Path, description = "The lease_id that acquire returned")),
    responses(
        (status = 200, description = "The lease lives on", body = Renewed),
        (status = 400, description = "This is not a lease id, or the body is not empty",
         body = ProblemDetails, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 408, description = "The body took too long to arrive", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 410, description = "The lease has ended", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "Too few nodes answered", body = ProblemDetails,
         content_type = "application/problem+json")
    )
)]
pub(super) async fn renew(
    State(service): State<Service>,
    caller: Caller,
    Named(id): Named,
    _: Body<NoFields>,
) -> Result<Json<Renewed>, Problem> {
    let started = Instant::now();
    let lease = lease_id::decode(&id)?;
    caller.require(Scope::Lock, lease.name())?;
    // Counted from before the call, and with one reading for both fields: a pause of this process
    // must not extend the lease.
    let valid_until = started + service.client().renew_lease(&lease).await?;
    service.quotas().hold(&caller.name, lease_id::counted_as(&lease), lease.ttl());
    let now = Instant::now();
    Ok(Json(Renewed {
        valid_for_ms: millis(valid_until.saturating_duration_since(now)),
        waited_ms: millis(now.saturating_duration_since(started)),
    }))
}

/// Release a lease
///
/// A lease that has ended before gives 410: another owner may have held the lock in between. The
/// second of two equal requests gets the same answer.
#[utoipa::path(
    delete, path = "/v1/leases/{lease_id}", tag = "leases",
    params(("lease_id" = String, Path, description = "The lease_id that acquire returned")),
    responses(
        (status = 204, description = "The lock is free"),
        (status = 400, description = "This is not a lease id, or the body is not empty",
         body = ProblemDetails, content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 408, description = "The body took too long to arrive", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 410, description = "The lease has ended before", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "Too few nodes answered; the release goes on",
         body = ProblemDetails, content_type = "application/problem+json")
    )
)]
pub(super) async fn release(
    State(service): State<Service>,
    caller: Caller,
    Named(id): Named,
    _: Body<NoFields>,
) -> Result<StatusCode, Problem> {
    let lease = lease_id::decode(&id)?;
    caller.require(Scope::Lock, lease.name())?;
    service.quotas().release(&caller.name, lease_id::counted_as(&lease));
    service.client().release_lease(&lease).await?;
    Ok(StatusCode::NO_CONTENT)
}

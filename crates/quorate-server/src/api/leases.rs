//! Leases: what the service has granted.

use std::time::{Duration, Instant};

use axum::{Json, extract::State, http::StatusCode};
use quorate::DowngradedLease;
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::{Body, Named, NoFields};
use crate::{
    Service,
    auth::{Caller, Scope},
    lease_id,
    problem::{Problem, ProblemDetails, millis},
};

/// A lease that was renewed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Renewed {
    /// How long the lock is held unless the lease is renewed again.
    valid_for_ms: u64,
    /// How long the service took. The lock is held until `waited_ms + valid_for_ms` after the
    /// request was sent, however long the response took to arrive.
    waited_ms: u64,
}

impl Renewed {
    /// A request that arrived at `started`, and a lease that the library reports as valid for
    /// `remaining`.
    fn new(started: Instant, remaining: Duration) -> Self {
        // Count from before the call, and read the clock once for both fields: a pause of this
        // process must not extend the lease.
        let (valid_until, now) = (started + remaining, Instant::now());
        Self {
            valid_for_ms: millis(valid_until.saturating_duration_since(now)),
            waited_ms: millis(now.saturating_duration_since(started)),
        }
    }
}

/// Renew a lease
///
/// The lease is valid for its ttl from now. Any instance can renew it.
#[utoipa::path(
    post, path = "/v1/leases/{lease_id}/renew", tag = "leases",
    params(("lease_id" = String, Path, description = "The lease_id that acquire returned")),
    responses(
        (status = 200, description = "The lease is renewed", body = Renewed),
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
    let remaining = service.client().renew_lease(&lease).await?;
    service.quotas().hold(&caller.name, lease_id::counted_as(&lease), lease.ttl());
    Ok(Json(Renewed::new(started, remaining)))
}

/// The lease of a reader, which has replaced the lease of a writer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Downgraded {
    /// Renews and releases the lease of the reader, through any instance. It is a secret.
    lease_id: String,
    /// How long the lock is held unless the lease is renewed.
    valid_for_ms: u64,
    /// How long the service took. The lock is held until `waited_ms + valid_for_ms` after the
    /// request was sent, however long the response took to arrive.
    waited_ms: u64,
}

/// Downgrade a write lease to a read lease
///
/// The writer becomes a reader, and no other writer holds the lock in between. Stop writing before
/// you send the request. Repeat the request with the same lease id if the response is lost: it
/// returns the same read lease. After success the id of the write lease gives 410 to renewals and
/// releases.
#[utoipa::path(
    post, path = "/v1/leases/{lease_id}/downgrade", tag = "leases",
    params(("lease_id" = String, Path,
            description = "The lease_id that acquire returned with mode write or mutex")),
    responses(
        (status = 200, description = "The lock is held by a reader", body = Downgraded),
        (status = 400,
         description = "This is not the id of a write lease, or the body is not empty",
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
        (status = 503, description = "Too few nodes answered: repeat the request",
         body = ProblemDetails, content_type = "application/problem+json")
    )
)]
pub(super) async fn downgrade(
    State(service): State<Service>,
    caller: Caller,
    Named(id): Named,
    _: Body<NoFields>,
) -> Result<Json<Downgraded>, Problem> {
    let started = Instant::now();
    let writer = lease_id::decode(&id)?;
    caller.require(Scope::Lock, writer.name())?;
    // Without an undo: if the client does not get the response, it repeats the request.
    let DowngradedLease { lease: reader, remaining, .. } =
        service.client().downgrade_lease(&writer).await?;
    let quotas = service.quotas();
    quotas.release(&caller.name, lease_id::counted_as(&writer));
    quotas.hold(&caller.name, lease_id::counted_as(&reader), reader.ttl());
    let Renewed { valid_for_ms, waited_ms } = Renewed::new(started, remaining);
    Ok(Json(Downgraded { lease_id: lease_id::encode(&reader), valid_for_ms, waited_ms }))
}

/// Release a lease
///
/// A lease that has already ended gives 410: another owner may have held the lock since. The second
/// of two equal requests also gets 410.
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
        (status = 410, description = "The lease had already ended", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503,
         description = "Too few nodes answered; the release continues in the background",
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

//! Acquiring a lock.

mod identity;
mod several;
mod want;

use std::time::Instant;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use quorate::DetachedLease;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::want::{Granted, Want};
use super::extract::{Body, Named};
use crate::{
    Service,
    auth::{Caller, Scope},
    delivery::{Delivery, Undo, Unwritten},
    idempotency::Mark,
    lease_id,
    problem::{Code, Problem, ProblemDetails, millis},
};

/// What is wanted.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AcquireRequest {
    /// How long the lock lasts unless it is renewed. 10 s by default.
    #[schema(minimum = 20, example = 10_000)]
    pub(crate) ttl_ms: Option<u64>,
    /// How long to wait in the queue if the lock is held. 0, the default, does not wait. The
    /// service cuts longer waits to its limit, 60 s by default.
    #[schema(example = 0)]
    pub(crate) wait_ms: u64,
    /// Who holds the lock, for people. At most 96 characters are kept.
    #[schema(example = "worker-7")]
    pub(crate) owner: Option<String>,
    /// What the lock is held for, for people.
    #[schema(example = "nightly import")]
    pub(crate) reason: Option<String>,
    /// How the lock is held.
    pub(crate) mode: Mode,
    /// More locks, up to 31, that are acquired together with this one, or none of them. Only with
    /// the modes `mutex` and `write`, and without `Idempotency-Key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 31, example = json!(["orders:43"]))]
    pub(crate) also: Vec<String>,
    /// With the mode `permits`: how many owners hold the semaphore at the same time. All owners
    /// must say the same number.
    #[schema(minimum = 1, maximum = 1_024)]
    pub(crate) permits: Option<u32>,
    /// With the mode `permits`: how many of them are acquired, all or none. Without it, one. Not
    /// with `Idempotency-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_024)]
    pub(crate) take: Option<u32>,
    /// Requests of the same token with the same identity hold the lock at the same time. Each gets
    /// a lease of its own, and the lock is held until the last one ends. 1 to 64 bytes, which
    /// everyone who inspects the lock can read. Only with the modes `mutex` and `write`, and
    /// without `also`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, example = "job-7")]
    pub(crate) identity: Option<String>,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// By one owner.
    #[default]
    Mutex,
    /// Shared with other readers.
    Read,
    /// By one writer.
    Write,
    /// One of several permits of a semaphore.
    Permits,
}

/// A lock that was acquired.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Acquired {
    /// What renews and releases the lease, through any instance. It is a secret.
    lease_id: String,
    /// Grows with every holder of the lock. Send it along with every write to what the lock
    /// protects, which rejects smaller ones. Readers have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 4_503_599_627_370_496_u64)]
    fence: Option<u64>,
    /// For how long the lock is held unless it is renewed.
    valid_for_ms: u64,
    /// How long the service took, waiting included. The lock is held until
    /// `waited_ms + valid_for_ms` after the request was sent, whatever the network did.
    waited_ms: u64,
    /// With `also`: every lease, that of this lock included. With `take`: that of every permit.
    /// Each is renewed and released by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leases: Vec<AcquiredLease>,
}

/// One of several locks that were acquired together.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct AcquiredLease {
    /// The name of the lock.
    name: String,
    /// What renews and releases the lease, through any instance. It is a secret.
    lease_id: String,
    /// Grows with every holder of the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 4_503_599_627_370_496_u64)]
    fence: Option<u64>,
}

impl AcquiredLease {
    fn new(lease: &DetachedLease) -> Self {
        let fence = lease.fence().map(quorate::fence::Fence::get);
        Self { name: lease.name().to_owned(), lease_id: lease_id::encode(lease), fence }
    }
}

/// Acquire a lock
///
/// With `wait_ms` 0 this is `TryLock(id, ttl)`. A client that disconnects while it waits leaves the
/// queue at once. With `also` several locks are acquired together, or none of them; with `take`
/// several permits of a semaphore.
#[utoipa::path(
    post, path = "/v1/locks/{name}/acquire", tag = "locks",
    params(("name" = String, Path, description = "The name of the lock, percent-encoded"),
           ("Idempotency-Key" = Option<String>, Header, max_length = 255,
            description = "A request that is sent again with the same key gets the same lease")),
    request_body(content = AcquireRequest),
    responses(
        (status = 200, description = "The lock is held", body = Acquired),
        (status = 400, description = "The request makes no sense", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 408, description = "The body took too long to arrive", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 409, description = "Another owner holds the lock", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 410, description = "The lock expired before the response was ready",
         body = ProblemDetails, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 422, description = "The idempotency key was used for another request",
         body = ProblemDetails, content_type = "application/problem+json"),
        (status = 429, description = "Too many requests, waits or leases", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "Too few nodes answered, or the instance shuts down",
         body = ProblemDetails, content_type = "application/problem+json")
    )
)]
pub(super) async fn acquire(
    State(service): State<Service>,
    caller: Caller,
    Named(name): Named,
    headers: HeaderMap,
    connection: Option<Extension<Unwritten>>,
    Body(request): Body<AcquireRequest>,
) -> Result<Response, Problem> {
    let started = Instant::now();
    caller.require(Scope::Lock, &name)?;
    request.also.iter().try_for_each(|name| caller.require(Scope::Lock, name))?;
    service.check_open()?;
    let fingerprint = serde_json::to_vec(&request).unwrap_or_default();
    let mark = Mark::read(&headers, &caller, &name, &fingerprint)?;
    let identity = identity::of(&request, &caller.name)?;
    let want = Want::new(&service, &name, &request, (identity, mark))?;
    let wait = service.quotas().wait_for(&caller.name, want.locks_count())?;
    let taken = match request.wait_ms {
        0 => want.take().await,
        _ => tokio::select! {
            biased;
            () = service.drained() => Err(Problem::shutting_down()),
            taken = want.take() => taken,
        },
    };
    drop(wait);
    let Granted { lease, more, valid_until, is_findable } = taken?;
    for lease in std::iter::once(&lease).chain(&more) {
        service.quotas().hold(&caller.name, lease_id::counted_as(lease), lease.ttl());
    }
    // One reading for both: a pause between two would be added to the lease.
    let now = Instant::now();
    let AcquiredLease { lease_id, fence, .. } = AcquiredLease::new(&lease);
    let is_set = want.is_set();
    let all = std::iter::once(&lease).chain(&more).filter(|_| is_set);
    let acquired = Acquired {
        lease_id,
        fence,
        valid_for_ms: millis(valid_until.saturating_duration_since(now)),
        waited_ms: millis(now.saturating_duration_since(started)),
        leases: all.map(AcquiredLease::new).collect(),
    };
    let undo = match is_findable {
        true => Undo::nothing(),
        false => Undo::new(service, caller.name, std::iter::once(lease).chain(more).collect()),
    };
    Ok(delivered(&acquired, undo, connection.map(|Extension(connection)| connection)))
}

/// The response. If it is not written to the connection, the client does not have the leases, and
/// they are released.
fn delivered(acquired: &Acquired, undo: Undo, connection: Option<Unwritten>) -> Response {
    let Ok(text) = serde_json::to_vec(acquired) else {
        return Problem::new(Code::Internal, "the lease cannot be written").into_response();
    };
    let body = Delivery::new(text, undo, connection);
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::OK, kind, axum::body::Body::new(body)).into_response()
}

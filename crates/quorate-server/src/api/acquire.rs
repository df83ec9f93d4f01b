//! Acquiring a lock.

mod acquisition;
mod identity;
mod several;

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

use self::acquisition::{Acquisition, Granted};
use super::extract::{Body, Named};
use crate::{
    Service,
    auth::{Caller, Scope},
    delivery::{Delivery, Undo, Unwritten},
    idempotency::Mark,
    lease_id,
    problem::{Code, Problem, ProblemDetails, millis},
};

/// The lock to acquire.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AcquireRequest {
    /// The lock expires after this time unless it is renewed. 10 s by default.
    #[schema(minimum = 20, example = 10_000)]
    pub(crate) ttl_ms: Option<u64>,
    /// How long to wait in the queue if the lock is held. 0, the default, means not at all. The
    /// service limits the wait, by default to 60 s.
    #[schema(example = 0)]
    pub(crate) wait_ms: u64,
    /// Name of the holder, for people. At most 96 characters are kept.
    #[schema(example = "worker-7")]
    pub(crate) who: Option<String>,
    /// Purpose of the lock, for people.
    #[schema(example = "nightly import")]
    pub(crate) why: Option<String>,
    /// How the lock is held.
    pub(crate) mode: Mode,
    /// More locks, up to 31: all are acquired together, or none. Only with the modes `mutex` and
    /// `write`, and without `Idempotency-Key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 31, example = json!(["orders:43"]))]
    pub(crate) also: Vec<String>,
    /// With the mode `permits`: how many owners can hold the semaphore at the same time. All owners
    /// must send the same number.
    #[schema(minimum = 1, maximum = 1_024)]
    pub(crate) permits: Option<u32>,
    /// With the mode `permits`: how many permits to acquire, all or none. One by default. Not with
    /// `Idempotency-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_024)]
    pub(crate) take: Option<u32>,
    /// Requests of the same token with the same identity hold the lock at the same time. Each gets
    /// its own lease, and the lock is held until the last one ends. 1 to 64 bytes, visible to every
    /// client that inspects the lock. Only with the modes `mutex` and `write`, and without `also`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, example = "job-7")]
    pub(crate) identity: Option<String>,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// One owner.
    #[default]
    Mutex,
    /// Shared with other readers.
    Read,
    /// One writer.
    Write,
    /// One of several permits of a semaphore.
    Permits,
}

/// A lock that was acquired.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Acquired {
    /// Renews and releases the lease, at any instance. It is a secret.
    lease_id: String,
    /// Grows with every exclusive holder of the lock. Send it with every write to the resource,
    /// which rejects smaller fences. Readers have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 4_503_599_627_370_496_u64)]
    fence: Option<u64>,
    /// How long the lock is held unless it is renewed.
    valid_for_ms: u64,
    /// How long the service took, including the wait. The lock is held until `waited_ms +
    /// valid_for_ms` after the request was sent, however long the response took to arrive.
    waited_ms: u64,
    /// With `also`: all leases, including that of this lock. With `take`: the lease of each permit.
    /// Each is renewed and released by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leases: Vec<AcquiredLease>,
}

/// One of several locks that were acquired together.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct AcquiredLease {
    /// The name of the lock.
    name: String,
    /// Renews and releases the lease, at any instance. It is a secret.
    lease_id: String,
    /// Grows with every exclusive holder of the lock.
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
/// queue immediately. With `also` several locks are acquired together, or none; with `take` several
/// permits of a semaphore.
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
    let acquisition = Acquisition::new(&service, &name, &request, (identity, mark))?;
    let wait = service.quotas().wait_for(&caller.name, acquisition.locks_count())?;
    let taken = match request.wait_ms {
        0 => acquisition.acquire_or_find().await,
        _ => tokio::select! {
            biased;
            () = service.drained() => Err(Problem::shutting_down()),
            acquired = acquisition.acquire_or_find() => acquired,
        },
    };
    drop(wait);
    let Granted { lease, more, valid_until, is_findable } = taken?;
    for lease in std::iter::once(&lease).chain(&more) {
        service.quotas().hold(&caller.name, lease_id::counted_as(lease), lease.ttl());
    }
    // Read the clock once for both fields: a pause between two readings would extend the lease.
    let now = Instant::now();
    let AcquiredLease { lease_id, fence, .. } = AcquiredLease::new(&lease);
    let is_set = acquisition.is_set();
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

/// The response. If it is not written to the connection, the client does not get the leases, and
/// they are released.
fn delivered(acquired: &Acquired, undo: Undo, connection: Option<Unwritten>) -> Response {
    let Ok(text) = serde_json::to_vec(acquired) else {
        return Problem::new(Code::Internal, "the lease cannot be written").into_response();
    };
    let body = Delivery::new(text, undo, connection);
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::OK, kind, axum::body::Body::new(body)).into_response()
}

//! Errors as clients see them: RFC 9457 problem details with stable codes.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use quorate::error::{InspectError, LeaseError, LockError, NodeReport};
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request was not served.
#[derive(Clone, Debug)]
pub struct Problem(Box<ProblemDetails>);

/// Why a request was not served. The body has the media type `application/problem+json`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDetails {
    /// A URI that identifies the kind of problem: `urn:quorate:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// What went wrong, in a few words.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Which problem it is. Codes never change their meaning.
    code: Code,
    /// The exact cause, and what to do.
    detail: String,
    /// The holder of the lock, if that is the problem and the nodes report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderInfo>,
    /// The answer of each node, if that is the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeInfo>,
    /// When to try again. The header `Retry-After` has the same in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The holder of a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HolderInfo {
    /// `who` and `why` of its request, or program, host and process of a library client.
    who: String,
    /// When the lock expires unless the holder renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<u64>,
}

/// The answer of one node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct NodeInfo {
    /// The address of the node, without password.
    node: String,
    /// Its answer, or its error.
    answer: String,
}

/// The codes of problems.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The body, a parameter or a header is invalid.
    InvalidRequest,
    /// The name is not a valid lock name.
    InvalidName,
    /// The ttl, the wait or the permits are out of bounds.
    OutOfBounds,
    /// The lease id is not one of this service.
    InvalidLease,
    /// The lease is not a write lease: it is a read lease or an entry of a reentrant lock.
    NotAWriteLease,
    /// The request has no valid token.
    Unauthorized,
    /// The token does not allow this.
    Forbidden,
    /// There is no such resource.
    NotFound,
    /// The resource does not have this method.
    MethodNotAllowed,
    /// The request took too long to arrive.
    RequestTimeout,
    /// Another owner holds the lock, or held it for the whole wait.
    Held,
    /// The lease has ended: it expired or was released.
    LeaseLost,
    /// The body is too large.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// The same idempotency key came with another request.
    IdempotencyConflict,
    /// Too many requests, waits or leases for this token.
    TooMany,
    /// A bug.
    Internal,
    /// Too few nodes answered to decide.
    NoQuorum,
    /// This instance is shutting down: send the request to another one.
    ShuttingDown,
}

impl Code {
    const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest
            | Self::InvalidName
            | Self::OutOfBounds
            | Self::InvalidLease
            | Self::NotAWriteLease => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Held => StatusCode::CONFLICT,
            Self::LeaseLost => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::IdempotencyConflict => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoQuorum | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid request",
            Self::InvalidName => "invalid lock name",
            Self::OutOfBounds => "value out of bounds",
            Self::InvalidLease => "invalid lease id",
            Self::NotAWriteLease => "not a write lease",
            Self::Unauthorized => "authentication required",
            Self::Forbidden => "not allowed",
            Self::NotFound => "not found",
            Self::MethodNotAllowed => "method not allowed",
            Self::RequestTimeout => "request timed out",
            Self::Held => "lock is held",
            Self::LeaseLost => "lease has ended",
            Self::TooLarge => "body too large",
            Self::UnsupportedMediaType => "unsupported media type",
            Self::IdempotencyConflict => "idempotency key used for another request",
            Self::TooMany => "too many requests",
            Self::Internal => "internal error",
            Self::NoQuorum => "no quorum",
            Self::ShuttingDown => "shutting down",
        }
    }

    /// The code as text, in the body and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidName => "invalid_name",
            Self::OutOfBounds => "out_of_bounds",
            Self::InvalidLease => "invalid_lease",
            Self::NotAWriteLease => "not_a_write_lease",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Held => "held",
            Self::LeaseLost => "lease_lost",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::TooMany => "too_many",
            Self::Internal => "internal",
            Self::NoQuorum => "no_quorum",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl Problem {
    /// A problem with its code and its exact cause.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemDetails {
            kind: format!("urn:quorate:problem:{}", code.as_str()),
            title: code.title(),
            status: code.status().as_u16(),
            code,
            detail: detail.into(),
            holder: None,
            nodes: Vec::new(),
            retry_after_ms: None,
        }))
    }

    /// The same, and when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after_ms = Some(millis(after));
        self
    }

    /// Another owner holds the lock: who it is, and when it expires.
    #[must_use]
    pub fn held(detail: impl Into<String>, holder: Option<(String, Option<Duration>)>) -> Self {
        // A holder that renews keeps the lock for longer: this is the earliest time.
        let expires_in = holder.as_ref().and_then(|(_, expires_in)| *expires_in);
        let after = expires_in.unwrap_or(RETRY_HELD).min(RETRY_HELD);
        let holder = holder
            .map(|(who, expires_in)| HolderInfo { who, expires_in_ms: expires_in.map(millis) });
        let mut problem = Self::new(Code::Held, detail);
        problem.0.holder = holder;
        problem.retry_after(after)
    }

    /// This instance is shutting down.
    #[must_use]
    pub fn shutting_down() -> Self {
        let detail = "this instance is shutting down: send the request again, to another one";
        Self::new(Code::ShuttingDown, detail).retry_after(RETRY_ELSEWHERE)
    }

    pub(crate) fn no_quorum(detail: String, nodes: &[NodeReport]) -> Self {
        let node = |report: &NodeReport| {
            let text = report.to_string();
            let answer = text.strip_prefix(&format!("{}: ", report.node)).unwrap_or(&text);
            NodeInfo { node: report.node.clone(), answer: answer.to_owned() }
        };
        let mut problem = Self::new(Code::NoQuorum, detail);
        problem.0.nodes = nodes.iter().map(node).collect();
        problem.retry_after(RETRY_QUORUM)
    }

    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.0.code
    }
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        let detail = error.to_string();
        match error {
            LockError::Timeout { holder, .. } => {
                Self::held(detail, holder.map(|holder| (holder.who, holder.expires_in)))
            }
            LockError::NoQuorum { nodes, .. } | LockError::Denied { nodes, .. } => {
                Self::no_quorum(detail, &nodes)
            }
            LockError::InvalidName(_) => Self::new(Code::InvalidName, detail),
            LockError::InvalidTtl(_)
            | LockError::InvalidPermits { .. }
            | LockError::InvalidCount { .. }
            | LockError::InvalidIdentity { .. }
            | LockError::TooManyNames { .. } => Self::new(Code::OutOfBounds, detail),
            LockError::NotShared { .. } | LockError::NotReentrant { .. } => {
                Self::new(Code::InvalidRequest, detail)
            }
            LockError::ShutDown => Self::shutting_down(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<LeaseError> for Problem {
    fn from(error: LeaseError) -> Self {
        let detail = error.to_string();
        match error {
            LeaseError::Lost(_) => Self::new(Code::LeaseLost, detail),
            LeaseError::NoQuorum { nodes, .. } => Self::no_quorum(detail, &nodes),
            LeaseError::InvalidTtl(_) | LeaseError::OtherMode => {
                Self::new(Code::InvalidLease, detail)
            }
            LeaseError::NotWriter { .. } => Self::new(Code::NotAWriteLease, detail),
            LeaseError::ShutDown => Self::shutting_down(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        let detail = error.to_string();
        match error {
            InspectError::InvalidName(_) => Self::new(Code::InvalidName, detail),
            InspectError::NoAnswer { nodes } | InspectError::Denied { nodes } => {
                Self::no_quorum(detail, &nodes)
            }
            InspectError::ShutDown => Self::shutting_down(),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(details) = self;
        let (code, retry_after_ms) = (details.code, details.retry_after_ms);
        let mut response = (code.status(), Json(details)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(after_ms) = retry_after_ms {
            let seconds = after_ms.div_ceil(1_000).max(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const MEDIA_TYPE: &str = "application/problem+json";

/// A held lock may be released at any moment: a client that does not wait in the queue polls.
const RETRY_HELD: Duration = Duration::from_secs(1);

const RETRY_QUORUM: Duration = Duration::from_secs(1);

const RETRY_ELSEWHERE: Duration = Duration::from_secs(1);

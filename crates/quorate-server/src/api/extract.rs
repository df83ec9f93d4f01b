//! Parsing of requests. Every invalid part becomes a problem.

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::JsonRejection},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    Service,
    problem::{Code, Problem},
};

/// A JSON object as the body. An empty body is the same as `{}`.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Service> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let bytes = axum::body::Bytes::from_request(request, service);
        let bytes = tokio::time::timeout(service.limits().body_time_max, bytes)
            .await
            .map_err(|_| Problem::new(Code::RequestTimeout, "the body did not arrive in time"))?;
        let bytes = bytes.map_err(|rejection| {
            let code = match rejection.status().as_u16() {
                413 => Code::TooLarge,
                _ => Code::InvalidRequest,
            };
            Problem::new(code, rejection.body_text())
        })?;
        let bytes = if bytes.is_empty() { "{}".into() } else { bytes };
        // Reject an array, which serde would accept as the values of the fields in order.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            let detail = "the body must be a JSON object, such as {\"ttl_ms\": 10000}";
            return Err(Problem::new(Code::InvalidRequest, detail));
        }
        let read = axum::Json::<T>::from_bytes(&bytes);
        let axum::Json(value) = read.map_err(|rejection| {
            let detail = match rejection {
                JsonRejection::JsonDataError(error) => error.body_text(),
                other => other.body_text(),
            };
            Problem::new(Code::InvalidRequest, detail)
        })?;
        Ok(Self(value))
    }
}

/// The body of a request that takes no parameters: empty, or `{}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoFields {}

/// The part of the path that names a lock or a lease.
pub(super) struct Named(pub(super) String);

impl FromRequestParts<Service> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, service).await;
        let wrong = |_| Problem::new(Code::InvalidRequest, "the path is not percent-encoded UTF-8");
        path.map(|Path(name)| Self(name)).map_err(wrong)
    }
}

/// The query of the URL.
pub(super) struct ParsedQuery<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Service> for ParsedQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, service).await;
        let wrong = |error: axum::extract::rejection::QueryRejection| {
            Problem::new(Code::InvalidRequest, error.body_text())
        };
        query.map(|Query(asked)| Self(asked)).map_err(wrong)
    }
}

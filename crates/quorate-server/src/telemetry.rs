//! Metrics of requests.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use metrics::{counter, gauge, histogram};

/// Counts a request and measures how long it took. Paths are those of the API, never names of
/// locks.
pub(crate) async fn measure(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let (started, _open) = (Instant::now(), Open::count());
    let response = next.run(request).await;
    let labels = [("path", path), ("status", response.status().as_str().to_owned())];
    counter!("quorate_http_requests_total", &labels).increment(1);
    let seconds = started.elapsed().as_secs_f64();
    histogram!("quorate_http_request_duration_seconds", &labels[..1]).record(seconds);
    response
}

/// A request in progress. It ends when the client disconnects.
struct Open;

impl Open {
    fn count() -> Self {
        gauge!("quorate_http_requests_in_progress").increment(1.0);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!("quorate_http_requests_in_progress").decrement(1.0);
    }
}

//! Rejects requests whose length a proxy in front of the service could read differently.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::problem::{Code, Problem};

/// Serves a request only if its body has one possible length, and closes the connection otherwise:
/// what follows on it may be the rest of the body, or a request that the proxy has not seen.
pub(super) async fn check(request: Request, next: Next) -> Response {
    if is_clear(request.headers()) {
        return next.run(request).await;
    }
    let detail = "Transfer-Encoding must be absent, or `chunked` once and without Content-Length";
    let mut response = Problem::new(Code::InvalidRequest, detail).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn is_clear(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => {
            coding.as_bytes().eq_ignore_ascii_case(b"chunked")
                && !headers.contains_key(header::CONTENT_LENGTH)
        }
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_clear_with(lines: &[(&'static str, &'static str)]) -> bool {
        let lines = lines.iter().map(|(name, value)| {
            (name.parse::<header::HeaderName>().unwrap(), HeaderValue::from_static(value))
        });
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| _ = headers.append(name, value));
        is_clear(&headers)
    }

    #[test]
    fn body_has_one_possible_length() {
        assert!(is_clear_with(&[]));
        assert!(is_clear_with(&[("content-length", "2")]));
        assert!(is_clear_with(&[("transfer-encoding", "Chunked")]));
        for codings in ["identity", "gzip, chunked", "chunked, chunked", "xchunked", ""] {
            assert!(!is_clear_with(&[("transfer-encoding", codings)]), "{codings}");
        }
        let chunked = ("transfer-encoding", "chunked");
        assert!(!is_clear_with(&[("transfer-encoding", "identity"), chunked]));
        assert!(!is_clear_with(&[chunked, chunked]));
        assert!(!is_clear_with(&[("content-length", "5"), chunked]));
    }
}

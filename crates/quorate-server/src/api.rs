//! The HTTP API, version 1.

mod acquire;
#[expect(unused_qualifications, reason = "the macro that reads parameters writes them")]
mod events;
mod extract;
mod framing;
mod health;
mod leases;
#[expect(unused_qualifications, reason = "the macro that reads parameters writes them")]
mod locks;

pub(crate) use self::locks::Lock;
use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    middleware,
    response::{IntoResponse as _, Response},
    routing::get,
};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Service,
    problem::{Code, Problem},
    telemetry,
};

/// The whole API of a service, to be served as is or as part of another application.
///
/// # Examples
///
/// ```
/// use quorate_server::{Access, Limits, Service, router};
///
/// let service = Service::new(quorate::Client::memory(), Access::open(), Limits::default());
/// let app = axum::Router::new().merge(router(service));
/// # let _: axum::Router = app;
/// ```
pub fn router(service: Service) -> Router {
    let (router, mut document) = routes().split_for_parts();
    if service.access().is_open() {
        document.security = None;
    }
    let document = Json(document);
    router
        .route("/openapi.json", get(move || async move { document }))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn(framing::check))
        .layer(middleware::from_fn(telemetry::measure))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(service)
}

/// The OpenAPI document of the API.
#[must_use]
pub fn openapi() -> openapi::OpenApi {
    routes().into_openapi()
}

fn routes() -> OpenApiRouter<Service> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(leases::renew))
        .routes(routes!(leases::downgrade))
        .routes(routes!(leases::release))
        .routes(routes!(locks::inspect))
        .routes(routes!(locks::list))
        .routes(routes!(events::events))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Quorate",
        description = "Distributed locks over HTTP. All durations are relative and in milliseconds."
    ),
    security(("bearer" = [])),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

async fn unknown() -> Response {
    Problem::new(Code::NotFound, "there is no such path: see /openapi.json").into_response()
}

async fn other_method() -> Response {
    let detail = "the path does not have this method: see /openapi.json";
    Problem::new(Code::MethodNotAllowed, detail).into_response()
}

/// No request of the API is larger.
const BODY_MAX: usize = 16 * 1_024;

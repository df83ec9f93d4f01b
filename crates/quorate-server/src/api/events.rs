//! The stream of events.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName},
    response::{
        IntoResponse as _, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use utoipa::{IntoParams, ToSchema};

use super::{extract::ParsedQuery, locks::Lock};
use crate::{
    Service,
    auth::{Caller, Scope},
    problem::{Problem, ProblemDetails},
    watch::{Change, Numbered, Start},
};

/// Which events are sent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Only locks whose names begin with this. By default, all that the token may see.
    prefix: Option<String>,
}

/// All locks at the beginning of the stream, or after missed events.
#[derive(Serialize, ToSchema)]
struct Snapshot {
    locks: Vec<Lock>,
}

/// One event of the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what the stream consists of")]
struct StreamEvent {
    /// `snapshot`, `held`, `waiting` or `free`.
    event: String,
    /// For `Last-Event-ID`.
    id: String,
    /// JSON. For `snapshot` an object with the array `locks`, for `held` and `waiting` one with
    /// `lock`, for `free` one with `name`.
    data: String,
}

/// Watch locks
///
/// A stream of server-sent events. It begins with the event `snapshot`, which contains all locks.
/// `held`, `waiting` and `free` follow. A client that reconnects with `Last-Event-ID` gets the
/// events that it missed, or another snapshot.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(EventQuery,
           ("Last-Event-ID" = Option<String>, Header, description = "The last id that was seen")),
    responses(
        (status = 200, description = "The stream", body = StreamEvent,
         content_type = "text/event-stream"),
        (status = 400, description = "A parameter makes no sense", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "The instance shuts down", body = ProblemDetails,
         content_type = "application/problem+json")
    )
)]
pub(super) async fn events(
    State(service): State<Service>,
    caller: Caller,
    ParsedQuery(query): ParsedQuery<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let prefix = query.prefix.unwrap_or_else(|| caller.prefix().to_owned());
    caller.require(Scope::Read, &prefix)?;
    service.check_open()?;
    // A stream counts as a waiting request.
    drop(service.quotas().wait(&caller.name)?);
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let Ok(_wait) = service.quotas().wait(&caller.name) else { return };
        let stream = Stream { service: &service, caller: &caller, prefix: &prefix, sender };
        tokio::select! {
            biased;
            () = service.drained() => {}
            () = stream.sender.closed() => {}
            () = stream.send_all(last) => {}
        }
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(Receiver(receiver)).keep_alive(keep_alive).into_response())
}

struct Stream<'a> {
    service: &'a Service,
    caller: &'a Caller,
    prefix: &'a str,
    sender: tokio::sync::mpsc::Sender<Event>,
}

impl Stream<'_> {
    async fn send_all(&self, mut last: Option<String>) {
        loop {
            let (watch, client) = (self.service.watch(), self.service.client());
            let start = watch.start(client, self.prefix, last.as_deref()).await;
            let Start { snapshot, missed, number, mut changes } = start;
            let mut seen = number;
            if self.begin(snapshot, &missed, number).await.is_none() {
                return;
            }
            // A stream may last for days.
            drop(missed);
            loop {
                match changes.recv().await {
                    Ok(change) => {
                        seen = change.number;
                        if self.send(&change).await.is_none() {
                            return;
                        }
                    }
                    // The client reads too slowly: it gets the events that are still in the log, or
                    // a snapshot.
                    Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return,
                }
            }
            last = Some(self.service.watch().id(seen));
        }
    }

    async fn begin(
        &self,
        snapshot: Option<Vec<Lock>>,
        missed: &[Numbered],
        number: u64,
    ) -> Option<()> {
        if let Some(locks) = snapshot {
            let event = Event::default().event("snapshot").id(self.id(number));
            let event = event.json_data(Snapshot { locks }).ok()?;
            self.sender.send(event).await.ok()?;
        }
        for change in missed {
            self.send(change).await?;
        }
        Some(())
    }

    async fn send(&self, numbered: &Numbered) -> Option<()> {
        let change: &Change = &numbered.change;
        if !change.name().starts_with(self.prefix) {
            return Some(());
        }
        // The token may have been removed, or may have expired.
        if !self.service.access().still_allows(self.caller) {
            return None;
        }
        let event = Event::default().event(change.kind()).id(self.id(numbered.number));
        self.sender.send(event.json_data(change).ok()?).await.ok()
    }

    fn id(&self, number: u64) -> String {
        self.service.watch().id(number)
    }
}

/// The events of one watcher.
struct Receiver(tokio::sync::mpsc::Receiver<Event>);

impl futures_core::Stream for Receiver {
    type Item = Result<Event, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

/// Proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

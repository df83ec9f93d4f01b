//! Inspecting and listing locks.

use axum::{Json, extract::State};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use quorate::{
    fence::Fence,
    inspect::{Holder, LockCursor, LockReport, NodeView, Observation, Waiter},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Named, ParsedQuery};
use crate::{
    Service,
    auth::{Caller, Scope},
    problem::{Code, Problem, ProblemDetails, millis},
};

/// What the nodes report about one lock.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Lock {
    /// Its name.
    pub(crate) name: String,
    /// True if a majority of the nodes reports the same holder.
    is_held: bool,
    /// True if a majority of the nodes answered. If not, the lock may be held although `is_held`
    /// is false.
    is_known: bool,
    /// The holder, if the nodes report one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<HolderView>,
    /// Readers that hold it together with the holder, or other leases of its identity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared_with: Vec<HolderView>,
    /// The number of waiters.
    pub(crate) waiting: u64,
    /// The first waiters, in the order of the queue. Not in lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue: Vec<WaiterView>,
    /// The report of each node. Not in lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeObservation>,
}

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct HolderView {
    /// `who` and `why` of its request, or program, host and process of a library client.
    pub(crate) who: String,
    /// The holder's fence. Readers and other libraries have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    /// How long it has held the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_for_ms: Option<u64>,
    /// When the lock expires unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_ms: Option<u64>,
    /// True for a reader.
    is_shared: bool,
    /// True if another library or program holds it.
    is_foreign: bool,
    /// The identity of a reentrant lock: `shared_with` contains its other entries. For a lock of
    /// this service it is the name of the token, a slash, and the identity of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
}

/// A waiter for a lock.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct WaiterView {
    /// `who` and `why` of its request, or program, host and process of a library client.
    who: String,
    /// How long it has waited.
    waiting_for_ms: u64,
}

/// What one node reports about a lock.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct NodeObservation {
    /// The address of the node, without password.
    node: String,
    /// `free`, `held`, or the error of the node.
    state: String,
    /// The holder on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderView>,
}

/// One page of locks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Page {
    /// The locks, in no particular order.
    locks: Vec<Lock>,
    /// Continues the list: send it as `cursor`. Absent on the last page. A page may be empty
    /// although the list continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// False if too few nodes answered: locks may be missing.
    is_complete: bool,
}

/// Which locks are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only names that begin with this. By default, all that the token may see.
    prefix: Option<String>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// About how many locks a page has.
    #[param(minimum = 1, maximum = 1_000)]
    limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: None, cursor: None, limit: 100 }
    }
}

/// Inspect a lock
///
/// For people: everything can have changed when the response arrives.
#[utoipa::path(
    get, path = "/v1/locks/{name}", tag = "locks",
    params(("name" = String, Path, description = "The name of the lock, percent-encoded")),
    responses(
        (status = 200, description = "What the nodes know", body = Lock),
        (status = 400, description = "The name cannot be a lock's", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "No node answered", body = ProblemDetails,
         content_type = "application/problem+json")
    )
)]
pub(super) async fn inspect(
    State(service): State<Service>,
    caller: Caller,
    Named(name): Named,
) -> Result<Json<Lock>, Problem> {
    caller.require(Scope::Read, &name)?;
    let report = service.client().inspect(&name).await?;
    let nodes = report.nodes.iter().map(NodeObservation::from).collect();
    Ok(Json(Lock { nodes, ..Lock::from(&report) }))
}

/// List locks
///
/// Locks that are held or waited for. A lock that is held while all pages are read is listed at
/// least once.
#[utoipa::path(
    get, path = "/v1/locks", tag = "locks",
    params(ListQuery),
    responses(
        (status = 200, description = "One page of locks", body = Page),
        (status = 400, description = "A parameter makes no sense", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 401, description = "No valid token", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 403, description = "The token does not allow this", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = ProblemDetails,
         content_type = "application/problem+json"),
        (status = 503, description = "No node answered", body = ProblemDetails,
         content_type = "application/problem+json")
    )
)]
pub(super) async fn list(
    State(service): State<Service>,
    caller: Caller,
    ParsedQuery(query): ParsedQuery<ListQuery>,
) -> Result<Json<Page>, Problem> {
    let prefix = query.prefix.as_deref().unwrap_or_else(|| caller.prefix());
    caller.require(Scope::Read, prefix)?;
    if !(1..=LIMIT_MAX).contains(&query.limit) {
        let detail = format!("limit must be between 1 and {LIMIT_MAX}");
        return Err(Problem::new(Code::OutOfBounds, detail));
    }
    let cursor = query.cursor.as_deref().map(decode_cursor).transpose()?.unwrap_or_default();
    let mut list = service.client().locks(prefix).page_size(query.limit).starting_at(cursor);
    let page = list.next_page().await.map_err(|error| {
        match error.to_string().contains("invalid cursor") {
            // A server rejects a forged cursor with this error.
            true => invalid_cursor(),
            false => error.into(),
        }
    })?;
    let page = page.ok_or_else(invalid_cursor)?;
    Ok(Json(Page {
        locks: page.locks.iter().map(Lock::from).collect(),
        next_cursor: page.next.map(|next| URL_SAFE_NO_PAD.encode(next.to_string())),
        is_complete: page.is_complete,
    }))
}

fn decode_cursor(text: &str) -> Result<LockCursor, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let cursor = bytes.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok());
    cursor.ok_or_else(invalid_cursor)
}

fn invalid_cursor() -> Problem {
    let detail = "invalid cursor: use next_cursor of the previous page, unchanged";
    Problem::new(Code::InvalidRequest, detail)
}

impl Lock {
    /// Whether the holder and the readers are the same. Readers have no fence: two of the same
    /// description look alike, but their number differs.
    pub(crate) fn has_same_holders(&self, other: &Self) -> bool {
        let of = |lock: &Self| {
            let holders = lock.holder.iter().chain(&lock.shared_with);
            let mut holders: Vec<_> = holders.map(|it| (it.who.clone(), it.fence)).collect();
            // Nodes report readers in any order.
            holders.sort_unstable();
            holders
        };
        of(self) == of(other)
    }
}

impl From<&LockReport> for Lock {
    fn from(report: &LockReport) -> Self {
        Self {
            name: report.name.clone(),
            is_held: report.is_held(),
            is_known: report.is_known(),
            holder: report.holder.as_ref().map(HolderView::from),
            shared_with: report.shared_with.iter().map(HolderView::from).collect(),
            waiting: report.waiting_total,
            queue: report.waiting.iter().map(WaiterView::from).collect(),
            nodes: Vec::new(),
        }
    }
}

impl From<&Holder> for HolderView {
    fn from(holder: &Holder) -> Self {
        Self {
            who: holder.who.clone(),
            fence: holder.fence.map(Fence::get),
            held_for_ms: holder.held_for.map(millis),
            expires_in_ms: holder.expires_in.map(millis),
            is_shared: holder.is_shared,
            is_foreign: holder.is_foreign,
            identity: holder.identity.clone(),
        }
    }
}

impl From<&Waiter> for WaiterView {
    fn from(waiter: &Waiter) -> Self {
        Self { who: waiter.who.clone(), waiting_for_ms: millis(waiter.waiting_for) }
    }
}

impl From<&NodeView> for NodeObservation {
    fn from(view: &NodeView) -> Self {
        let (state, holder) = match &view.observation {
            Observation::Free => ("free".to_owned(), None),
            Observation::Held(holder) => ("held".to_owned(), Some(HolderView::from(holder))),
            Observation::NodeError(node_error) => (node_error.to_string(), None),
            other => (format!("{other:?}"), None),
        };
        Self { node: view.node.clone(), state, holder }
    }
}

/// The largest page.
const LIMIT_MAX: usize = 1_000;

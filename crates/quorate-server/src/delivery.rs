//! A response with leases, which are released if the response is not written.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use quorate::DetachedLease;

use crate::{Service, lease_id};

/// The body of a response with leases.
///
/// If the body is dropped before it is read, the client has disconnected, and the leases are
/// released. Once the body is read, the connection decides.
#[derive(Debug)]
pub(crate) struct Delivery {
    text: Option<Bytes>,
    undo: Option<Undo>,
    connection: Option<Unwritten>,
}

impl Delivery {
    pub(crate) fn new(text: Vec<u8>, undo: Undo, connection: Option<Unwritten>) -> Self {
        Self { text: Some(text.into()), undo: Some(undo), connection }
    }
}

impl Body for Delivery {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(undo) = self.undo.take() {
            match &self.connection {
                Some(connection) => *connection.lock() = Some(undo),
                // The router runs in another server, which does not report what it has written.
                None => undo.cancel(),
            }
        }
        Poll::Ready(self.text.take().map(|text| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.text.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}

/// The response with leases that a connection has not yet written. Every request of the connection
/// has a clone in its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten(Arc<Mutex<Option<Undo>>>);

impl Unwritten {
    pub(crate) fn is_some(&self) -> bool {
        self.lock().is_some()
    }

    /// The kernel has accepted all bytes of the response: the client may receive them, so it keeps
    /// the leases.
    pub(crate) fn written(&self) {
        if let Some(undo) = self.lock().take() {
            undo.cancel();
        }
    }

    /// The client cannot receive the whole response: releases the leases.
    pub(crate) fn failed(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Undo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases leases when it is dropped.
#[derive(Debug)]
pub(crate) struct Undo(Option<Leases>);

#[derive(Debug)]
struct Leases {
    service: Service,
    token: Arc<str>,
    leases: Vec<DetachedLease>,
}

impl Undo {
    pub(crate) const fn new(service: Service, token: Arc<str>, leases: Vec<DetachedLease>) -> Self {
        Self(Some(Leases { service, token, leases }))
    }

    /// Keeps the leases, even if the response is lost.
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some(Leases { service, token, leases }) = self.0.take() else { return };
        for lease in &leases {
            service.quotas().release(&token, lease_id::counted_as(lease));
        }
        release(&service, leases);
    }
}

/// Releases leases in the background.
pub(crate) fn release(service: &Service, leases: Vec<DetachedLease>) {
    // Without a runtime the leases cannot be released: they expire.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    for lease in leases {
        let service = service.clone();
        runtime.spawn(async move { service.client().release_lease(&lease).await });
    }
}

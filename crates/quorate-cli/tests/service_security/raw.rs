//! Connections that send what no HTTP library would.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpStream},
};

use serde_json::json;

use crate::fixture::{Instance, PATIENCE};

/// One connection, byte by byte.
pub(crate) struct Raw(TcpStream);

impl Raw {
    #[track_caller]
    pub(crate) fn connect(instance: &Instance) -> Self {
        let stream = TcpStream::connect(instance.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Self(stream)
    }

    /// Sends bytes. The instance may already have closed the connection.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// No more is sent.
    pub(crate) fn finish(&self) {
        // The instance may have closed the connection.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads until the instance closes the connection, which it must.
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // The bytes read before are kept.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&bytes)),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until this text has arrived, and returns everything read.
    #[track_caller]
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        let mut part = [0; 4_096];
        loop {
            let shown = String::from_utf8_lossy(&seen).into_owned();
            if shown.contains(text) {
                return shown;
            }
            let len = self.0.read(&mut part).unwrap_or_else(|error| panic!("{error}: {shown}"));
            assert_ne!(len, 0, "closed: {shown}");
            seen.extend_from_slice(&part[..len]);
        }
    }

    /// Sends a whole request, and returns everything received until the connection is closed.
    #[track_caller]
    pub(crate) fn exchange(instance: &Instance, request: impl AsRef<[u8]>) -> String {
        let mut raw = Self::connect(instance);
        raw.send(request);
        raw.finish();
        raw.read_to_end()
    }
}

/// The status of a response.
#[track_caller]
pub(crate) fn status(response: &str) -> u16 {
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("not a response: {response:?}"))
}

/// A well-behaved client acquires and releases a lock, on its own connection.
#[track_caller]
pub(crate) fn assert_serves(instance: &Instance, headers: &[(&str, &str)]) {
    let name = format!("{}well-behaved", prefix_of(headers));
    let request = json!({ "ttl_ms": 60_000, "wait_ms": 10_000 });
    let acquired = instance.acquire_with(&name, headers, &request);
    let lease = acquired.assert_status(200).lease_id();
    let path = format!("/v1/leases/{lease}");
    instance.send("DELETE", &path, headers, None).assert_status(204);
}

/// Tests put the prefix of a token into a header that the service ignores.
fn prefix_of<'a>(headers: &[(&str, &'a str)]) -> &'a str {
    headers.iter().find(|(name, _)| *name == "X-Prefix").map_or("", |(_, prefix)| prefix)
}

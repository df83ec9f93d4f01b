//! The keys of the library on a server.

use quorate_core::{command::ClientId, name::Name};

/// The key of a client's session.
pub(super) fn session_key(client: ClientId) -> String {
    format!("{PREFIX}s:{client}")
}

pub(super) fn fence_key(name: &Name) -> String {
    format!("{PREFIX}f:{{{name}}}")
}

pub(super) fn queue_key(name: &Name) -> String {
    format!("{PREFIX}q:{{{name}}}")
}

pub(super) fn record_key() -> String {
    format!("{PREFIX}node")
}

pub(super) fn channel(client: ClientId) -> String {
    format!("{PREFIX}c:{client}")
}

/// Sixteen digits and nothing else.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let is_plain = text.len() == 16 && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

/// The prefix of our keys. It is not the default, so that no script can rely on the default.
pub(super) const PREFIX: &str = "app 7:q:";

//! The value that a lock's key holds: it identifies the holder.

use std::{fmt, sync::Arc};

use crate::hex::{append_decimal, append_hex};

/// The value that marks a key as one owner's. It is unique across all clients and requests, and
/// cannot be guessed.
///
/// It reads `<client id>:<request number>@<who>`. The part after `@` is for people. Comparisons
/// always use the whole value.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(Arc<[u8]>);

impl Owner {
    /// The owner of request `number` of a client with 160 bits of real randomness.
    #[must_use]
    pub fn new(client: &ClientId, number: u64, who: &str) -> Self {
        mutate!(SameOwner => let number = 0);
        let mut text = Vec::with_capacity(64_usize.saturating_add(who.len()));
        client.append_to(&mut text);
        text.push(b':');
        append_decimal(&mut text, number, 1);
        text.push(b'@');
        text.extend_from_slice(who.as_bytes());
        Self(text.into())
    }

    /// The owner from bytes that another process detached.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes that are stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An owner is a secret: it suffices to release its lock.
        f.write_str("Owner(…)")
    }
}

/// The identity of one client: 160 random bits.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId([u8; 20]);

impl ClientId {
    /// Makes the identity from bytes that must come from a good source of randomness.
    #[must_use]
    pub const fn from_random(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Appends the output of `Display`.
    pub fn append_to(&self, text: &mut Vec<u8>) {
        append_hex(text, &self.0);
    }

    /// Parses the output of `Display`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 40 {
            return None;
        }
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = Vec::with_capacity(40);
        append_hex(&mut hex, &self.0);
        f.write_str(str::from_utf8(&hex).unwrap_or_default())
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All owners of a client derive from it.
        f.write_str("ClientId(…)")
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_consists_of_client_number_and_description() {
        let client = ClientId::from_random([0xa5; 20]);
        let owner = Owner::new(&client, 7, "cron/db1/4711");
        let expected = format!("{}:7@cron/db1/4711", "a5".repeat(20));
        assert_eq!(owner.as_bytes(), expected.as_bytes());
        assert_eq!(format!("{owner:?} {client:?}"), "Owner(…) ClientId(…)", "secrets");
    }
}

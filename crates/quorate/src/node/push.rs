//! The text form of pushes.
//!
//! `G` or `I`, the fence in 16 digits, for `G` the session, and the owner. The last line is the
//! name, which has no line breaks. The text comes from an untrusted source: text that cannot be
//! parsed is no push.

use quorate_core::{
    command::{ClientId, Owner},
    fence::Fence,
    name::Name,
    queue::{Push, PushKind, Session},
};

/// Parses a message from the client's channel.
pub(super) fn read(client: ClientId, text: &[u8]) -> Option<Push> {
    let at = text.iter().rposition(|byte| *byte == b'\n')?;
    let name = Name::parse(str::from_utf8(&text[at + 1..]).ok()?, "").ok()?;
    let mut words = text[..at].splitn(3, |byte| *byte == b' ');
    let kind = match words.next()? {
        b"G" => PushKind::Granted,
        b"I" => PushKind::Inquired,
        _ => return None,
    };
    let fence = Fence::new(digits(words.next()?)?);
    let (session, owner) = match kind {
        PushKind::Granted => {
            let rest = words.next()?;
            let (session, owner) = rest.split_at_checked(SESSION_LEN)?;
            let session = Session::parse(str::from_utf8(session).ok()?)?;
            (Some(session), owner.strip_prefix(b" ")?)
        }
        PushKind::Inquired => (None, words.next()?),
    };
    Some(Push { client, name, owner: Owner::from_bytes(owner), fence, kind, session })
}

/// Writes what `read` parses. A node sends no grant without a session, and `read` rejects one.
#[cfg(feature = "local")]
pub(super) fn write(push: &Push) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    let kind = match push.kind {
        PushKind::Granted => "G",
        PushKind::Inquired => "I",
    };
    text.extend_from_slice(format!("{kind} {:016} ", push.fence.get()).as_bytes());
    if let Some(session) = push.session {
        text.extend_from_slice(format!("{session} ").as_bytes());
    }
    text.extend_from_slice(push.owner.as_bytes());
    text.push(b'\n');
    text.extend_from_slice(push.name.as_bytes());
    text
}

/// Parses digits and nothing else.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

const SESSION_LEN: usize = 32;

#[cfg(all(test, feature = "local"))]
mod tests {
    use quorate_core::queue::Position;

    use super::*;

    #[test]
    fn written_push_is_read_unchanged() {
        let client = ClientId::from_random([0xa5; 20]);
        let owner = Position { ticket: 42, ttl_ms: 300, client }.owner(9);
        let name = Name::parse("a b", "").unwrap();
        let session = Some(Session::from_random(7));
        let fence = Fence::new(1_800_000_000_000_000);
        let granted = Push { client, name, owner, fence, kind: PushKind::Granted, session };
        let inquired = Push { kind: PushKind::Inquired, session: None, ..granted.clone() };
        for push in [granted, inquired] {
            assert_eq!(read(client, &write(&push)), Some(push));
        }
    }
}

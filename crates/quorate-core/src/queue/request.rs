//! The request part of an owner, which distinguishes the owners of one client.

use super::{Position, number};
use crate::{
    command::Owner,
    fence::{FENCE_MAX, Fence},
    hex::{append_decimal, append_hex},
};

/// One request of a client, encoded at the end of its owner.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Request<'a> {
    /// A number that the client never uses again.
    pub number: u64,
    /// A part that cannot be guessed from other owners of the client.
    pub secret: Option<u64>,
    /// The tag by which other processes can find the lease of this owner.
    pub tag: Option<Tag>,
    /// How the owner is shown to people, if different from its client.
    pub label: Option<&'a str>,
    /// Whether it shares the lock with other readers.
    pub is_shared: bool,
    /// The identity of the entry, if the lock is reentrant. `is_shared` is ignored then.
    pub identity: Option<&'a str>,
}

impl Request<'_> {
    /// Appends the text of the request, as owners contain it.
    pub(super) fn append_to(&self, text: &mut Vec<u8>) {
        append_decimal(text, self.number, 1);
        if let Some(secret) = self.secret {
            text.push(b'.');
            append_hex(text, &secret.to_be_bytes());
        }
        if let Some(Tag { bytes, fence }) = self.tag {
            text.push(b'~');
            append_hex(text, &bytes);
            text.push(b'.');
            append_decimal(text, fence.get(), 1);
        }
        if let Some(label) = self.label {
            text.push(b'@');
            append_encoded(text, label);
        }
        if let Some(identity) = self.identity {
            text.push(IDENTITY);
            append_encoded(text, identity);
            text.extend_from_slice(REENTRANT.as_bytes());
        } else if self.is_shared {
            text.extend_from_slice(SHARED.as_bytes());
        }
    }
}

fn append_encoded(text: &mut Vec<u8>, label: &str) {
    for byte in label.bytes() {
        if is_plain(byte) {
            text.push(byte);
        } else {
            text.push(b'%');
            append_hex(text, &[byte]);
        }
    }
}

/// A group of owners that may hold a lock at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group<'a> {
    /// All readers.
    Readers,
    /// The entries of one identity in a reentrant lock: the identity as encoded in owners.
    Identity(&'a [u8]),
}

/// The group of the owner; `None` if it is exclusive or from another library.
#[must_use]
pub fn group(owner: &Owner) -> Option<Group<'_>> {
    let text = owner.as_bytes();
    let group = if text.ends_with(SHARED.as_bytes()) {
        Group::Readers
    } else {
        let text = text.strip_suffix(REENTRANT.as_bytes())?;
        let at = text.iter().rposition(|byte| *byte == IDENTITY)?;
        Group::Identity(text.get(at.saturating_add(1)..)?)
    };
    Position::of(text).map(|_| group)
}

/// The identity of an owner of a reentrant lock.
#[must_use]
pub fn identity_of(owner: &Owner) -> Option<String> {
    match group(owner)? {
        Group::Identity(identity) => decoded(str::from_utf8(identity).ok()?),
        Group::Readers => None,
    }
}

/// The owner of the reader that continues the lease of this writer; `None` if the owner is not an
/// exclusive owner of the default mode.
///
/// It follows from the writer, so that a repeated downgrade finds the same reader. It has no tag: a
/// repeated request for the writer must not find the reader.
#[must_use]
pub fn reader_of(writer: &Owner) -> Option<Owner> {
    if group(writer).is_some() {
        return None;
    }
    Position::of(writer.as_bytes())?;
    let text = str::from_utf8(writer.as_bytes()).ok()?;
    let request = text.split(['~', '@']).next()?;
    let label = text.split_once('@').map_or_else(String::new, |(_, label)| format!("@{label}"));
    Some(Owner::from_bytes(format!("{request}{label}{SHARED}").as_bytes()))
}

/// The owner without the suffix of its group.
fn without_group(owner: &str) -> &str {
    let reentrant = || owner.strip_suffix(REENTRANT)?.rsplit_once(char::from(IDENTITY));
    match owner.strip_suffix(SHARED) {
        Some(request) => request,
        None => reentrant().map_or(owner, |(request, _)| request),
    }
}

/// Marks the lease of a request, so that any process can find it on the nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Tag {
    /// The bytes that identify the request.
    pub bytes: [u8; TAG_LEN],
    /// The fence of the lease. A node may have stored a different one.
    pub fence: Fence,
}

/// Large enough to rule out collisions.
pub const TAG_LEN: usize = 24;

/// The tag of an owner; `None` if it has none or is from another library.
#[must_use]
pub fn tag_of(owner: &[u8]) -> Option<Tag> {
    Position::of(owner)?;
    let text = str::from_utf8(owner).ok()?;
    // A label may contain the same character.
    let (_, tag) = without_group(text).split('@').next()?.split_once('~')?;
    let (digits, fence) = tag.split_once('.')?;
    let fence = number(fence.as_bytes()).map(Fence::new).filter(|fence| *fence <= FENCE_MAX)?;
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    let bytes = bytes.filter(|_| rest.is_empty())?.try_into().ok()?;
    Some(Tag { bytes, fence })
}

/// The label of the owner; `None` if it has none or is from another library.
#[must_use]
pub fn label_of(owner: &[u8]) -> Option<String> {
    Position::of(owner)?;
    let text = str::from_utf8(owner).ok()?;
    decoded(without_group(text).split_once('@')?.1)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Colons and spaces are separators in values and messages of nodes.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/')
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The suffix of owners that share the lock.
const SHARED: &str = ":s";

/// The suffix of entries of a reentrant lock, after their identity.
const REENTRANT: &str = ":r";

/// Starts the identity. Clients write it nowhere else.
const IDENTITY: u8 = b'!';

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command::ClientId, queue::is_shared};

    fn position() -> Position {
        Position { ticket: 7, ttl_ms: 10, client: ClientId::from_random([9; 20]) }
    }

    #[test]
    fn label_round_trips_through_the_owner() {
        for label in ["", "me", "api/web-1 (nightly: 50 %)", "x:s", "a@b%20\n", "Zoë 🔒"] {
            for (is_shared_one, identity) in [(false, None), (true, None), (false, Some(label))] {
                let request = Request {
                    identity,
                    number: 3,
                    secret: Some(5),
                    tag: Some(TAG),
                    label: Some(label),
                    is_shared: is_shared_one,
                };
                let owner = position().owner_of(&request);
                assert_eq!(tag_of(owner.as_bytes()), Some(TAG), "{label}");
                let unlabelled = position().owner_of(&Request { label: None, ..request });
                assert_eq!(tag_of(unlabelled.as_bytes()), Some(TAG));
                assert_eq!(label_of(owner.as_bytes()).as_deref(), Some(label));
                assert_eq!(is_shared(&owner), is_shared_one, "{label}");
                assert_eq!(identity_of(&owner).as_deref(), identity);
                assert_eq!(Position::of(owner.as_bytes()), Some(position()));
                let text = owner.as_bytes();
                assert!(!text.contains(&b' ') && !text.contains(&b'\n'), "{owner:?}");
            }
        }
    }

    const TAG: Tag = Tag { bytes: [0xa5; TAG_LEN], fence: Fence::new(7) };

    #[test]
    fn reader_of_a_writer_differs_only_in_group_and_tag() {
        for label in [None, Some(""), Some("me"), Some("a~b@c:s")] {
            for tag in [None, Some(TAG)] {
                let writer =
                    Request { number: 3, secret: Some(5), tag, label, ..Request::default() };
                let reader = Request { tag: None, is_shared: true, ..writer };
                let found = reader_of(&position().owner_of(&writer));
                assert_eq!(found, Some(position().owner_of(&reader)), "{label:?}");
            }
        }
    }

    #[test]
    fn only_writers_become_readers() {
        let foreign = Owner::from_bytes(b"foreign");
        let classic = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let (reader, entry) = (position().shared_owner(3), position().reentrant_owner(3, "i"));
        for owner in [reader, entry, foreign, classic] {
            assert_eq!(reader_of(&owner), None, "{owner:?}");
        }
    }

    #[test]
    fn incomplete_tags_are_ignored() {
        assert_eq!(tag_of(position().owner(3).as_bytes()), None);
        assert_eq!(tag_of(b"foreign~00"), None);
        let whole = "a5".repeat(TAG_LEN);
        for digits in [
            String::new(),
            "a5.7".to_owned(),
            whole.clone(),
            format!("{whole}a5.7"),
            format!("{whole}."),
            format!("{whole}.+7"),
            format!("{whole}.99999999999999999"),
            format!("{}.7", "x5".repeat(TAG_LEN)),
        ] {
            let owner = [position().owner(3).as_bytes(), b"~", digits.as_bytes()].concat();
            assert_eq!(tag_of(&owner), None, "{digits}");
        }
        let request = Request { label: Some("a~b"), ..Request::default() };
        assert_eq!(tag_of(position().owner_of(&request).as_bytes()), None);
    }

    #[test]
    fn unlabelled_and_foreign_owners_have_no_label() {
        assert_eq!(label_of(position().owner(3).as_bytes()), None);
        assert_eq!(label_of(b"foreign@example"), None);
        let broken = [position().owner(3).as_bytes(), b"@a%4"].concat();
        assert_eq!(label_of(&broken), None);
    }

    #[test]
    fn secret_distinguishes_owners_with_the_same_number() {
        let with = |secret| position().owner_of(&Request { secret, ..Request::default() });
        assert_ne!(with(Some(1)), with(Some(2)));
        assert!(with(None).as_bytes().ends_with(b":0"));
    }
}

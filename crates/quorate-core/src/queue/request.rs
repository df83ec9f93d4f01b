//! What tells the owners of one client apart.

use std::fmt::{self, Write as _};

use super::{Position, number};
use crate::{
    command::Owner,
    fence::{FENCE_MAX, Fence},
};

/// One request of a client, as it stands at the end of its owner.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Request<'a> {
    /// A number that the client never uses again.
    pub number: u64,
    /// What somebody who knows other owners of the client cannot guess.
    pub secret: Option<u64>,
    /// By which other processes find the lease of this owner again.
    pub tag: Option<Tag>,
    /// How the owner is shown to people, if not like its client.
    pub label: Option<&'a str>,
    /// Whether it shares the lock with others of its kind.
    pub is_shared: bool,
    /// Whose entry it is, if the lock is reentrant. Then it does not share the lock with others.
    pub identity: Option<&'a str>,
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        if let Some(secret) = self.secret {
            write!(f, ".{secret:016x}")?;
        }
        if let Some(Tag { bytes, fence }) = self.tag {
            f.write_str("~")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            write!(f, ".{fence}")?;
        }
        if let Some(label) = self.label {
            f.write_str("@")?;
            write_encoded(f, label)?;
        }
        if let Some(identity) = self.identity {
            f.write_char(char::from(IDENTITY))?;
            write_encoded(f, identity)?;
            return f.write_str(REENTRANT);
        }
        f.write_str(if self.is_shared { SHARED } else { "" })
    }
}

fn write_encoded(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.bytes().try_for_each(|byte| match is_plain(byte) {
        true => f.write_char(char::from(byte)),
        false => write!(f, "%{byte:02x}"),
    })
}

/// Those who hold a lock at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group<'a> {
    /// All readers.
    Readers,
    /// The entries of one identity in a reentrant lock: the identity as owners write it.
    Identity(&'a [u8]),
}

/// With whom the owner may hold the lock at the same time; `None` if it holds it alone, or is
/// another library's.
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

/// What stands before the group of an owner.
fn without_group(owner: &str) -> &str {
    let reentrant = || owner.strip_suffix(REENTRANT)?.rsplit_once(char::from(IDENTITY));
    match owner.strip_suffix(SHARED) {
        Some(request) => request,
        None => reentrant().map_or(owner, |(request, _)| request),
    }
}

/// Marks the lease of a request, so that any process finds it again on the nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Tag {
    /// What the request is known by.
    pub bytes: [u8; TAG_LEN],
    /// The fence of the lease. A node may have stored another one.
    pub fence: Fence,
}

/// Large enough that nobody has the tag of another by chance.
pub const TAG_LEN: usize = 24;

/// The tag of an owner; `None` if it has none, or is another library's.
#[must_use]
pub fn tag_of(owner: &[u8]) -> Option<Tag> {
    Position::of(owner)?;
    let text = str::from_utf8(owner).ok()?;
    // A label may have the same sign in it.
    let (_, tag) = without_group(text).split('@').next()?.split_once('~')?;
    let (digits, fence) = tag.split_once('.')?;
    let fence = number(fence).map(Fence::new).filter(|fence| *fence <= FENCE_MAX)?;
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    let bytes = bytes.filter(|_| rest.is_empty())?.try_into().ok()?;
    Some(Tag { bytes, fence })
}

/// How the owner wants to be shown; `None` if it has no label, or is another library's.
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

/// Colons and spaces separate what nodes store and tell.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/')
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Ends the owners of those who share the lock.
const SHARED: &str = ":s";

/// Ends the owners of entries of a reentrant lock, behind their identity.
const REENTRANT: &str = ":r";

/// Begins the identity. It stands nowhere else in what a client writes.
const IDENTITY: u8 = b'!';

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command::ClientId, queue::is_shared};

    fn place() -> Position {
        Position { ticket: 7, ttl_ms: 10, client: ClientId::from_random([9; 20]) }
    }

    #[test]
    fn a_label_survives_its_way_through_the_owner() {
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
                let owner = place().owner_of(&request);
                assert_eq!(tag_of(owner.as_bytes()), Some(TAG), "{label}");
                let unlabelled = place().owner_of(&Request { label: None, ..request });
                assert_eq!(tag_of(unlabelled.as_bytes()), Some(TAG));
                assert_eq!(label_of(owner.as_bytes()).as_deref(), Some(label));
                assert_eq!(is_shared(&owner), is_shared_one, "{label}");
                assert_eq!(identity_of(&owner).as_deref(), identity);
                assert_eq!(Position::of(owner.as_bytes()), Some(place()));
                let text = owner.as_bytes();
                assert!(!text.contains(&b' ') && !text.contains(&b'\n'), "{owner:?}");
            }
        }
    }

    const TAG: Tag = Tag { bytes: [0xa5; TAG_LEN], fence: Fence::new(7) };

    #[test]
    fn only_owners_with_a_whole_tag_have_one() {
        assert_eq!(tag_of(place().owner(3).as_bytes()), None);
        assert_eq!(tag_of(b"somebody~00"), None);
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
            let owner = [place().owner(3).as_bytes(), b"~", digits.as_bytes()].concat();
            assert_eq!(tag_of(&owner), None, "{digits}");
        }
        let request = Request { label: Some("a~b"), ..Request::default() };
        assert_eq!(tag_of(place().owner_of(&request).as_bytes()), None);
    }

    #[test]
    fn an_owner_without_a_label_and_a_foreign_one_have_none() {
        assert_eq!(label_of(place().owner(3).as_bytes()), None);
        assert_eq!(label_of(b"somebody@example"), None);
        let broken = [place().owner(3).as_bytes(), b"@a%4"].concat();
        assert_eq!(label_of(&broken), None);
    }

    #[test]
    fn a_secret_makes_another_owner_of_the_same_number() {
        let with = |secret| place().owner_of(&Request { secret, ..Request::default() });
        assert_ne!(with(Some(1)), with(Some(2)));
        assert!(with(None).as_bytes().ends_with(b":0"));
    }
}

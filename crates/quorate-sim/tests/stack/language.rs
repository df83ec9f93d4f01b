//! The protocol of a server: bytes to words, words to commands of the core, and back.

use quorate_core::{
    command::{Command, ExtendedKey, KeyExtension, Owner, Reply, Value},
    membership,
    name::Name,
};
use redis_protocol::resp3::{decode::complete::decode, types::OwnedFrame};

use crate::{batch, quarantine, queue};

/// One request: its words.
pub(crate) type Words = Vec<Vec<u8>>;

/// Takes the first request off `bytes`, with its length; `None` while it is incomplete.
pub(crate) fn next_request(bytes: &[u8]) -> Result<Option<(Words, usize)>, String> {
    let Some((frame, len)) = decode(bytes).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let OwnedFrame::Array { data, .. } = frame else {
        return Err(format!("not an array: {frame:?}"));
    };
    let word = |item| match item {
        OwnedFrame::BlobString { data, .. } => Ok(data),
        other => Err(format!("not a word: {other:?}")),
    };
    Ok(Some((data.into_iter().map(word).collect::<Result<_, _>>()?, len)))
}

/// The scripts of the library. Others can be loaded, but not run: there is no Lua here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Script {
    SetKey,
    Adopt,
    DeleteKey,
    ExtendKeys,
    ReadKey,
    Introduce,
    Attach,
    Ping,
    Acquire,
    Release,
    Extend,
    AcquireMany,
    ReleaseMany,
    SetKeys,
    DeleteKeys,
    Handshake,
    Enrol,
    Change,
    Admit,
}

impl Script {
    const ALL: [Self; 19] = [
        Self::SetKey,
        Self::Adopt,
        Self::DeleteKey,
        Self::ExtendKeys,
        Self::ReadKey,
        Self::Introduce,
        Self::Attach,
        Self::Ping,
        Self::Acquire,
        Self::Release,
        Self::Extend,
        Self::AcquireMany,
        Self::ReleaseMany,
        Self::SetKeys,
        Self::DeleteKeys,
        Self::Handshake,
        Self::Enrol,
        Self::Change,
        Self::Admit,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::SetKey => include_str!("../../../quorate/lua/set_key.lua"),
            Self::Adopt => include_str!("../../../quorate/lua/adopt.lua"),
            Self::DeleteKey => include_str!("../../../quorate/lua/delete_key.lua"),
            Self::ExtendKeys => include_str!("../../../quorate/lua/extend_keys.lua"),
            Self::ReadKey => include_str!("../../../quorate/lua/read_key.lua"),
            Self::Introduce => include_str!("../../../quorate/lua/queue/introduce.lua"),
            Self::Attach => include_str!("../../../quorate/lua/queue/attach.lua"),
            Self::Ping => include_str!("../../../quorate/lua/queue/ping.lua"),
            Self::Acquire => include_str!("../../../quorate/lua/queue/acquire.lua"),
            Self::Release => include_str!("../../../quorate/lua/queue/release.lua"),
            Self::Extend => include_str!("../../../quorate/lua/queue/extend.lua"),
            Self::AcquireMany => include_str!("../../../quorate/lua/queue/acquire_many.lua"),
            Self::ReleaseMany => include_str!("../../../quorate/lua/queue/release_many.lua"),
            Self::SetKeys => include_str!("../../../quorate/lua/set_keys.lua"),
            Self::DeleteKeys => include_str!("../../../quorate/lua/delete_keys.lua"),
            Self::Handshake => include_str!("../../../quorate/lua/membership/handshake.lua"),
            Self::Enrol => include_str!("../../../quorate/lua/membership/enrol.lua"),
            Self::Change => include_str!("../../../quorate/lua/membership/change.lua"),
            Self::Admit => include_str!("../../../quorate/lua/membership/admit.lua"),
        }
    }

    pub(crate) fn by_text(text: &[u8]) -> Option<Self> {
        // The files name parts that the text has in full, and begin as the text does.
        let first = str::from_utf8(text).ok()?.lines().next();
        Self::ALL.into_iter().find(|script| script.text().lines().next() == first)
    }

    pub(crate) fn by_digest(digest: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|script| script.digest().as_bytes() == digest)
    }

    /// A server's name for the script. Clients only repeat it, so it need not be a real digest.
    pub(crate) fn digest(self) -> String {
        format!("{:040x}", self as u8)
    }

    /// The command that this call of the script is.
    pub(crate) fn command(self, rest: &[Vec<u8>]) -> Option<Command> {
        let (count, rest) = rest.split_first()?;
        let (keys, args) = rest.split_at_checked(number(count)?.try_into().ok()?)?;
        match (self, keys, args) {
            (Self::SetKey, [key, session_key], [owner, ttl, session]) => {
                let (name, owner, ttl_ms) = (name(key)?, Owner::from_bytes(owner), number(ttl)?);
                let sender = Some(queue::sender(session_key, session)?);
                Some(Command::SetKey { name, owner, ttl_ms, sender })
            }
            (Self::Adopt, [key, more @ ..], [from, to, ttl, session @ ..]) => {
                let sender = match (more, session) {
                    ([], []) => None,
                    ([_, key, _], [session]) => Some(queue::sender(key, session)?),
                    _ => return None,
                };
                let (from, owner) = (Owner::from_bytes(from), Owner::from_bytes(to));
                let (name, ttl_ms) = (name(key)?, number(ttl)?);
                Some(Command::Adopt { name, from, owner, ttl_ms, sender })
            }
            (Self::DeleteKey, [key], [owner]) => {
                Some(Command::DeleteKey { name: name(key)?, owner: Owner::from_bytes(owner) })
            }
            (Self::ReadKey, [key], []) => Some(Command::ReadKey { name: name(key)? }),
            (Self::ReadKey, [key], [owner]) => {
                Some(Command::Check { name: name(key)?, owner: Owner::from_bytes(owner) })
            }
            (Self::ExtendKeys, keys, args) => {
                let (keys, args, sender) = match (keys, args) {
                    ([keys @ .., key], [args @ .., session]) if args.len() == 2 * keys.len() => {
                        (keys, args, Some(queue::sender(key, session)?))
                    }
                    (keys, args) if args.len() == 2 * keys.len() => (keys, args, None),
                    _ => return None,
                };
                let entry = |(key, args): (&Vec<u8>, &[Vec<u8>])| {
                    let (name, owner) = (name(key)?, Owner::from_bytes(&args[0]));
                    Some(KeyExtension { name, owner, ttl_ms: number(&args[1])? })
                };
                let entries = keys.iter().zip(args.chunks_exact(2)).map(entry);
                let entries = entries.collect::<Option<_>>()?;
                Some(Command::ExtendKeys { entries, sender })
            }
            (script, keys, args) => queue::command(script, keys, args)
                .or_else(|| batch::command(script, keys, args))
                .or_else(|| quarantine::command(script, keys, args)),
        }
    }
}

/// `SET key value NX PX ttl`, and no other form of it.
pub(crate) fn take(words: &[Vec<u8>]) -> Option<Command> {
    match words {
        [key, owner, nx, px, ttl] if nx == b"NX" && px == b"PX" => Some(Command::SetKey {
            name: name(key)?,
            owner: Owner::from_bytes(owner),
            ttl_ms: number(ttl)?,
            sender: None,
        }),
        _ => None,
    }
}

/// The reply as a server writes it.
pub(crate) fn encode(command: &Command, reply: &Reply) -> String {
    match (command, reply) {
        (Command::Batch(entries), Reply::Batch(each)) => batch::encode(entries, each),
        (_, Reply::Full) => "-OOM command not allowed when used memory > 'maxmemory'.\r\n".into(),
        (Command::Adopt { .. }, Reply::Stale) => ":-2\r\n".into(),
        (_, Reply::Stale)
            if !matches!(command, Command::Membership(membership::Command::Admit { .. })) =>
        {
            ":0\r\n".into()
        }
        (Command::SetKey { .. }, Reply::Stored) => "+OK\r\n".into(),
        (Command::SetKey { .. }, _) => "_\r\n".into(),
        (_, Reply::Stored | Reply::Deleted) => ":1\r\n".into(),
        (_, Reply::Absent) => ":0\r\n".into(),
        (_, Reply::NotOwner) => ":-1\r\n".into(),
        (_, Reply::ExtendedKeys(fates)) => {
            queue::array(fates.iter().copied().map(extended_key).collect())
        }
        (_, Reply::Key(None)) => "*0\r\n".into(),
        (_, Reply::Key(Some(seen))) => {
            let left = seen.expires_in_ms.map_or(-1, |left| left.cast_signed());
            match &seen.value {
                Value::Text(value) => {
                    format!("*2\r\n:{left}\r\n{}", text(&String::from_utf8_lossy(value)))
                }
                Value::Shared(_) => unreachable!("a shared key is reported by one of its readers"),
                Value::OtherType(kind) => {
                    format!("*3\r\n:{left}\r\n{}{}", text(""), text(kind))
                }
            }
        }
        (_, other) => queue::encode(other)
            .or_else(|| quarantine::encode(command, other))
            .unwrap_or_else(|| unreachable!("never answered: {other:?}")),
    }
}

/// The result of one key of an extension.
pub(crate) fn extended_key(fate: ExtendedKey) -> String {
    let number = match fate {
        ExtendedKey::Renewed => 1,
        ExtendedKey::Absent => 0,
        ExtendedKey::NotOwner => -1,
        ExtendedKey::Failed => -2,
    };
    format!(":{number}\r\n")
}

/// A text as a server writes it.
pub(crate) fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

pub(crate) fn name(word: &[u8]) -> Option<Name> {
    Name::parse(str::from_utf8(word).ok()?, "").ok()
}

pub(crate) fn number(word: &[u8]) -> Option<u64> {
    str::from_utf8(word).ok()?.parse().ok()
}

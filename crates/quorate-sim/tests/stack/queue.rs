//! The part of the servers' protocol that concerns queues.

use std::fmt::Write as _;

use quorate_core::{
    command::{ClientId, Command, Owner, Reply},
    fence::Fence,
    queue::{AcquireRequest, Extend, Extended, Push, PushKind, Sender, Session, Yield},
};

use crate::{
    language::{Script, name, number, text},
    quarantine::terms,
};

/// The command that this call of a script is.
pub(crate) fn command(script: Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Command> {
    match (script, keys, args) {
        (Script::Introduce, [key], [who, lifetime]) => Some(Command::Introduce {
            client: client(key, "w:")?,
            who: str::from_utf8(who).ok()?.into(),
            lifetime_ms: number(lifetime)?,
        }),
        (Script::Attach, [key, _], [session, rest @ ..]) => {
            Some(Command::Attach { sender: sender(key, session)?, terms: terms(rest)? })
        }
        (Script::Ping, [key, _], [session, rest @ ..]) => {
            Some(Command::Ping { sender: sender(key, session)?, terms: terms(rest)? })
        }
        (Script::Acquire, [lock, _, _, key], [owner, session, _, _, waits, known]) => {
            let owner = Owner::from_bytes(owner);
            let (is_waiting, is_known) = (waits == b"1", known == b"1");
            let ask = AcquireRequest { name: name(lock)?, owner, is_waiting, is_known };
            Some(Command::Acquire { sender: sender(key, session)?, request: ask })
        }
        (Script::Release, [lock, _, _, session_key @ ..], [owner, yields @ ..]) => {
            let (name, owner) = (name(lock)?, Owner::from_bytes(owner));
            let yields = match (session_key, yields) {
                ([key], [fence, session, ..]) => {
                    let fence = Fence::new(number(fence)?);
                    Some(Yield { fence, sender: sender(key, session)? })
                }
                ([], []) => None,
                _ => return None,
            };
            Some(Command::Release { name, owner, yields })
        }
        (Script::Extend, [key, locks @ ..], [session, args @ ..]) => {
            let entry = |(lock, args): (&[Vec<u8>], &[Vec<u8>])| {
                Some(Extend {
                    name: name(&lock[0])?,
                    owner: Owner::from_bytes(&args[0]),
                    fence: Fence::new(number(&args[1])?),
                    ttl_ms: number(&args[2])?,
                    may_heal: args[3] == b"1",
                })
            };
            let entries = locks.chunks_exact(3).zip(args.chunks_exact(4)).map(entry);
            let entries = entries.collect::<Option<_>>()?;
            Some(Command::Extend { sender: sender(key, session)?, entries })
        }
        _ => None,
    }
}

/// `GET` of the name of a client.
pub(crate) fn who(key: &[u8]) -> Option<Command> {
    Some(Command::Who { client: client(key, "w:")? })
}

/// The client that listens on this channel.
pub(crate) fn listener(channel: &[u8]) -> Option<ClientId> {
    client(channel, "c:")
}

/// The reply as a server writes it; `None` if it does not concern queues.
pub(crate) fn encode(reply: &Reply) -> Option<String> {
    Some(match reply {
        Reply::Attached { time_us } => text(&format!("{time_us:016}")),
        Reply::Granted { .. } | Reply::Queued { .. } => asked(reply),
        Reply::Introduced => "+OK\r\n".into(),
        Reply::Known(None) => "_\r\n".into(),
        Reply::Known(Some(who)) => text(who),
        Reply::Released { is_ours } => format!(":{}\r\n", u8::from(*is_ours)),
        Reply::ExtendedLeases(fates) => array(fates.iter().copied().map(extended).collect()),
        _ => return None,
    })
}

/// A push, as a server sends it to a listener.
pub(crate) fn message(push: &Push) -> String {
    let Push { client, name, owner, fence, kind, session } = push;
    let kind = match kind {
        PushKind::Granted => "G",
        PushKind::Inquired => "I",
    };
    let owner = String::from_utf8_lossy(owner.as_bytes());
    let session = session.map(|session| format!("{session} ")).unwrap_or_default();
    let event = format!("{kind} {:016} {session}{owner}\n{name}", fence.get());
    let channel = format!("{PREFIX}c:{client}");
    format!(">3\r\n{}{}{}", text("message"), text(&channel), text(&event))
}

/// The answer to a subscription.
pub(crate) fn subscribed(channel: &[u8]) -> String {
    format!(">3\r\n{}{}:1\r\n", text("subscribe"), text(&String::from_utf8_lossy(channel)))
}

/// The result of one lease of an extension.
pub(crate) fn extended(fate: Extended) -> String {
    match fate {
        Extended::Renewed(fence) => digits(fence),
        Extended::Refused(fence) => array(vec![digits(fence)]),
        Extended::Failed => ":0\r\n".into(),
    }
}

pub(crate) fn asked(reply: &Reply) -> String {
    match reply {
        Reply::Granted { fence, is_earlier: false } => digits(*fence),
        Reply::Granted { fence, is_earlier: true } => array(vec![digits(*fence)]),
        Reply::Queued { fence, expires_in_ms, rank, is_foreign } => array(vec![
            digits(*fence),
            number_or_none(*expires_in_ms),
            number_or_none(*rank),
            format!(":{}\r\n", u8::from(*is_foreign)),
        ]),
        other => unreachable!("{other:?} is no reply to a waiter"),
    }
}

pub(crate) fn array(items: Vec<String>) -> String {
    let mut out = format!("*{}\r\n", items.len());
    items.iter().for_each(|item| {
        let _ = write!(out, "{item}");
    });
    out
}

fn digits(fence: Fence) -> String {
    text(&format!("{:016}", fence.get()))
}

fn number_or_none(number: Option<u64>) -> String {
    number.map_or_else(|| ":-1\r\n".into(), |number| format!(":{number}\r\n"))
}

pub(crate) fn sender(key: &[u8], session: &[u8]) -> Option<Sender> {
    let session = u128::from_str_radix(str::from_utf8(session).ok()?, 16).ok()?;
    Some(Sender { client: client(key, "s:")?, session: Session::from_random(session) })
}

fn client(key: &[u8], kind: &str) -> Option<ClientId> {
    ClientId::parse(str::from_utf8(key).ok()?.strip_prefix(PREFIX)?.strip_prefix(kind)?)
}

/// How the library's own keys begin.
const PREFIX: &str = "quorate:";

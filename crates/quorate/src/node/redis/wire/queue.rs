//! Encodes commands about queued locks, and decodes their replies and pushes.

use quorate_core::{
    command::{ClientId, Command, Reply, SessionTerms},
    fence::Fence,
    name::Name,
    queue::{AcquireRequest, Extend, Extended, Position, Push, Sender, Yield},
};
use redis_protocol::resp3::types::RangeFrame;

use super::{Frame, text, write_header, write_number, write_script, write_session, write_word};
use crate::node::{
    push,
    redis::script::{Script, Scripts},
};

/// Appends one command of the default mode.
pub(super) fn write(out: &mut Vec<u8>, command: &Command, scripts: &Scripts) {
    match command {
        Command::Attach { sender, terms } => {
            write_script(out, Script::Attach, scripts, 2, 5);
            write_session_terms(out, scripts, *sender, terms);
        }
        Command::Ping { sender, terms } => {
            write_script(out, Script::Ping, scripts, 2, 5);
            write_session_terms(out, scripts, *sender, terms);
        }
        Command::Acquire { sender, request } => write_acquire(out, *sender, request, scripts),
        Command::Release { name, owner, yields } => {
            let position = yields.and_then(|_| Position::of(owner.as_bytes()));
            let yielded = usize::from(yields.is_some());
            let args = 1 + 2 * yielded + 2 * usize::from(position.is_some());
            write_script(out, Script::Release, scripts, 3 + yielded, args);
            write_lock(out, scripts, name);
            if let Some(Yield { sender, .. }) = yields {
                write_session_key(out, scripts, *sender);
            }
            write_word(out, owner.as_bytes());
            if let Some(Yield { fence, sender }) = yields {
                write_digits(out, fence.get());
                write_session(out, sender.session);
            }
            if let Some(position) = position {
                write_digits(out, position.ticket);
                write_number(out, position.ttl_ms);
            }
        }
        Command::Extend { sender, entries } => {
            write_extend(out, *sender, entries.iter(), scripts);
        }
        Command::Introduce { client, who, lifetime_ms } => {
            write_script(out, Script::Introduce, scripts, 1, 2);
            write_key(out, scripts, &["w:", &client.to_string()]);
            write_word(out, who.as_bytes());
            write_number(out, *lifetime_ms);
        }
        Command::Who { client } => {
            write_header(out, b'*', 2);
            write_word(out, b"GET");
            write_key(out, scripts, &["w:", &client.to_string()]);
        }
        other => unreachable!("{other:?} is no command of the default mode"),
    }
}

fn write_session_terms(out: &mut Vec<u8>, scripts: &Scripts, sender: Sender, terms: &SessionTerms) {
    write_session_key(out, scripts, sender);
    write_record(out, scripts);
    write_session(out, sender.session);
    write_number(out, terms.lifetime_ms);
    write_word(out, terms.mark.map(|mark| mark.to_string()).unwrap_or_default().as_bytes());
    write_number(out, terms.slack_us);
    write_number(out, terms.wall_ms);
}

fn write_acquire(out: &mut Vec<u8>, sender: Sender, request: &AcquireRequest, scripts: &Scripts) {
    let position = Position::ticket_and_ttl(request.owner.as_bytes());
    write_script(out, Script::Acquire, scripts, 4, 6);
    write_lock(out, scripts, &request.name);
    write_session_key(out, scripts, sender);
    write_word(out, request.owner.as_bytes());
    // A request without a position cannot be granted. The empty text means no session.
    match position {
        Some(_) => write_session(out, sender.session),
        None => write_word(out, b""),
    }
    let (ticket, ttl_ms) = position.unwrap_or_default();
    write_digits(out, ticket);
    write_number(out, ttl_ms);
    write_flag(out, request.is_waiting);
    write_flag(out, request.is_known);
}

pub(super) fn write_extend<'a>(
    out: &mut Vec<u8>,
    sender: Sender,
    entries: impl Iterator<Item = &'a Extend> + Clone,
    scripts: &Scripts,
) {
    let count = entries.clone().count();
    write_script(out, Script::Extend, scripts, 1 + 3 * count, 1 + 4 * count);
    write_session_key(out, scripts, sender);
    entries.clone().for_each(|entry| write_lock(out, scripts, &entry.name));
    write_session(out, sender.session);
    for entry in entries {
        write_word(out, entry.owner.as_bytes());
        write_digits(out, entry.fence.get());
        write_number(out, entry.ttl_ms);
        write_flag(out, entry.may_heal);
    }
}

/// The digits of a client.
const CLIENT_LEN: usize = 40;

/// The channel of a client.
pub(crate) fn channel(prefix: &str, client: &ClientId) -> String {
    format!("{prefix}c:{client}")
}

/// The keys of a lock, of its fence and of its queue.
pub(super) fn write_lock(out: &mut Vec<u8>, scripts: &Scripts, name: &Name) {
    write_word(out, name.as_bytes());
    write_fence(out, scripts, name);
    write_queue_key(out, scripts, name);
}

/// The key of a lock's fence.
pub(super) fn write_fence(out: &mut Vec<u8>, scripts: &Scripts, name: &Name) {
    write_key(out, scripts, &["f:{", name.as_str(), "}"]);
}

/// The key of a client's session.
pub(super) fn write_session_key(out: &mut Vec<u8>, scripts: &Scripts, sender: Sender) {
    let prefix = scripts.prefix();
    write_header(out, b'$', prefix.len() + "s:".len() + CLIENT_LEN);
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(b"s:");
    sender.client.append_to(out);
    out.extend_from_slice(b"\r\n");
}

/// The key of a lock's queue.
pub(super) fn write_queue_key(out: &mut Vec<u8>, scripts: &Scripts, name: &Name) {
    write_key(out, scripts, &["q:{", name.as_str(), "}"]);
}

/// The key of a node's record.
pub(super) fn write_record(out: &mut Vec<u8>, scripts: &Scripts) {
    write_key(out, scripts, &["node"]);
}

/// A key with the prefix.
fn write_key(out: &mut Vec<u8>, scripts: &Scripts, parts: &[&str]) {
    let prefix = scripts.prefix();
    write_header(out, b'$', prefix.len() + parts.iter().map(|part| part.len()).sum::<usize>());
    out.extend_from_slice(prefix.as_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    out.extend_from_slice(b"\r\n");
}

/// A ticket or a fence. The texts sort like the numbers.
fn write_digits(out: &mut Vec<u8>, number: u64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    let zeros = b"0000000000000000".get(digits.len()..).unwrap_or_default();
    write_header(out, b'$', zeros.len() + digits.len());
    out.extend_from_slice(zeros);
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
}

fn write_flag(out: &mut Vec<u8>, is_set: bool) {
    write_word(out, if is_set { b"1" } else { b"0" });
}

/// Decodes the reply to a command of the default mode.
pub(super) fn reply(frame: &RangeFrame, bytes: &[u8], command: &Command) -> Option<Reply> {
    let fence = |frame: &RangeFrame| fence(frame, bytes);
    Some(match (command, frame) {
        (Command::Attach { .. } | Command::Ping { .. }, RangeFrame::Number { data: -1, .. }) => {
            Reply::MembershipRequired
        }
        (
            Command::Attach { .. }
            | Command::Ping { .. }
            | Command::Acquire { .. }
            | Command::Extend { .. },
            RangeFrame::Number { data: 0, .. },
        ) => Reply::Stale,
        (Command::Attach { .. } | Command::Ping { .. }, time) => {
            Reply::Attached { time_us: fence(time)?.get() }
        }
        (Command::Acquire { .. }, asked) => acquired(asked, bytes)?,
        (Command::Introduce { .. }, RangeFrame::SimpleString { .. }) => Reply::Introduced,
        (Command::Who { .. }, RangeFrame::Null) => Reply::Known(None),
        (Command::Who { .. }, who) => {
            Reply::Known(Some(String::from_utf8_lossy(text(who, bytes)?).into()))
        }
        (Command::Release { .. }, RangeFrame::Number { data: ours @ 0..=1, .. }) => {
            Reply::Released { is_ours: *ours == 1 }
        }
        (Command::Extend { .. }, RangeFrame::Array { data, .. }) => {
            let result = |item| extended(item, bytes);
            Reply::ExtendedLeases(data.iter().map(result).collect::<Option<_>>()?)
        }
        (Command::Extend { entries, .. }, RangeFrame::Number { data, .. })
            if usize::try_from(*data) == Ok(entries.len()) =>
        {
            all_extended(entries)
        }
        _ => return None,
    })
}

/// The reply that stands for the usual case: each node has the fence of the lease.
pub(super) fn all_extended(entries: &[Extend]) -> Reply {
    Reply::ExtendedLeases(entries.iter().map(|entry| Extended::Renewed(entry.fence)).collect())
}

/// The result of one lease of an extension.
pub(super) fn extended(item: &RangeFrame, bytes: &[u8]) -> Option<Extended> {
    match item {
        RangeFrame::Number { data: 0, .. } => Some(Extended::Failed),
        RangeFrame::Array { data, .. } => match &data[..] {
            [node] => fence(node, bytes).map(Extended::Refused),
            _ => None,
        },
        node => fence(node, bytes).map(Extended::Renewed),
    }
}

/// The reply to an acquire.
pub(super) fn acquired(frame: &RangeFrame, bytes: &[u8]) -> Option<Reply> {
    let fence = |frame: &RangeFrame| fence(frame, bytes);
    let RangeFrame::Array { data, .. } = frame else {
        return Some(Reply::Granted { fence: fence(frame)?, is_earlier: false });
    };
    Some(match &data[..] {
        [granted] => Reply::Granted { fence: fence(granted)?, is_earlier: true },
        [node, left, rank, foreign] => Reply::Queued {
            fence: fence(node)?,
            expires_in_ms: number(left)?,
            rank: number(rank)?,
            is_foreign: number(foreign)? != Some(0),
        },
        _ => return None,
    })
}

pub(super) fn fence(frame: &RangeFrame, bytes: &[u8]) -> Option<Fence> {
    push::digits(text(frame, bytes)?).map(Fence::new)
}

/// A number. The servers' -1 means none.
pub(super) fn number(frame: &RangeFrame) -> Option<Option<u64>> {
    match frame {
        RangeFrame::Number { data: -1, .. } => Some(None),
        RangeFrame::Number { data, .. } => u64::try_from(*data).ok().map(Some),
        _ => None,
    }
}

impl Frame {
    /// Decodes a push about a lock. `None` if the frame is something else.
    pub(crate) fn push(&self, bytes: &[u8], prefix: &str) -> Option<Push> {
        let RangeFrame::Push { data, .. } = &self.0 else { return None };
        let [kind, channel, message] = &data[..] else { return None };
        if text(kind, bytes)? != b"message" {
            return None;
        }
        let channel = str::from_utf8(text(channel, bytes)?).ok()?;
        let client = ClientId::parse(channel.strip_prefix(prefix)?.strip_prefix("c:")?)?;
        push::read(client, text(message, bytes)?)
    }
}

#[cfg(test)]
mod tests;

//! Encodes commands and decodes replies.

mod batch;
mod inspect;
mod membership;
mod queue;
#[cfg(feature = "__simulation")]
pub(super) mod testing;

use quorate_core::{
    command::{Command, ExtendedKey, KeyExtension, KeyObservation, Reply, Value},
    queue::{Sender, Session},
};
use redis_protocol::resp3::{decode::complete::decode_range, types::RangeFrame};

pub(crate) use self::{batch::Answers, queue::channel};
use super::script::{Script, Scripts};
use crate::error::NodeError;

/// Appends a request of plain words.
pub(crate) fn write_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    write_header(out, b'*', words.len());
    words.iter().for_each(|word| write_word(out, word));
}

/// Appends one command.
pub(crate) fn write_command(out: &mut Vec<u8>, command: &Command, scripts: &Scripts) {
    match command {
        Command::SetKey { name, owner, ttl_ms, sender } => {
            let mut digits = itoa::Buffer::new();
            let ttl = digits.format(*ttl_ms);
            let (name, owner) = (name.as_bytes(), owner.as_bytes());
            let Some(sender) = sender else {
                write_words(out, &[b"SET", name, owner, b"NX", b"PX", ttl.as_bytes()]);
                return;
            };
            write_script(out, Script::SetKey, scripts, 2, 3);
            write_word(out, name);
            queue::write_session_key(out, scripts, *sender);
            write_word(out, owner);
            write_word(out, ttl.as_bytes());
            write_session(out, sender.session);
        }
        Command::Adopt { name, from, owner, ttl_ms, sender } => {
            // Without a session there is no queue either.
            let more = usize::from(sender.is_some());
            write_script(out, Script::Adopt, scripts, 1 + 3 * more, 3 + more);
            write_word(out, name.as_bytes());
            if let Some(sender) = sender {
                queue::write_queue_key(out, scripts, name);
                queue::write_session_key(out, scripts, *sender);
                queue::write_fence(out, scripts, name);
            }
            write_word(out, from.as_bytes());
            write_word(out, owner.as_bytes());
            write_number(out, *ttl_ms);
            if let Some(sender) = sender {
                write_session(out, sender.session);
            }
        }
        Command::DeleteKey { name, owner } => {
            write_script(out, Script::DeleteKey, scripts, 1, 1);
            write_word(out, name.as_bytes());
            write_word(out, owner.as_bytes());
        }
        Command::ExtendKeys { entries, sender } => {
            write_extend_keys(out, *sender, entries.iter(), scripts);
        }
        Command::Check { name, owner } => {
            write_script(out, Script::ReadKey, scripts, 1, 1);
            write_word(out, name.as_bytes());
            write_word(out, owner.as_bytes());
        }
        Command::ReadKey { name } => {
            write_script(out, Script::ReadKey, scripts, 1, 0);
            write_word(out, name.as_bytes());
        }
        Command::Inspect { name, shown } => inspect::write(out, name, *shown, scripts),
        Command::List { prefix, cursor, count } => {
            inspect::write_list(out, prefix, cursor.as_ref(), *count, scripts);
        }
        Command::Membership(command) => membership::write(out, command, scripts),
        Command::Batch(entries) => batch::write(out, entries, scripts),
        other => queue::write(out, other, scripts),
    }
}

fn write_extend_keys<'a>(
    out: &mut Vec<u8>,
    sender: Option<Sender>,
    entries: impl Iterator<Item = &'a KeyExtension> + Clone,
    scripts: &Scripts,
) {
    let (locks, more) = (entries.clone().count(), usize::from(sender.is_some()));
    write_script(out, Script::ExtendKeys, scripts, locks + more, 2 * locks + more);
    entries.clone().for_each(|entry| write_word(out, entry.name.as_bytes()));
    if let Some(sender) = sender {
        queue::write_session_key(out, scripts, sender);
    }
    for entry in entries {
        write_word(out, entry.owner.as_bytes());
        write_number(out, entry.ttl_ms);
    }
    if let Some(sender) = sender {
        write_session(out, sender.session);
    }
}

/// The head of a script's call. Its keys and arguments follow.
fn write_script(out: &mut Vec<u8>, script: Script, scripts: &Scripts, keys: usize, args: usize) {
    let (kind, id): (&[u8], _) = match scripts.digest(script) {
        Some(digest) => (b"EVALSHA", digest),
        None => (b"EVAL", script.text()),
    };
    write_header(out, b'*', 3 + keys + args);
    write_word(out, kind);
    write_word(out, id.as_bytes());
    write_number(out, keys as u64);
}

fn write_word(out: &mut Vec<u8>, word: &[u8]) {
    write_header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn write_header(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_session(out: &mut Vec<u8>, session: Session) {
    write_header(out, b'$', SESSION_LEN);
    session.append_to(out);
    out.extend_from_slice(b"\r\n");
}

/// The digits of a session.
const SESSION_LEN: usize = 32;

fn write_number(out: &mut Vec<u8>, number: u64) {
    write_word(out, itoa::Buffer::new().format(number).as_bytes());
}

/// One message of a server.
#[derive(Debug)]
pub(crate) struct Frame(RangeFrame);

impl Frame {
    /// Decodes the first frame of `bytes` and its length. `None` while it is incomplete.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, NodeError> {
        let window = &bytes[..bytes.len().min(FRAME_LEN_MAX)];
        if is_nested_too_deeply(window) {
            return Err(NodeError::Protocol("a reply is nested too deeply".into()));
        }
        match decode_range(window) {
            Ok(Some((frame, len))) => Ok(Some((Self(frame), len))),
            Ok(None) if window.len() == FRAME_LEN_MAX => {
                Err(NodeError::Protocol(format!("a reply is longer than {FRAME_LEN_MAX} bytes")))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(NodeError::Protocol(format!("not RESP3: {:?}", error.kind()))),
        }
    }

    /// True for messages without a request.
    pub(crate) const fn is_push(&self) -> bool {
        matches!(self.0, RangeFrame::Push { .. })
    }

    /// The text of an error reply.
    pub(crate) fn error<'a>(&self, bytes: &'a [u8]) -> Option<std::borrow::Cow<'a, str>> {
        match &self.0 {
            RangeFrame::SimpleError { data, .. } | RangeFrame::BlobError { data, .. } => {
                Some(String::from_utf8_lossy(&bytes[data.0..data.1]))
            }
            _ => None,
        }
    }

    /// The text of a string reply of any kind.
    pub(crate) fn text<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        text(&self.0, bytes)
    }

    /// A whole number.
    pub(crate) const fn number(&self) -> Option<i64> {
        match &self.0 {
            RangeFrame::Number { data, .. } => Some(*data),
            _ => None,
        }
    }

    /// The texts of a list, or the first value of a table.
    pub(crate) fn texts<'a>(&self, bytes: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        match &self.0 {
            RangeFrame::Array { data, .. } => data.iter().map(|item| text(item, bytes)).collect(),
            RangeFrame::Map { data, .. } => data.values().map(|item| text(item, bytes)).collect(),
            _ => None,
        }
    }

    /// Whether a list contains a text. `None` if the frame is no list.
    pub(crate) fn has_texts(&self, bytes: &[u8]) -> Option<bool> {
        match &self.0 {
            RangeFrame::Array { data, .. } => {
                Some(data.iter().any(|item| text(item, bytes).is_some()))
            }
            _ => None,
        }
    }

    /// Decodes the reply to `command`.
    pub(crate) fn reply(&self, bytes: &[u8], command: &Command) -> Result<Reply, NodeError> {
        if let Some(error) = self.error(bytes) {
            return Err(NodeError::from_reply(&error));
        }
        let reply = match (command, &self.0) {
            (Command::SetKey { .. }, RangeFrame::SimpleString { .. }) => {
                (self.text(bytes) == Some(b"OK")).then_some(Reply::Stored)
            }
            (Command::SetKey { .. }, RangeFrame::Null) => Some(Reply::NotOwner),
            (
                Command::SetKey { sender: Some(_), .. }
                | Command::ExtendKeys { sender: Some(_), .. },
                RangeFrame::Number { data: 0, .. },
            )
            | (Command::Adopt { .. }, RangeFrame::Number { data: -2, .. }) => Some(Reply::Stale),
            (Command::DeleteKey { .. }, RangeFrame::Number { data, .. }) => {
                owned(*data, Reply::Deleted)
            }
            (Command::Adopt { .. }, RangeFrame::Number { data, .. }) => owned(*data, Reply::Stored),
            (Command::ExtendKeys { .. }, RangeFrame::Array { data, .. }) => extended_keys(data),
            (Command::ExtendKeys { entries, .. }, RangeFrame::Number { data, .. }) => {
                (usize::try_from(*data) == Ok(entries.len()))
                    .then(|| all_keys_extended(entries.len()))
            }
            (Command::Check { .. } | Command::ReadKey { .. }, RangeFrame::Array { data, .. }) => {
                observation(data, bytes).map(Reply::Key)
            }
            (Command::Inspect { .. }, RangeFrame::Array { data, .. }) => {
                inspect::inspected(data, bytes)
            }
            (Command::List { prefix, .. }, RangeFrame::Array { data, .. }) => {
                inspect::listed(data, bytes, prefix)
            }
            (Command::Membership(command), frame) => membership::reply(frame, bytes, command),
            (command, frame) => queue::reply(frame, bytes, command),
        };
        reply.ok_or_else(|| NodeError::Protocol(format!("an unexpected {:?}", self.0.kind())))
    }
}

fn owned(number: i64, done: Reply) -> Option<Reply> {
    match number {
        1 => Some(done),
        0 => Some(Reply::Absent),
        -1 => Some(Reply::NotOwner),
        _ => None,
    }
}

fn extended_keys(items: &[RangeFrame]) -> Option<Reply> {
    items.iter().map(extended_key).collect::<Option<_>>().map(Reply::ExtendedKeys)
}

/// The reply that stands for the usual case.
fn all_keys_extended(count: usize) -> Reply {
    Reply::ExtendedKeys(vec![ExtendedKey::Renewed; count].into())
}

const fn extended_key(item: &RangeFrame) -> Option<ExtendedKey> {
    match item {
        RangeFrame::Number { data: 1, .. } => Some(ExtendedKey::Renewed),
        RangeFrame::Number { data: 0, .. } => Some(ExtendedKey::Absent),
        RangeFrame::Number { data: -1, .. } => Some(ExtendedKey::NotOwner),
        RangeFrame::Number { data: -2, .. } => Some(ExtendedKey::Failed),
        _ => None,
    }
}

/// The key that was found. The outer `None` means an invalid reply.
fn observation(items: &[RangeFrame], bytes: &[u8]) -> Option<Option<KeyObservation>> {
    let (left, value) = match items {
        [] => return Some(None),
        [left, value] => (left, Value::Text(text(value, bytes)?.into())),
        [left, _, kind] => {
            let kind = String::from_utf8_lossy(text(kind, bytes)?);
            (left, Value::OtherType(kind.into()))
        }
        _ => return None,
    };
    let RangeFrame::Number { data: left, .. } = left else {
        return None;
    };
    let expires_in_ms = u64::try_from(*left).ok();
    Some(Some(KeyObservation { value, expires_in_ms }))
}

fn text<'a>(frame: &RangeFrame, bytes: &'a [u8]) -> Option<&'a [u8]> {
    match frame {
        RangeFrame::SimpleString { data, .. }
        | RangeFrame::BlobString { data, .. }
        | RangeFrame::VerbatimString { data, .. } => bytes.get(data.0..data.1),
        _ => None,
    }
}

/// The decoder recurses, so an endlessly nested reply would exhaust the stack. Checks the first
/// frame only, as far as it has arrived.
fn is_nested_too_deeply(mut bytes: &[u8]) -> bool {
    // For each level, the number of remaining items.
    let mut levels: Vec<u64> = Vec::new();
    loop {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return false };
        let (kind, number) = (bytes[0], bytes[1..end.max(1)].trim_ascii_end());
        let count = str::from_utf8(number).ok().and_then(|text| text.parse::<u64>().ok());
        bytes = &bytes[end + 1..];
        match (kind, count) {
            (b'*' | b'~' | b'>', Some(items)) if items > 0 => levels.push(items),
            (b'%' | b'|', Some(pairs)) if pairs > 0 => levels.push(pairs.saturating_mul(2)),
            (b'$' | b'!' | b'=', Some(len)) => {
                let skipped = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(2);
                let Some(rest) = bytes.get(skipped..) else { return false };
                bytes = rest;
                finish_item(&mut levels);
            }
            _ => finish_item(&mut levels),
        }
        match levels.len() {
            0 => return false,
            1..=DEPTH_MAX => {}
            _ => return true,
        }
    }
}

fn finish_item(levels: &mut Vec<u64>) {
    while let Some(left) = levels.last_mut() {
        *left -= 1;
        if *left > 0 {
            return;
        }
        levels.pop();
    }
}

/// The maximum length of a reply. All expected replies are far shorter.
const FRAME_LEN_MAX: usize = 1 << 20;

/// The maximum nesting of arrays and maps. All expected replies are far below it.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests;

//! Encodes batches, each of which is one call of a script, and decodes the reply of each entry.

use quorate_core::{
    command::{Command, Reply},
    fence::Fence,
    queue::{AcquireRequest, Position},
};
use redis_protocol::resp3::types::RangeFrame;

use super::{
    Frame, all_keys_extended, extended_key, owned,
    queue::{acquired, all_extended, extended, write_extend, write_session_key},
    write_extend_keys, write_header, write_number, write_script, write_session, write_word,
};
use crate::{
    error::NodeError,
    node::redis::script::{Script, Scripts},
};

/// The answers to the entries of a batch.
#[derive(Debug)]
pub(crate) struct Answers {
    /// In the order of the entries; `None` for an error.
    pub(crate) replies: Box<[Option<Reply>]>,
    /// The errors, in the same order.
    pub(crate) errors: Vec<NodeError>,
}

/// Appends a batch. The entries share a call: see `Command::shares_call`.
pub(super) fn write(out: &mut Vec<u8>, entries: &[Command], scripts: &Scripts) {
    match entries.first() {
        Some(Command::Acquire { .. }) => write_acquires(out, entries, scripts),
        Some(Command::SetKey { .. }) => write_set_keys(out, entries, scripts),
        Some(Command::Release { .. }) => {
            write_script(out, Script::ReleaseMany, scripts, entries.len(), 1 + entries.len());
            write_names(out, entries);
            write_word(out, scripts.prefix().as_bytes());
            write_owners(out, entries);
        }
        Some(Command::DeleteKey { .. }) => {
            write_script(out, Script::DeleteKeys, scripts, entries.len(), entries.len());
            write_names(out, entries);
            write_owners(out, entries);
        }
        Some(Command::Extend { sender, .. }) => {
            let each = entries.iter().flat_map(|entry| match entry {
                Command::Extend { entries, .. } => &**entries,
                other => unreachable!("{other:?} is no extension"),
            });
            write_extend(out, *sender, each, scripts);
        }
        Some(Command::ExtendKeys { sender, .. }) => {
            let each = entries.iter().flat_map(|entry| match entry {
                Command::ExtendKeys { entries, .. } => &**entries,
                other => unreachable!("{other:?} is no extension"),
            });
            write_extend_keys(out, *sender, each, scripts);
        }
        other => unreachable!("{other:?} is sent without a batch"),
    }
}

fn write_acquires(out: &mut Vec<u8>, entries: &[Command], scripts: &Scripts) {
    let requests = || {
        entries.iter().map(|entry| match entry {
            Command::Acquire { sender, request } => (*sender, request),
            other => unreachable!("{other:?} is no acquire"),
        })
    };
    let Some((sender, first)) = requests().next() else { return };
    let ttl = |request: &AcquireRequest| {
        Position::ticket_and_ttl(request.owner.as_bytes()).map(|(_, ttl_ms)| ttl_ms)
    };
    let first = ttl(first);
    let mut are_placed = first.is_some();
    let mut are_equal = are_placed;
    for (_, request) in requests().skip(1) {
        let ttl = ttl(request);
        are_placed &= ttl.is_some();
        are_equal &= ttl == first;
    }
    write_script(out, Script::AcquireMany, scripts, 1 + entries.len(), 3 + entries.len());
    write_session_key(out, scripts, sender);
    write_names(out, entries);
    // A request without a position cannot be granted. The empty text means no session.
    match are_placed {
        true => write_session(out, sender.session),
        false => write_word(out, b""),
    }
    write_common(out, first.filter(|_| are_equal));
    write_header(out, b'$', entries.len());
    let flag =
        |(_, it): (_, &AcquireRequest)| b'0' + u8::from(it.is_waiting) + 2 * u8::from(it.is_known);
    out.extend(requests().map(flag));
    out.extend_from_slice(b"\r\n");
    write_owners(out, entries);
}

fn write_set_keys(out: &mut Vec<u8>, entries: &[Command], scripts: &Scripts) {
    let requests = || {
        entries.iter().map(|entry| match entry {
            Command::SetKey { ttl_ms, sender: Some(sender), .. } => (*sender, *ttl_ms),
            other => unreachable!("{other:?} needs no session"),
        })
    };
    let Some((sender, first)) = requests().next() else { return };
    let common = Some(first).filter(|ttl| requests().all(|(_, other)| other == *ttl));
    let ttls = if common.is_some() { 0 } else { entries.len() };
    write_script(out, Script::SetKeys, scripts, 1 + entries.len(), 2 + entries.len() + ttls);
    write_session_key(out, scripts, sender);
    write_names(out, entries);
    write_session(out, sender.session);
    write_common(out, common);
    write_owners(out, entries);
    requests().take(ttls).for_each(|(_, ttl_ms)| write_number(out, ttl_ms));
}

/// The ttl that all entries have, if they have one.
fn write_common(out: &mut Vec<u8>, ttl_ms: Option<u64>) {
    match ttl_ms {
        Some(ttl_ms) => write_number(out, ttl_ms),
        None => write_word(out, b""),
    }
}

fn write_names(out: &mut Vec<u8>, entries: &[Command]) {
    for name in entries.iter().filter_map(Command::entry_name) {
        write_word(out, name.as_bytes());
    }
}

fn write_owners(out: &mut Vec<u8>, entries: &[Command]) {
    for entry in entries {
        match entry {
            Command::Acquire { request: AcquireRequest { owner, .. }, .. }
            | Command::Release { owner, .. }
            | Command::SetKey { owner, .. }
            | Command::DeleteKey { owner, .. } => write_word(out, owner.as_bytes()),
            other => unreachable!("{other:?} has no single owner"),
        }
    }
}

impl Frame {
    /// Decodes the answer to each entry of a batch.
    pub(crate) fn answers(&self, bytes: &[u8], entries: &[Command]) -> Result<Answers, NodeError> {
        if let Some(error) = self.error(bytes) {
            return Err(NodeError::from_reply(&error));
        }
        let mut errors = Vec::new();
        let replies = match &self.0 {
            RangeFrame::Number { data: 0, .. } if has_session(entries) => {
                return Err(NodeError::SessionLost);
            }
            RangeFrame::Number { data, .. } if usize::try_from(*data) == Ok(entries.len()) => {
                entries.iter().map(|entry| usual(entry).map(Some)).collect()
            }
            RangeFrame::Array { data, .. } if data.len() == entries.len() => {
                let items = data.iter().zip(entries);
                let reply = |(item, entry)| match error(item, bytes) {
                    Some(error) => {
                        errors.push(error);
                        Some(None)
                    }
                    None => reply(item, bytes, entry).map(Some),
                };
                items.map(reply).collect()
            }
            _ => None,
        };
        let unexpected = || NodeError::Protocol(format!("an unexpected {:?}", self.0.kind()));
        Ok(Answers { replies: replies.ok_or_else(unexpected)?, errors })
    }
}

fn has_session(entries: &[Command]) -> bool {
    !matches!(entries.first(), Some(Command::Release { .. } | Command::DeleteKey { .. }))
}

/// The reply that stands for the usual case: 1 in a list, or their number instead of the list.
fn usual(entry: &Command) -> Option<Reply> {
    match entry {
        Command::Acquire { request, .. } => {
            let (ticket, _) = Position::ticket_and_ttl(request.owner.as_bytes())?;
            Some(Reply::Granted { fence: Fence::new(ticket), is_earlier: false })
        }
        Command::Release { .. } => Some(Reply::Released { is_ours: true }),
        Command::SetKey { .. } => Some(Reply::Stored),
        Command::DeleteKey { .. } => Some(Reply::Deleted),
        Command::Extend { entries, .. } => Some(all_extended(entries)),
        Command::ExtendKeys { entries, .. } => Some(all_keys_extended(entries.len())),
        _ => None,
    }
}

fn error(item: &RangeFrame, bytes: &[u8]) -> Option<NodeError> {
    let (RangeFrame::SimpleError { data, .. } | RangeFrame::BlobError { data, .. }) = item else {
        return None;
    };
    let text = bytes.get(data.0..data.1).unwrap_or_default();
    Some(NodeError::from_reply(&String::from_utf8_lossy(text)))
}

/// The reply to one entry; `None` if it cannot be understood.
fn reply(item: &RangeFrame, bytes: &[u8], entry: &Command) -> Option<Reply> {
    Some(match (entry, item) {
        (Command::Extend { .. }, item) => Reply::ExtendedLeases([extended(item, bytes)?].into()),
        (Command::ExtendKeys { .. }, item) => Reply::ExtendedKeys([extended_key(item)?].into()),
        (entry, RangeFrame::Number { data: 1, .. }) => usual(entry)?,
        (Command::Release { .. }, RangeFrame::Number { data: 0, .. }) => {
            Reply::Released { is_ours: false }
        }
        (Command::SetKey { .. }, RangeFrame::Number { data: 0, .. }) => Reply::NotOwner,
        (Command::DeleteKey { .. }, RangeFrame::Number { data, .. }) => {
            owned(*data, Reply::Deleted)?
        }
        (Command::Acquire { .. }, item) => acquired(item, bytes)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

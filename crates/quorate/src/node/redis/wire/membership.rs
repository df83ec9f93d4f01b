//! Encodes membership commands and decodes their replies.

use quorate_core::{
    command,
    membership::{
        AgreedConfig, Command, Enrolment, Handshake, Mark, Members, NodeId, NodeInfo, Quarantine,
        Reason, Reply, WIRE,
    },
};
use redis_protocol::resp3::types::RangeFrame;

use super::{queue::write_record, text, write_script, write_word};
use crate::node::redis::script::{Script, Scripts};

/// Appends one command.
pub(super) fn write(out: &mut Vec<u8>, command: &Command, scripts: &Scripts) {
    let mut words = Vec::new();
    match command {
        Command::Handshake(handshake) => push_handshake(&mut words, handshake),
        Command::Enrol(Enrolment { mark, id, config, wall_ms }) => {
            words.extend([mark.to_string(), id.to_string(), wall_ms.to_string()]);
            push_config(&mut words, config);
        }
        Command::Change { mark, config, fresh } => {
            words.extend([mark.to_string(), fresh.to_string(), String::new()]);
            push_config(&mut words, config);
        }
        Command::Admit { mark, fresh } => words.extend([mark.to_string(), fresh.to_string()]),
    }
    write_script(out, Script::of_membership(command), scripts, 1, words.len());
    write_record(out, scripts);
    words.iter().for_each(|word| write_word(out, word.as_bytes()));
}

fn push_handshake(words: &mut Vec<String>, handshake: &Handshake) {
    let Handshake {
        wall_ms,
        known,
        mark,
        id,
        lifetime_ms,
        quarantine_ms,
        is_read_only,
        is_durable,
    } = handshake;
    let known = known.map(|it| (it.seen_ms.to_string(), it.expected_ms.to_string()));
    let (seen, expected) = known.unwrap_or_default();
    words.extend([
        WIRE.to_string(),
        wall_ms.to_string(),
        seen,
        expected,
        mark.to_string(),
        id.to_string(),
        lifetime_ms.to_string(),
        quarantine_ms.to_string(),
        u8::from(*is_durable).to_string(),
        u8::from(*is_read_only).to_string(),
    ]);
}

fn push_config(words: &mut Vec<String>, config: &AgreedConfig) {
    let AgreedConfig { change, origin, members, before, newcomer, max_ttl_ms, quarantine_ms } =
        config;
    words.extend([
        change.to_string(),
        origin.to_string(),
        members.to_text(),
        before.as_ref().map(Members::to_text).unwrap_or_default(),
        newcomer.map(|id| id.to_string()).unwrap_or_default(),
        max_ttl_ms.to_string(),
        quarantine_ms.to_string(),
    ]);
}

/// Decodes the reply to a membership command.
pub(super) fn reply(frame: &RangeFrame, bytes: &[u8], command: &Command) -> Option<command::Reply> {
    Some(command::Reply::Membership(match (command, frame) {
        (Command::Enrol(_) | Command::Change { .. }, RangeFrame::Number { data: 0, .. })
        | (Command::Admit { .. }, RangeFrame::Number { data: -1, .. }) => {
            return Some(command::Reply::Stale);
        }
        (Command::Handshake(_), RangeFrame::Number { data, .. }) => {
            Reply::OtherVersion(u32::try_from(*data).ok()?)
        }
        (Command::Handshake(_), RangeFrame::Array { data, .. }) => {
            Reply::Info(Box::new(read_info(data, bytes)?))
        }
        (Command::Enrol(_), RangeFrame::Number { data: 1, .. }) => Reply::Enrolled,
        (Command::Change { .. }, RangeFrame::Array { data, .. }) => match &data[..] {
            [] => Reply::Changed,
            [left] => Reply::TooSoon { left_ms: number(left)? },
            _ => return None,
        },
        (Command::Admit { .. }, frame) => match number(frame)? {
            0 => Reply::Admitted,
            keys => Reply::Holds { keys },
        },
        _ => return None,
    }))
}

fn read_info(data: &[RangeFrame], bytes: &[u8]) -> Option<NodeInfo> {
    let [time, mark, id, reason, left, rest @ ..] = data else { return None };
    let [enrolled, durable, keys, changes_in, recovers_in, config @ ..] = rest else { return None };
    let word = |frame: &RangeFrame| str::from_utf8(text(frame, bytes)?).ok().map(str::to_owned);
    let quarantine =
        |code: &str| Some(Quarantine { reason: Reason::parse(code)?, left_ms: number(left)? });
    Some(NodeInfo {
        time_us: word(time)?.parse().ok()?,
        mark: Mark::parse(&word(mark)?)?,
        id: NodeId::parse(&word(id)?)?,
        config: match config {
            [] => None,
            config => Some(read_config(&config.iter().map(word).collect::<Option<Vec<_>>>()?)?),
        },
        is_enrolled: number(enrolled)? == 1,
        quarantine: unless_empty(&word(reason)?, quarantine)?,
        is_durable: number(durable)? == 1,
        keys: number(keys)?,
        changes_in_ms: number(changes_in)?,
        recovers_in_ms: number(recovers_in)?,
    })
}

fn read_config(words: &[String]) -> Option<AgreedConfig> {
    let [change, origin, members, before, newcomer, max_ttl, quarantine] = words else {
        return None;
    };
    Some(AgreedConfig {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: unless_empty(before, Members::parse)?,
        newcomer: unless_empty(newcomer, NodeId::parse)?,
        max_ttl_ms: max_ttl.parse().ok()?,
        quarantine_ms: quarantine.parse().ok()?,
    })
}

/// Parses a word that may be empty. The outer `None` means an invalid word.
#[expect(clippy::option_option, reason = "an empty word is valid and means none")]
fn unless_empty<T>(word: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if word.is_empty() { Some(None) } else { read(word).map(Some) }
}

fn number(frame: &RangeFrame) -> Option<u64> {
    match frame {
        RangeFrame::Number { data, .. } => u64::try_from(*data).ok(),
        _ => None,
    }
}

//! The commands of the restart guard as bytes, and bytes as their replies.

use quorate_core::{
    command::{Command, Reply},
    guard::{Doubt, Enrolment, Greeting, Known, Mark, Members, Met, NodeId, Pact, WIRE},
};
use redis_protocol::resp3::types::RangeFrame;

use super::{line::write_record, text, write_number, write_script, write_word};
use crate::node::redis::script::{Script, Scripts};

/// Appends one command of the guard. Returns false if it is none.
pub(super) fn write(out: &mut Vec<u8>, command: &Command, scripts: &Scripts) -> bool {
    match command {
        Command::Meet { greeting } => {
            write_script(out, Script::Meet, scripts, 1, 10);
            write_record(out, scripts);
            write_greeting(out, greeting);
        }
        Command::Enrol { enrolment: Enrolment { mark, id, pact, wall_ms } } => {
            write_script(out, Script::Enrol, scripts, 1, 10);
            write_record(out, scripts);
            write_word(out, mark.to_string().as_bytes());
            write_word(out, id.to_string().as_bytes());
            write_number(out, *wall_ms);
            write_pact(out, pact);
        }
        Command::Change { mark, pact, fresh } => {
            write_script(out, Script::Change, scripts, 1, 10);
            write_record(out, scripts);
            write_word(out, mark.to_string().as_bytes());
            write_word(out, fresh.to_string().as_bytes());
            write_word(out, b"");
            write_pact(out, pact);
        }
        Command::Admit { mark, fresh } => {
            write_script(out, Script::Admit, scripts, 1, 2);
            write_record(out, scripts);
            write_word(out, mark.to_string().as_bytes());
            write_word(out, fresh.to_string().as_bytes());
        }
        _ => return false,
    }
    true
}

fn write_greeting(out: &mut Vec<u8>, greeting: &Greeting) {
    let Greeting { wall_ms, known, mark, id, life_ms, guard_ms, is_looking, is_durable } = greeting;
    let number = |number: u64| number.to_string();
    let known = known.map(|Known { seen_ms, expected_ms }| (number(seen_ms), number(expected_ms)));
    let (seen, expected) = known.unwrap_or_default();
    let words = [
        number(WIRE.into()),
        number(*wall_ms),
        seen,
        expected,
        mark.to_string(),
        id.to_string(),
        number(*life_ms),
        number(*guard_ms),
        number((*is_durable).into()),
        number((*is_looking).into()),
    ];
    words.iter().for_each(|word| write_word(out, word.as_bytes()));
}

fn write_pact(out: &mut Vec<u8>, pact: &Pact) {
    let Pact { change, origin, members, before, newcomer, max_ttl_ms, guard_ms } = pact;
    let words = [
        change.to_string(),
        origin.to_string(),
        members.to_text(),
        before.as_ref().map(Members::to_text).unwrap_or_default(),
        newcomer.map(|id| id.to_string()).unwrap_or_default(),
        max_ttl_ms.to_string(),
        guard_ms.to_string(),
    ];
    words.iter().for_each(|word| write_word(out, word.as_bytes()));
}

/// What the frame answers to a command of the guard.
pub(super) fn reply(frame: &RangeFrame, bytes: &[u8], command: &Command) -> Option<Reply> {
    Some(match (command, frame) {
        (Command::Meet { .. }, RangeFrame::Number { data, .. }) => {
            Reply::OtherWire(u32::try_from(*data).ok()?)
        }
        (Command::Meet { .. }, RangeFrame::Array { data, .. }) => {
            Reply::Met(Box::new(met(data, bytes)?))
        }
        (Command::Enrol { .. } | Command::Change { .. }, RangeFrame::Number { data: 0, .. })
        | (Command::Admit { .. }, RangeFrame::Number { data: -1, .. }) => Reply::Stale,
        (Command::Enrol { .. }, RangeFrame::Number { data: 1, .. }) => Reply::Enrolled,
        (Command::Change { .. }, RangeFrame::Array { data, .. }) => match &data[..] {
            [] => Reply::Changed,
            [RangeFrame::Number { data, .. }] => {
                Reply::TooSoon { left_ms: u64::try_from(*data).ok()? }
            }
            _ => return None,
        },
        (Command::Admit { .. }, RangeFrame::Number { data: 0, .. }) => Reply::Admitted,
        (Command::Admit { .. }, RangeFrame::Number { data, .. }) => {
            Reply::Holds { keys: u64::try_from(*data).ok()? }
        }
        _ => return None,
    })
}

fn met(data: &[RangeFrame], bytes: &[u8]) -> Option<Met> {
    let [time, mark, id, doubt, left, rest @ ..] = data else { return None };
    let [enrolled, durable, keys, changes_in, recovers_in, pact @ ..] = rest else { return None };
    let words = |frame: &RangeFrame| str::from_utf8(text(frame, bytes)?).ok().map(str::to_owned);
    let number = |frame: &RangeFrame| match frame {
        RangeFrame::Number { data, .. } => u64::try_from(*data).ok(),
        _ => None,
    };
    let doubt = match words(doubt)?.as_str() {
        "" => None,
        code => Some((Doubt::parse(code)?, number(left)?)),
    };
    let pact = match pact {
        [] => None,
        pact => Some(read_pact(&pact.iter().map(words).collect::<Option<Vec<_>>>()?)?),
    };
    Some(Met {
        time_us: words(time)?.parse().ok()?,
        mark: Mark::parse(&words(mark)?)?,
        id: NodeId::parse(&words(id)?)?,
        pact,
        is_enrolled: number(enrolled)? == 1,
        doubt,
        is_durable: number(durable)? == 1,
        keys: number(keys)?,
        changes_in_ms: number(changes_in)?,
        recovers_in_ms: number(recovers_in)?,
    })
}

fn read_pact(words: &[String]) -> Option<Pact> {
    let [change, origin, members, before, newcomer, max_ttl, guard] = words else { return None };
    Some(Pact {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: match before.as_str() {
            "" => None,
            before => Some(Members::parse(before)?),
        },
        newcomer: match newcomer.as_str() {
            "" => None,
            newcomer => Some(NodeId::parse(newcomer)?),
        },
        max_ttl_ms: max_ttl.parse().ok()?,
        guard_ms: guard.parse().ok()?,
    })
}

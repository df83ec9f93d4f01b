//! The part of the servers' language that is about the restart guard.

use quorate_core::{
    command::{Command, Reply, Stay},
    guard::{Enrolment, Greeting, Known, Mark, Members, Met, NodeId, Pact},
};

use crate::{
    language::{Script, number, text},
    line::array,
};

/// The command that this call of a script is.
pub(crate) fn command(script: Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Command> {
    let args = args.iter().map(|word| str::from_utf8(word).ok()).collect::<Option<Vec<_>>>()?;
    match (script, keys, &args[..]) {
        (Script::Meet, [_], [_wire, words @ ..]) => {
            Some(Command::Meet { greeting: greeting(words)? })
        }
        (Script::Enrol, [_], [mark, id, wall, words @ ..]) => {
            let (mark, id) = (Mark::parse(mark)?, NodeId::parse(id)?);
            let (pact, wall_ms) = (pact(words)?, wall.parse().ok()?);
            Some(Command::Enrol { enrolment: Enrolment { mark, id, pact, wall_ms } })
        }
        (Script::Change, [_], [mark, fresh, _, words @ ..]) => {
            let (mark, fresh) = (Mark::parse(mark)?, Mark::parse(fresh)?);
            Some(Command::Change { mark, pact: pact(words)?, fresh })
        }
        (Script::Admit, [_], [mark, fresh]) => {
            Some(Command::Admit { mark: Mark::parse(mark)?, fresh: Mark::parse(fresh)? })
        }
        _ => None,
    }
}

fn greeting(words: &[&str]) -> Option<Greeting> {
    let [wall, seen, expected, mark, id, life, guard, durable, looking] = words else {
        return None;
    };
    let known = match (*seen, *expected) {
        ("", "") => None,
        (seen, expected) => {
            Some(Known { seen_ms: seen.parse().ok()?, expected_ms: expected.parse().ok()? })
        }
    };
    Some(Greeting {
        wall_ms: wall.parse().ok()?,
        known,
        mark: Mark::parse(mark)?,
        id: NodeId::parse(id)?,
        life_ms: life.parse().ok()?,
        guard_ms: guard.parse().ok()?,
        is_looking: *looking == "1",
        is_durable: *durable == "1",
    })
}

fn pact(words: &[&str]) -> Option<Pact> {
    let [change, origin, members, before, newcomer, max_ttl, guard] = words else { return None };
    Some(Pact {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: Members::parse(before),
        newcomer: NodeId::parse(newcomer),
        max_ttl_ms: max_ttl.parse().ok()?,
        guard_ms: guard.parse().ok()?,
    })
}

/// The terms of a session; without a mark the node is not guarded.
pub(crate) fn terms(args: &[Vec<u8>]) -> Option<Stay> {
    let [life, mark, slack, wall] = args else { return None };
    let mark = match str::from_utf8(mark).ok()? {
        "" => None,
        mark => Some(Mark::parse(mark)?),
    };
    let (life_ms, slack_us, wall_ms) = (number(life)?, number(slack)?, number(wall)?);
    Some(Stay { life_ms, mark, slack_us, wall_ms })
}

/// The reply as a server writes it; `None` if it is not about the guard.
pub(crate) fn encode(command: &Command, reply: &Reply) -> Option<String> {
    Some(match (command, reply) {
        (_, Reply::Met(met)) => encode_met(met),
        (_, Reply::Enrolled) => ":1\r\n".into(),
        (_, Reply::Changed) => "*0\r\n".into(),
        (_, Reply::TooSoon { left_ms }) => array(vec![format!(":{left_ms}\r\n")]),
        (_, Reply::Admitted) => ":0\r\n".into(),
        (_, Reply::Holds { keys }) => format!(":{keys}\r\n"),
        (_, Reply::Guarded) | (Command::Admit { .. }, Reply::Stale) => ":-1\r\n".into(),
        _ => return None,
    })
}

fn encode_met(met: &Met) -> String {
    let Met { time_us, mark, id, pact, is_enrolled, doubt, is_durable, keys, .. } = met;
    let Met { changes_in_ms, recovers_in_ms, .. } = met;
    let (why, left_ms) = doubt.map_or(("", 0), |(why, left_ms)| (why.code(), left_ms));
    let integer = |number: u64| format!(":{number}\r\n");
    let mut items = vec![
        text(&format!("{time_us:016}")),
        text(&mark.to_string()),
        text(&id.to_string()),
        text(why),
        integer(left_ms),
        integer((*is_enrolled).into()),
        integer((*is_durable).into()),
        integer(*keys),
        integer(*changes_in_ms),
        integer(*recovers_in_ms),
    ];
    if let Some(pact) = pact {
        let newcomer = pact.newcomer.map(|id| id.to_string()).unwrap_or_default();
        let before = pact.before.as_ref().map(Members::to_text).unwrap_or_default();
        items.extend([
            text(&pact.change.to_string()),
            text(&pact.origin.to_string()),
            text(&pact.members.to_text()),
            text(&before),
            text(&newcomer),
            text(&pact.max_ttl_ms.to_string()),
            text(&pact.guard_ms.to_string()),
        ]);
    }
    array(items)
}

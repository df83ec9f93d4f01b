//! The part of the servers' protocol that concerns membership and quarantine.

use quorate_core::{
    command::{Command, Reply, SessionTerms},
    membership::{
        AgreedConfig, Command as Membership, Enrolment, Handshake, Known, Mark, Members, NodeId,
        NodeInfo, Reply as MembershipReply,
    },
};

use crate::{
    language::{Script, number, text},
    queue::array,
};

/// The command that this call of a script is.
pub(crate) fn command(script: Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Command> {
    let args = args.iter().map(|word| str::from_utf8(word).ok()).collect::<Option<Vec<_>>>()?;
    match (script, keys, &args[..]) {
        (Script::Handshake, [_], [_wire, words @ ..]) => {
            Some(Command::Membership(Membership::Handshake(handshake(words)?)))
        }
        (Script::Enrol, [_], [mark, id, wall, words @ ..]) => {
            let (mark, id) = (Mark::parse(mark)?, NodeId::parse(id)?);
            let (config, wall_ms) = (config(words)?, wall.parse().ok()?);
            Some(Command::Membership(Membership::Enrol(Enrolment { mark, id, config, wall_ms })))
        }
        (Script::Change, [_], [mark, fresh, _, words @ ..]) => {
            let (mark, fresh) = (Mark::parse(mark)?, Mark::parse(fresh)?);
            Some(Command::Membership(Membership::Change { mark, config: config(words)?, fresh }))
        }
        (Script::Admit, [_], [mark, fresh]) => Some(Command::Membership(Membership::Admit {
            mark: Mark::parse(mark)?,
            fresh: Mark::parse(fresh)?,
        })),
        _ => None,
    }
}

fn handshake(words: &[&str]) -> Option<Handshake> {
    let [wall, seen, expected, mark, id, lifetime, quarantine, durable, looking] = words else {
        return None;
    };
    let known = match (*seen, *expected) {
        ("", "") => None,
        (seen, expected) => {
            Some(Known { seen_ms: seen.parse().ok()?, expected_ms: expected.parse().ok()? })
        }
    };
    Some(Handshake {
        wall_ms: wall.parse().ok()?,
        known,
        mark: Mark::parse(mark)?,
        id: NodeId::parse(id)?,
        lifetime_ms: lifetime.parse().ok()?,
        quarantine_ms: quarantine.parse().ok()?,
        is_read_only: *looking == "1",
        is_durable: *durable == "1",
    })
}

fn config(words: &[&str]) -> Option<AgreedConfig> {
    let [change, origin, members, before, newcomer, max_ttl, quarantine] = words else {
        return None;
    };
    Some(AgreedConfig {
        change: change.parse().ok()?,
        origin: NodeId::parse(origin)?,
        members: Members::parse(members)?,
        before: Members::parse(before),
        newcomer: NodeId::parse(newcomer),
        max_ttl_ms: max_ttl.parse().ok()?,
        quarantine_ms: quarantine.parse().ok()?,
    })
}

/// The terms of a session; without a mark the node does not use quarantine.
pub(crate) fn terms(args: &[Vec<u8>]) -> Option<SessionTerms> {
    let [lifetime, mark, slack, wall] = args else { return None };
    let mark = match str::from_utf8(mark).ok()? {
        "" => None,
        mark => Some(Mark::parse(mark)?),
    };
    let (lifetime_ms, slack_us, wall_ms) = (number(lifetime)?, number(slack)?, number(wall)?);
    Some(SessionTerms { lifetime_ms, mark, slack_us, wall_ms })
}

/// The reply as a server writes it; `None` if it does not concern quarantine.
pub(crate) fn encode(command: &Command, reply: &Reply) -> Option<String> {
    if matches!((command, reply), (Command::Membership(Membership::Admit { .. }), Reply::Stale)) {
        return Some(":-1\r\n".into());
    }
    let Reply::Membership(reply) = reply else {
        return (*reply == Reply::MembershipRequired).then(|| ":-1\r\n".into());
    };
    Some(match reply {
        MembershipReply::Info(info) => encode_info(info),
        MembershipReply::OtherVersion(version) => format!(":{version}\r\n"),
        MembershipReply::Enrolled => ":1\r\n".into(),
        MembershipReply::Changed => "*0\r\n".into(),
        MembershipReply::TooSoon { left_ms } => array(vec![format!(":{left_ms}\r\n")]),
        MembershipReply::Admitted => ":0\r\n".into(),
        MembershipReply::Holds { keys } => format!(":{keys}\r\n"),
    })
}

fn encode_info(info: &NodeInfo) -> String {
    let NodeInfo { time_us, mark, id, config, is_enrolled, quarantine, is_durable, keys, .. } =
        info;
    let NodeInfo { changes_in_ms, recovers_in_ms, .. } = info;
    let (why, left_ms) = quarantine.map_or(("", 0), |it| (it.reason.code(), it.left_ms));
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
    if let Some(config) = config {
        let newcomer = config.newcomer.map(|id| id.to_string()).unwrap_or_default();
        let before = config.before.as_ref().map(Members::to_text).unwrap_or_default();
        items.extend([
            text(&config.change.to_string()),
            text(&config.origin.to_string()),
            text(&config.members.to_text()),
            text(&before),
            text(&newcomer),
            text(&config.max_ttl_ms.to_string()),
            text(&config.quarantine_ms.to_string()),
        ]);
    }
    array(items)
}

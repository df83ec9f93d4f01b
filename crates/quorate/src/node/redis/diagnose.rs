//! Asks a server for facts about itself, on a connection of its own. It changes nothing there.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    handshake::{expect_login, write_login},
    link::LinkContext,
    replies::Replies,
    target::Target,
    transport,
    wire::write_words,
};
use crate::{
    diagnose::{ClockReading, RIGHTS, Right, ServerFacts, SlowCall},
    error::NodeError,
};

/// How much a server is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Extent {
    /// Only for its INFO.
    Info,
    All,
}

/// Asks one server. It takes a few seconds at most.
pub(crate) async fn diagnose(target: Target, around: LinkContext, extent: Extent) -> ServerFacts {
    let user = target.user.clone().unwrap_or_else(|| "default".to_owned());
    let mut facts = ServerFacts { node: target.label.clone(), user, ..ServerFacts::default() };
    let asked = timeout(PATIENCE, ask(&target, &around, extent, &mut facts)).await;
    facts.node_error = asked.unwrap_or(Err(NodeError::TimedOut)).err();
    facts
}

async fn ask(
    target: &Target,
    around: &LinkContext,
    extent: Extent,
    facts: &mut ServerFacts,
) -> Result<(), NodeError> {
    let mut stream = transport::open(target, around).await?;
    facts.certificate_ends = stream.certificate_ends;
    let mut replies = Replies::new(&mut stream, target);
    let mut login = Vec::new();
    write_login(&mut login, target, &around.client_name);
    write_words(&mut login, &[b"INFO", b"everything"]);
    replies.ask(&login).await?;
    expect_login(&mut replies).await?;
    facts.info = fields(&replies.expect_text().await?);
    if extent == Extent::Info {
        return Ok(());
    }
    let may_read_settings = run_script(&mut replies, around, facts).await?;
    if may_read_settings {
        read_settings(&mut replies, facts).await?;
    }
    read_clock(&mut replies, around, facts).await
}

/// Whether the user may read settings. A script that fails does not end the diagnosis.
async fn run_script(
    replies: &mut Replies<'_>,
    around: &LinkContext,
    facts: &mut ServerFacts,
) -> Result<bool, NodeError> {
    let record = format!("{}node", around.prefix);
    let calls: Vec<String> = RIGHTS.iter().map(|right| call(right, &around.prefix)).collect();
    let mut words: Vec<&[u8]> = vec![b"EVAL", SCRIPT, b"1", record.as_bytes()];
    words.extend(calls.iter().map(String::as_bytes));
    let mut out = Vec::new();
    write_words(&mut out, &words);
    write_words(&mut out, &[b"TIME"]);
    replies.ask(&out).await?;
    let reported = replies.expect_texts().await;
    let now_us = replies.expect_time().await?;
    match reported {
        Ok(lines) => Ok(note_lines(&lines, now_us / 1_000_000, facts)),
        Err(error @ (NodeError::ConnectionLost(_) | NodeError::Protocol(_))) => Err(error),
        Err(error) => {
            facts.script_error = Some(error.of_record(&around.prefix));
            Ok(false)
        }
    }
}

/// The words of a call, one per line.
fn call(right: &Right, prefix: &str) -> String {
    let words = right.call.split(' ').map(|word| match word {
        "{key}" => format!("{prefix}node"),
        "{channel}" => format!("{prefix}c:x"),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// Understands what the script reported. Returns whether the user may read settings.
fn note_lines(lines: &[String], now_s: u64, facts: &mut ServerFacts) -> bool {
    let mut may_read_settings = false;
    for line in lines {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "record" => {
                let (field, value) = rest.split_once(' ').unwrap_or((rest, ""));
                facts.record.insert(field.to_owned(), value.to_owned());
            }
            "keys" => facts.keys = rest.parse().ok(),
            "checked" => facts.missing_rights = Some(Vec::new()),
            "denied" => {
                let number = rest.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let right = number.and_then(|number| RIGHTS.get(number));
                facts.missing_rights.get_or_insert_default().extend(right);
            }
            "settings" => may_read_settings = true,
            "log" => facts.slow_calls = Some(Vec::new()),
            "slow" => facts.slow_calls.get_or_insert_default().extend(slow_call(rest, now_s)),
            _ => {}
        }
    }
    may_read_settings
}

fn slow_call(words: &str, now_s: u64) -> Option<SlowCall> {
    let mut words = words.splitn(3, ' ');
    let (at_s, took_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let age = Duration::from_secs(now_s.saturating_sub(at_s));
    Some(SlowCall::new(words.next()?, Duration::from_micros(took_us), age))
}

async fn read_settings(
    replies: &mut Replies<'_>,
    facts: &mut ServerFacts,
) -> Result<(), NodeError> {
    let mut out = Vec::new();
    for setting in SETTINGS {
        write_words(&mut out, &[b"CONFIG", b"GET", setting.as_bytes()]);
    }
    replies.ask(&out).await?;
    for setting in SETTINGS {
        if let Some(value) = replies.expect_setting().await? {
            facts.settings.insert((*setting).to_owned(), value);
        }
    }
    Ok(())
}

async fn read_clock(
    replies: &mut Replies<'_>,
    around: &LinkContext,
    facts: &mut ServerFacts,
) -> Result<(), NodeError> {
    let mut out = Vec::new();
    write_words(&mut out, &[b"TIME"]);
    let steady = || Duration::from_nanos(around.clock.now().as_nanos());
    for number in 0..READINGS {
        if number > 0 {
            sleep(BETWEEN_READINGS).await;
        }
        let (asked, wall_ms) = (steady(), around.clock.wall_ms());
        replies.ask(&out).await?;
        let server_us = replies.expect_time().await?;
        facts.clock.push(ClockReading { asked, answered: steady(), wall_ms, server_us });
    }
    Ok(())
}

/// The lines `name:value` of an INFO text, without characters that could control a terminal.
fn fields(info: &str) -> BTreeMap<String, String> {
    let printable = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (printable(name), printable(value))).collect()
}

const SCRIPT: &[u8] = include_bytes!("../../../lua/diagnose.lua");

/// What decides what a restart would lose.
const SETTINGS: &[&str] =
    &["appendfsync", "no-appendfsync-on-rewrite", "save", "stop-writes-on-bgsave-error"];

const READINGS: usize = 5;
const BETWEEN_READINGS: Duration = Duration::from_millis(200);

/// Longer than all readings of the clock.
const PATIENCE: Duration = Duration::from_millis(2_500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_the_script_is_understood() {
        let mut facts = ServerFacts::default();
        let lines = [
            "record seen 12",
            "record change ",
            "keys 2",
            "checked",
            "denied 3",
            "denied 0",
            "log",
        ];
        let more = ["slow 990 2500 KEYS", "slow x y z", "settings", "of another version"];
        let lines: Vec<String> = lines.iter().chain(&more).map(|it| (*it).to_owned()).collect();
        assert!(note_lines(&lines, 1_000, &mut facts));
        assert_eq!(facts.record["seen"], "12");
        assert_eq!((&*facts.record["change"], facts.keys), ("", Some(2)));
        assert_eq!(facts.missing_rights, Some(vec![&RIGHTS[2]]));
        let call = SlowCall::new("KEYS", Duration::from_micros(2_500), Duration::from_secs(10));
        assert_eq!(facts.slow_calls, Some(vec![call]));
        // An old server only reports the record.
        let mut old = ServerFacts::default();
        assert!(!note_lines(&lines[..2], 1_000, &mut old));
        assert_eq!((old.missing_rights, old.slow_calls), (None, None));
    }

    #[test]
    fn hostile_info_cannot_control_the_terminal() {
        let fields = fields("# Server\r\nrun_id:ab\r\nredis_version:7\x1b[2J\r\n:x:y\r\n");
        assert_eq!((&*fields["run_id"], &*fields["redis_version"]), ("ab", "7[2J"));
    }

    #[test]
    fn sample_calls_use_keys_and_channels_of_the_prefix() {
        for right in RIGHTS {
            let name = right.rule.trim_start_matches('+').replace('|', "\n");
            assert!(call(right, "q:").to_lowercase().starts_with(&name), "{right:?}");
        }
        let of = |rule| call(RIGHTS.iter().find(|it| it.rule == rule).unwrap(), "a b:");
        assert_eq!(of("+get"), "GET\na b:node");
        assert_eq!(of("+publish"), "PUBLISH\na b:c:x\nx");
    }
}

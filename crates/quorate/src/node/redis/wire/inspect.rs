//! Encodes read-only commands about locks and decodes their replies.

use quorate_core::{
    command::{Owner, Reply},
    inspect::{
        Cursor, GrantRecord, Inspected, LIST_SCAN_MAX, Listed, ShareInfo, WAITING_SHOWN_MAX,
    },
    name::Name,
};
use redis_protocol::resp3::types::RangeFrame;

use super::{
    observation,
    queue::{fence, number, write_lock},
    text, write_number, write_script, write_word,
};
use crate::node::redis::script::{Script, Scripts};

pub(super) fn write(out: &mut Vec<u8>, name: &Name, shown: u32, scripts: &Scripts) {
    write_script(out, Script::Inspect, scripts, 3, 1);
    write_lock(out, scripts, name);
    write_number(out, shown.min(WAITING_SHOWN_MAX).into());
}

pub(super) fn write_list(
    out: &mut Vec<u8>,
    prefix: &str,
    cursor: Option<&Cursor>,
    count: u32,
    scripts: &Scripts,
) {
    let ours = scripts.prefix();
    write_script(out, Script::List, scripts, 0, 4);
    write_word(out, ours.as_bytes());
    write_word(out, format!("{}[fq]:{{{}*}}", escaped(ours), escaped(prefix)).as_bytes());
    write_word(out, cursor.map_or("0", Cursor::as_str).as_bytes());
    write_number(out, count.clamp(1, LIST_SCAN_MAX).into());
}

/// A pattern that matches only this text.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

pub(super) fn inspected(items: &[RangeFrame], bytes: &[u8]) -> Option<Reply> {
    let [time, seen, stored, age, total, waiting, shares] = items else { return None };
    let RangeFrame::Array { data: seen, .. } = seen else { return None };
    let RangeFrame::Array { data: waiting, .. } = waiting else { return None };
    let remembered = match text(stored, bytes)? {
        b"" => None,
        _ => Some(GrantRecord { fence: fence(stored, bytes)?, age_ms: number(age)?? }),
    };
    let owner = |item: &RangeFrame| text(item, bytes).map(Owner::from_bytes);
    Some(Reply::Inspected(Box::new(Inspected {
        observation: observation(seen, bytes)?,
        fence: remembered,
        waiting: waiting.iter().map(owner).collect::<Option<_>>()?,
        waiting_total: number(total)??,
        time_us: fence(time, bytes)?.get(),
        shares: read_shares(shares, bytes)?,
    })))
}

/// The readers or entries that share a lock: owner, since when, and for how much longer.
fn read_shares(frame: &RangeFrame, bytes: &[u8]) -> Option<Box<[ShareInfo]>> {
    let RangeFrame::Array { data, .. } = frame else { return None };
    let read_share = |items: &[RangeFrame]| {
        let [owner, held, left] = items else { return None };
        let owner = Owner::from_bytes(text(owner, bytes)?);
        Some(ShareInfo { owner, held_ms: number(held)??, left_ms: number(left)?? })
    };
    data.chunks(3).map(read_share).collect()
}

/// Invalid lock names belong to other programs and are omitted.
pub(super) fn listed(items: &[RangeFrame], bytes: &[u8], prefix: &str) -> Option<Reply> {
    let [next, names] = items else { return None };
    let RangeFrame::Array { data: names, .. } = names else { return None };
    let next = str::from_utf8(text(next, bytes)?).ok()?;
    let texts = names.iter().map(|name| text(name, bytes)).collect::<Option<Vec<_>>>()?;
    let name = |text: &[u8]| {
        let text = str::from_utf8(text).ok().filter(|text| text.starts_with(prefix))?;
        Name::parse(text, "").ok()
    };
    let mut names: Vec<Name> = texts.into_iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    let next = (next != "0").then(|| Cursor::new(next));
    Some(Reply::Listed(Listed { names: names.into(), next }))
}

#[cfg(test)]
mod tests {
    use quorate_core::{
        command::{Command, KeyObservation, Value},
        fence::Fence,
    };

    use super::{
        super::{Frame, write_command},
        *,
    };
    use crate::error::NodeError;

    fn name(text: &str) -> Name {
        Name::parse(text, "").unwrap()
    }

    /// The words after the script's text, separated by bars.
    fn words(command: &Command) -> String {
        let mut out = Vec::new();
        write_command(&mut out, command, &Scripts::new("quo*:".into()));
        let out = String::from_utf8(out).unwrap();
        let words: Vec<&str> = out.split("\r\n").skip(2).step_by(2).collect();
        assert_eq!(words[0], "EVAL", "it goes as text");
        words[2..].join("|")
    }

    fn reply(bytes: &str, command: &Command) -> Result<Reply, NodeError> {
        let bytes = bytes.replace(' ', "\r\n") + "\r\n";
        let (frame, _) = Frame::decode(bytes.as_bytes())?.expect("complete");
        frame.reply(bytes.as_bytes(), command)
    }

    fn list(prefix: &str, cursor: Option<Cursor>) -> Command {
        Command::List { prefix: prefix.into(), cursor, count: 9_999 }
    }

    #[test]
    fn read_only_commands_are_encoded() {
        let inspect = Command::Inspect { name: name("a{b}"), shown: 200 };
        assert_eq!(words(&inspect), "3|a{b}|quo*:f:{a{b}}|quo*:q:{a{b}}|100");
        assert_eq!(words(&list("", None)), r"0|quo*:|quo\*:[fq]:{*}|0|500");
        let cursor = Some(Cursor::new("17"));
        assert_eq!(words(&list(r"[a]?\", cursor)), r"0|quo*:|quo\*:[fq]:{\[a\]\?\\*}|17|500");
    }

    #[test]
    fn inspect_replies_are_decoded() {
        let inspect = Command::Inspect { name: name("a"), shown: 2 };
        let nothing = Inspected {
            observation: None,
            fence: None,
            waiting: [].into(),
            waiting_total: 0,
            time_us: 7,
            shares: [].into(),
        };
        let head = "*7 $16 0000000000000007";
        let read = reply(&format!("{head} *0 $0  :0 :0 *0 *0"), &inspect);
        assert_eq!(read, Ok(Reply::Inspected(nothing.clone().into())));
        let read = reply(
            &format!("{head} *2 :30 $1 x $16 0000000000000005 :86 :3 *2 $1 y $1 z *3 $1 s :4 :5"),
            &inspect,
        );
        let value = Value::Text(b"x".as_slice().into());
        let all = Inspected {
            observation: Some(KeyObservation { value, expires_in_ms: Some(30) }),
            fence: Some(GrantRecord { fence: Fence::new(5), age_ms: 86 }),
            waiting: [Owner::from_bytes(b"y"), Owner::from_bytes(b"z")].into(),
            waiting_total: 3,
            shares: [ShareInfo { owner: Owner::from_bytes(b"s"), held_ms: 4, left_ms: 5 }].into(),
            ..nothing
        };
        assert_eq!(read, Ok(Reply::Inspected(all.into())));
        for odd in [
            format!("{head} *0 $0  :0 :0 :0 *0"),
            format!("{head} *0 $16 0000000000000005 :-1 :0 *0 *0"),
            format!("{head} *0 $1 x :0 :0 *0 *0"),
            format!("{head} *0 $0  :0 :-1 *0 *0"),
            format!("{head} *0 $0  :0 :0 *0 *2 $1 s :4"),
            format!("{head} *0 $0  :0 :0 *0 :0"),
            "*1 :0".into(),
            ":0".into(),
        ] {
            assert!(matches!(reply(&odd, &inspect), Err(NodeError::Protocol(_))), "{odd}");
        }
    }

    #[test]
    fn listed_names_are_sorted_and_invalid_ones_are_omitted() {
        let page = "*2 $1 0 *4 $2 ab $2 aa $2 ab $1 b";
        let names = ["aa", "ab"].map(name).into();
        let read = reply(page, &list("a", None));
        assert_eq!(read, Ok(Reply::Listed(Listed { names, next: None })));
        let read = reply("*2 $2 17 *1 $0 ", &list("", None));
        let next = Some(Cursor::new("17"));
        assert_eq!(read, Ok(Reply::Listed(Listed { names: [].into(), next })));
        assert!(matches!(reply("*2 :0 *0", &list("", None)), Err(NodeError::Protocol(_))));
    }
}

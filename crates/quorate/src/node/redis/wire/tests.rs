//! Encoded commands, decoded replies, and hostile replies.

use quorate_core::{
    command::{ClientId, KeyExtension, Owner},
    name::Name,
    queue::{Sender, Session},
};

use super::*;

fn set_key() -> Command {
    let owner = Owner::new(&ClientId::from_random([0; 20]), 3, "me");
    Command::SetKey { name: Name::parse("a b", "").unwrap(), owner, ttl_ms: 10_000, sender: None }
}

fn delete_key() -> Command {
    let owner = Owner::new(&ClientId::from_random([0; 20]), 3, "me");
    Command::DeleteKey { name: Name::parse("a", "").unwrap(), owner }
}

fn read_key() -> Command {
    Command::ReadKey { name: Name::parse("a", "").unwrap() }
}

fn reply(bytes: &[u8], command: &Command) -> Result<Reply, NodeError> {
    let (frame, len) = Frame::decode(bytes)?.expect("complete");
    assert_eq!(len, bytes.len());
    frame.reply(bytes, command)
}

#[test]
fn set_key_is_a_plain_set_nx_px() {
    let mut out = Vec::new();
    write_command(&mut out, &set_key(), &Scripts::new("quorate:".into()));
    let owner = format!("{}:3@me", "0".repeat(40));
    let expected = format!(
        "*6\r\n$3\r\nSET\r\n$3\r\na b\r\n${}\r\n{owner}\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n",
        owner.len()
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// With quarantine.
#[test]
fn classic_commands_append_the_session() {
    let client = ClientId::from_random([0xa5; 20]);
    let sender = Some(Sender { client, session: Session::from_random(7) });
    let Command::SetKey { name, owner, ttl_ms, .. } = set_key() else { unreachable!("it is one") };
    let entry = KeyExtension { name: name.clone(), owner: owner.clone(), ttl_ms };
    let extend = Command::ExtendKeys { entries: vec![entry; 2].into(), sender };
    let set = Command::SetKey { name, owner: owner.clone(), ttl_ms, sender };
    let key = format!("quorate:s:{}", "a5".repeat(20));
    let (owner, session) = (String::from_utf8(owner.as_bytes().into()).unwrap(), "0".repeat(31));
    let session = session + "7";
    for (command, script, rest) in [
        (&set, Script::SetKey, vec!["2", "a b", &key, &owner, "10000", &session]),
        (
            &extend,
            Script::ExtendKeys,
            vec!["3", "a b", "a b", &key, &owner, "10000", &owner, "10000", &session],
        ),
    ] {
        let mut scripts = Scripts::new("quorate:".into());
        scripts.set(script, "d1".into());
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        write_command(&mut out, command, &scripts);
        let words = ["EVALSHA", "d1"].into_iter().chain(rest).map(str::as_bytes);
        write_words(&mut expected, &words.collect::<Vec<_>>());
        assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(expected).unwrap());
        assert_eq!(reply(b":0\r\n", command), Ok(Reply::Stale));
    }
    assert_eq!(reply(b"+OK\r\n", &set), Ok(Reply::Stored));
    assert_eq!(reply(b"_\r\n", &set), Ok(Reply::NotOwner));
    let each = Reply::ExtendedKeys([ExtendedKey::Renewed, ExtendedKey::Absent].into());
    assert_eq!(reply(b"*2\r\n:1\r\n:0\r\n", &extend), Ok(each));
    let usual = Reply::ExtendedKeys([ExtendedKey::Renewed; 2].into());
    assert_eq!(reply(b":2\r\n", &extend), Ok(usual), "the number of keys");
    assert!(reply(b":1\r\n", &extend).is_err() && reply(b":3\r\n", &extend).is_err());
    assert!(reply(b":0\r\n", &set_key()).is_err(), "there is no such answer without a session");
}

#[test]
fn replies_are_decoded() {
    assert_eq!(reply(b"+OK\r\n", &set_key()), Ok(Reply::Stored));
    assert_eq!(reply(b"_\r\n", &set_key()), Ok(Reply::NotOwner));
    for (number, expected) in
        [(b"1", Reply::Deleted), (b"0", Reply::Absent)].map(|(n, r)| (n.as_slice(), r))
    {
        assert_eq!(reply(&[b":", number, b"\r\n"].concat(), &delete_key()), Ok(expected));
    }
    assert_eq!(reply(b":-1\r\n", &delete_key()), Ok(Reply::NotOwner));
    assert_eq!(reply(b"*0\r\n", &read_key()), Ok(Reply::Key(None)));
    let seen = |value, expires_in_ms| Ok(Reply::Key(Some(KeyObservation { value, expires_in_ms })));
    let text = Value::Text([0_u8, 255].into());
    assert_eq!(reply(b"*2\r\n:7\r\n$2\r\n\0\xff\r\n", &read_key()), seen(text, Some(7)));
    let hash = Value::OtherType("hash".into());
    assert_eq!(reply(b"*3\r\n:-1\r\n$0\r\n\r\n$4\r\nhash\r\n", &read_key()), seen(hash, None));
}

#[test]
fn error_or_unexpected_reply_is_never_a_refusal() {
    assert_eq!(reply(b"-OOM command not allowed\r\n", &set_key()), Err(NodeError::OutOfMemory));
    assert_eq!(reply(b"!7\r\nLOADING\r\n", &set_key()), Err(NodeError::Loading));
    for odd in [&b"+QUEUED\r\n"[..], b":1\r\n", b"*0\r\n", b"#f\r\n", b"$2\r\nOK\r\n"] {
        assert!(matches!(reply(odd, &set_key()), Err(NodeError::Protocol(_))), "{odd:?}");
    }
    assert!(matches!(reply(b":2\r\n", &delete_key()), Err(NodeError::Protocol(_))));
    assert!(matches!(reply(b"_\r\n", &delete_key()), Err(NodeError::Protocol(_))));
}

#[test]
fn incomplete_reply_is_not_decoded() {
    let whole = b"*2\r\n:7\r\n$2\r\nab\r\n";
    for len in 0..whole.len() {
        assert!(Frame::decode(&whole[..len]).expect("no error").is_none(), "{len}");
    }
}

#[test]
fn many_replies_in_one_read_are_not_nested() {
    let many = b"*2\r\n:7\r\n$2\r\nab\r\n".repeat(1_000);
    let (_, len) = Frame::decode(&many).expect("valid").expect("complete");
    assert_eq!(len, many.len() / 1_000);
    let stars = b"\r\n*1".repeat(500);
    let mut value = format!("*2\r\n:7\r\n${}\r\n", stars.len()).into_bytes();
    value.extend_from_slice(&stars);
    value.extend_from_slice(b"\r\n");
    assert!(Frame::decode(&value).expect("a value may hold anything").is_some());
}

#[test]
fn hostile_replies_are_errors() {
    let deep = b"*1\r\n".repeat(100_000);
    assert!(matches!(Frame::decode(&deep), Err(NodeError::Protocol(_))));
    let mut uneven = b"*2\r\n:1\r\n".repeat(20_000);
    uneven.extend_from_slice(b":1\r\n");
    assert!(matches!(Frame::decode(&uneven), Err(NodeError::Protocol(_))));
    let mut endless = b"$999999999\r\n".to_vec();
    endless.resize(FRAME_LEN_MAX, b'x');
    assert!(matches!(Frame::decode(&endless), Err(NodeError::Protocol(_))));
    assert!(matches!(Frame::decode(b"HTTP/1.1 400 Bad Request\r\n"), Err(NodeError::Protocol(_))));
    assert!(Frame::decode(b"*18446744073709551615\r\n").map_or(true, |frame| frame.is_none()));
}

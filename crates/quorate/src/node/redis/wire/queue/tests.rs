//! Encoded commands, decoded replies, and invalid replies.

use quorate_core::{
    command::Owner,
    queue::{PushKind, Session},
};

use super::{super::write_command, *};
use crate::error::NodeError;

const NOW: u64 = 1_800_000_000_000_000;

fn client() -> ClientId {
    ClientId::from_random([0xa5; 20])
}

fn sender() -> Sender {
    Sender { client: client(), session: Session::from_random(7) }
}

fn name() -> Name {
    Name::parse("a b", "").unwrap()
}

fn owner() -> Owner {
    Position { ticket: 42, ttl_ms: 300, client: client() }.owner(9)
}

fn acquire(owner: Owner) -> Command {
    let request = AcquireRequest { name: name(), owner, is_waiting: true, is_known: false };
    Command::Acquire { sender: sender(), request }
}

fn release(yields: Option<Fence>) -> Command {
    let yields = yields.map(|fence| Yield { fence, sender: sender() });
    Command::Release { name: name(), owner: owner(), yields }
}

fn extend() -> Command {
    let (name, owner, fence) = (name(), owner(), Fence::new(NOW));
    let entry = Extend { name, owner, fence, ttl_ms: 400, may_heal: true };
    Command::Extend { sender: sender(), entries: [entry].into() }
}

fn ping() -> Command {
    Command::Ping { sender: sender(), terms: SessionTerms::without_membership(500) }
}

fn attach() -> Command {
    Command::Attach { sender: sender(), terms: SessionTerms::without_membership(500) }
}

/// The words of a command behind the script's name, separated by bars.
fn words(command: &Command) -> String {
    let mut scripts = Scripts::new("quorate:".into());
    let all = Script::QUEUE.iter();
    all.for_each(|script| scripts.set(*script, format!("{script:?}")));
    let mut out = Vec::new();
    write_command(&mut out, command, &scripts);
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.split("\r\n").collect();
    let words: Vec<&str> = lines[1..].chunks_exact(2).map(|pair| pair[1]).collect();
    assert_eq!(lines[0], format!("*{}", words.len()));
    let client = client().to_string();
    words.join("|").replace(&client, "CLIENT").replace(&"0".repeat(31), "")
}

fn reply(bytes: &[u8], command: &Command) -> Result<Reply, NodeError> {
    let (frame, len) = Frame::decode(bytes)?.expect("complete");
    assert_eq!(len, bytes.len());
    frame.reply(bytes, command)
}

#[test]
fn queue_commands_are_encoded() {
    let lock = "a b|quorate:f:{a b}|quorate:q:{a b}";
    let who = "q1:0000000000000042:300:CLIENT:9";
    assert_eq!(
        words(&attach()),
        "EVALSHA|Attach|2|quorate:s:CLIENT|quorate:node|7|500||10000000|0"
    );
    assert_eq!(words(&ping()), "EVALSHA|Ping|2|quorate:s:CLIENT|quorate:node|7|500||10000000|0");
    assert_eq!(
        words(&acquire(owner())),
        format!("EVALSHA|Acquire|4|{lock}|quorate:s:CLIENT|{who}|7|0000000000000042|300|1|0")
    );
    assert_eq!(words(&release(None)), format!("EVALSHA|Release|3|{lock}|{who}"));
    let yielded = format!("{who}|0000000000000005|7|0000000000000042|300");
    assert_eq!(
        words(&release(Some(Fence::new(5)))),
        format!("EVALSHA|Release|4|{lock}|quorate:s:CLIENT|{yielded}")
    );
    assert_eq!(
        words(&extend()),
        format!("EVALSHA|Extend|4|quorate:s:CLIENT|{lock}|7|{who}|{NOW}|400|1")
    );
}

#[test]
fn owner_without_position_names_no_session() {
    let classic = acquire(Owner::from_bytes(b"classic"));
    assert!(words(&classic).contains("|classic||0000000000000000|0|"), "{}", words(&classic));
}

#[test]
fn queue_replies_are_decoded() {
    let fence = Fence::new(NOW);
    let text = format!("$16\r\n{NOW}\r\n");
    let is = |bytes: &str, command: &Command, expected: Reply| {
        assert_eq!(reply(bytes.as_bytes(), command), Ok(expected), "{bytes:?}");
    };
    is(&text, &attach(), Reply::Attached { time_us: NOW });
    is(&text, &ping(), Reply::Attached { time_us: NOW });
    for command in [ping(), acquire(owner()), extend()] {
        is(":0\r\n", &command, Reply::Stale);
    }
    is(&text, &acquire(owner()), Reply::Granted { fence, is_earlier: false });
    is(&format!("*1\r\n{text}"), &acquire(owner()), Reply::Granted { fence, is_earlier: true });
    let queued =
        |expires_in_ms, rank, is_foreign| Reply::Queued { fence, expires_in_ms, rank, is_foreign };
    let first = format!("*4\r\n{text}:7\r\n:0\r\n:0\r\n");
    is(&first, &acquire(owner()), queued(Some(7), Some(0), false));
    let foreign = format!("*4\r\n{text}:-1\r\n:-1\r\n:1\r\n");
    is(&foreign, &acquire(owner()), queued(None, None, true));
    is(":1\r\n", &release(None), Reply::Released { is_ours: true });
    is(":0\r\n", &release(None), Reply::Released { is_ours: false });
    let expected = [Extended::Renewed(fence), Extended::Refused(fence), Extended::Failed];
    let each = format!("*3\r\n{text}*1\r\n{text}:0\r\n");
    is(&each, &extend(), Reply::ExtendedLeases(expected.into()));
    let usual = [Extended::Renewed(Fence::new(NOW))];
    is(":1\r\n", &extend(), Reply::ExtendedLeases(usual.into()));
}

#[test]
fn invalid_replies_are_errors() {
    let odd = [":1\r\n", ":-2\r\n", "_\r\n", "*0\r\n", "$2\r\n+7\r\n", "*1\r\n:7\r\n"];
    let commands = [attach(), ping(), acquire(owner())];
    for bytes in odd {
        for command in &commands {
            assert!(reply(bytes.as_bytes(), command).is_err(), "{bytes:?} {command:?}");
        }
    }
    assert!(reply(b":2\r\n", &release(None)).is_err());
    assert!(reply(b"*1\r\n:7\r\n", &extend()).is_err());
    assert!(reply(b"*1\r\n*2\r\n:0\r\n:0\r\n", &extend()).is_err());
}

#[test]
fn push_with_unusual_owner_and_name_is_decoded() {
    let push = |channel: &str, text: &str| {
        let bytes = format!(
            ">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n",
            channel.len(),
            text.len()
        );
        let (frame, _) = Frame::decode(bytes.as_bytes()).unwrap().expect("complete");
        frame.push(bytes.as_bytes(), "quorate:")
    };
    let channel = format!("quorate:c:{}", client());
    let session = sender().session;
    let granted = format!("G {NOW} {session}");
    let inquired = format!("I {NOW}");
    for (head, kind, session) in
        [(granted, PushKind::Granted, Some(session)), (inquired, PushKind::Inquired, None)]
    {
        let read = push(&channel, &format!("{head} q1: \n x\na b")).expect("a push");
        let owner = Owner::from_bytes(b"q1: \n x");
        let (client, name, fence) = (client(), name(), Fence::new(NOW));
        assert_eq!(read, Push { client, name, owner, fence, kind, session });
    }
    for odd in [
        "G 7 owner\na",
        "I 7\na",
        "",
        "G 7 owner",
        "G owner\na",
        "X 7 owner\na",
        "G 7 owner\n",
        "G +7 owner\na",
    ] {
        assert_eq!(push(&channel, odd), None, "{odd:?}");
    }
    assert_eq!(push("quorate:c:x", "G 7 owner\na"), None);
}

//! What is sent for a batch, and what the replies mean.

use quorate_core::{
    command::{ClientId, ExtendedKey, KeyExtension, Owner},
    name::Name,
    queue::{Extend, Extended, Sender, Session},
};

use super::*;
use crate::node::redis::wire::write_command;

fn client() -> ClientId {
    ClientId::from_random([7; 20])
}

fn sender() -> Sender {
    Sender { client: client(), session: Session::from_random(7) }
}

fn name(number: u64) -> Name {
    Name::parse(&format!("lock {number}"), "").unwrap()
}

fn owner(number: u64, ttl_ms: u64) -> Owner {
    Position { ticket: 40 + number, ttl_ms, client: client() }.owner(number)
}

fn acquire(number: u64, ttl_ms: u64, is_waiting: bool, is_known: bool) -> Command {
    let (name, owner) = (name(number), owner(number, ttl_ms));
    let request = AcquireRequest { name, owner, is_waiting, is_known };
    Command::Acquire { sender: sender(), request }
}

fn acquires() -> [Command; 3] {
    [acquire(1, 300, true, false), acquire(2, 300, false, false), acquire(3, 300, true, true)]
}

fn releases() -> [Command; 2] {
    [1, 2].map(|it| Command::Release { name: name(it), owner: owner(it, 300), yields: None })
}

fn set_keys(ttls: [u64; 2]) -> [Command; 2] {
    [1, 2].map(|it| {
        let ttl_ms = ttls[usize::try_from(it).unwrap() - 1];
        let sender = Some(sender());
        Command::SetKey { name: name(it), owner: Owner::from_bytes(b"me"), ttl_ms, sender }
    })
}

fn delete_keys() -> [Command; 3] {
    [1, 2, 3].map(|it| Command::DeleteKey { name: name(it), owner: Owner::from_bytes(b"me") })
}

fn extends() -> [Command; 3] {
    [1, 2, 3].map(|it| {
        let (name, owner, fence) = (name(it), owner(it, 300), Fence::new(5));
        let entry = Extend { name, owner, fence, ttl_ms: 400, may_heal: false };
        Command::Extend { sender: sender(), entries: [entry].into() }
    })
}

fn extend_keys() -> [Command; 2] {
    [1, 2].map(|it| {
        let (name, owner) = (name(it), Owner::from_bytes(b"me"));
        let entries = [KeyExtension { name, owner, ttl_ms: 400 }].into();
        Command::ExtendKeys { entries, sender: Some(sender()) }
    })
}

/// The words of a batch, separated by bars.
fn words(entries: &[Command]) -> String {
    let mut scripts = Scripts::new("quorate:".into());
    let all = Script::QUEUE.iter().chain(Script::CLASSIC_MEMBERS);
    all.for_each(|script| scripts.set(*script, format!("{script:?}")));
    let mut out = Vec::new();
    write_command(&mut out, &Command::Batch(entries.into()), &scripts);
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.split("\r\n").collect();
    let words: Vec<&str> = lines[1..].chunks_exact(2).map(|pair| pair[1]).collect();
    assert_eq!(lines[0], format!("*{}", words.len()));
    let client = client().to_string();
    words.join("|").replace(&client, "CLIENT").replace(&"0".repeat(31), "")
}

#[test]
fn batch_is_one_script_call() {
    let who = |number: u64, ttl: u64| format!("q1:000000000000004{number}:{ttl}:CLIENT:{number}");
    let [one, two, three] = [1, 2, 3].map(|it| who(it, 300));
    assert_eq!(
        words(&acquires()),
        format!(
            "EVALSHA|AcquireMany|4|quorate:s:CLIENT|lock 1|lock 2|lock 3|7|300|103|{one}|{two}|\
             {three}"
        )
    );
    let mixed = [acquire(1, 300, true, false), acquire(2, 400, true, false)];
    assert_eq!(
        words(&mixed),
        format!("EVALSHA|AcquireMany|3|quorate:s:CLIENT|lock 1|lock 2|7||11|{one}|{}", who(2, 400))
    );
    assert_eq!(
        words(&releases()),
        format!("EVALSHA|ReleaseMany|2|lock 1|lock 2|quorate:|{one}|{two}")
    );
    assert_eq!(
        words(&set_keys([300, 300])),
        "EVALSHA|SetKeys|3|quorate:s:CLIENT|lock 1|lock 2|7|300|me|me"
    );
    assert_eq!(
        words(&set_keys([300, 400])),
        "EVALSHA|SetKeys|3|quorate:s:CLIENT|lock 1|lock 2|7||me|me|300|400"
    );
    assert_eq!(words(&delete_keys()), "EVALSHA|DeleteKeys|3|lock 1|lock 2|lock 3|me|me|me");
    assert_eq!(
        words(&extend_keys()),
        "EVALSHA|ExtendKeys|3|lock 1|lock 2|quorate:s:CLIENT|me|400|me|400|7"
    );
    assert!(words(&extends()).starts_with("EVALSHA|Extend|10|quorate:s:CLIENT|lock 1|"));
}

/// Such an owner is never created. If one came here, no entry could be granted.
#[test]
fn acquire_without_a_position_names_no_session() {
    let mut entries = acquires();
    if let Command::Acquire { request, .. } = &mut entries[1] {
        request.owner = Owner::from_bytes(b"me");
    }
    let words = words(&entries);
    assert!(words.starts_with("EVALSHA|AcquireMany|4|quorate:s:CLIENT|lock 1|lock 2|lock 3|||1"));
}

fn answers(bytes: &str, entries: &[Command]) -> Result<Answers, NodeError> {
    let (frame, len) = Frame::decode(bytes.as_bytes())?.expect("complete");
    assert_eq!(len, bytes.len());
    frame.answers(bytes.as_bytes(), entries)
}

/// The replies, and the errors in the order of the entries without a reply.
fn is(bytes: &str, entries: &[Command], replies: &[Option<Reply>], errors: &[NodeError]) {
    let found = answers(bytes, entries).unwrap();
    assert_eq!((&*found.replies, &found.errors[..]), (replies, errors), "{bytes:?}");
}

#[test]
fn number_means_that_all_entries_went_as_usual() {
    let granted = |fence| Some(Reply::Granted { fence: Fence::new(fence), is_earlier: false });
    is(":3\r\n", &acquires(), &[granted(41), granted(42), granted(43)], &[]);
    let released = || Some(Reply::Released { is_ours: true });
    is(":2\r\n", &releases(), &[released(), released()], &[]);
    is(":2\r\n", &set_keys([1, 1]), &[Some(Reply::Stored), Some(Reply::Stored)], &[]);
    is(":3\r\n", &delete_keys(), &[const { Some(Reply::Deleted) }; 3], &[]);
    let extended = || Some(Reply::ExtendedLeases([Extended::Renewed(Fence::new(5))].into()));
    is(":3\r\n", &extends(), &[extended(), extended(), extended()], &[]);
    let extended = || Some(Reply::ExtendedKeys([ExtendedKey::Renewed].into()));
    is(":2\r\n", &extend_keys(), &[extended(), extended()], &[]);
    for stale in [&acquires()[..], &set_keys([1, 1]), &extends(), &extend_keys()] {
        assert_eq!(answers(":0\r\n", stale).unwrap_err(), NodeError::SessionLost);
    }
}

#[test]
fn each_entry_has_its_own_reply_or_error() {
    let (fence, digits) = (Fence::new(7), "$16\r\n0000000000000007\r\n");
    let granted = |fence, is_earlier| Some(Reply::Granted { fence, is_earlier });
    let denied = || NodeError::NoPermission("NOPERM no".into());
    is(
        &format!("*3\r\n:1\r\n-NOPERM no\r\n*1\r\n{digits}"),
        &acquires(),
        &[granted(Fence::new(41), false), None, granted(fence, true)],
        &[denied()],
    );
    let (expires_in_ms, rank, is_foreign) = (None, Some(0), true);
    let queued = Reply::Queued { fence, expires_in_ms, rank, is_foreign };
    is(
        &format!("*3\r\n{digits}-OOM full\r\n*4\r\n{digits}:-1\r\n:0\r\n:1\r\n"),
        &acquires(),
        &[granted(fence, false), None, Some(queued)],
        &[NodeError::OutOfMemory],
    );
    let not_ours = Some(Reply::Released { is_ours: false });
    is("*2\r\n-NOPERM no\r\n:0\r\n", &releases(), &[None, not_ours], &[denied()]);
    let replies = [Some(Reply::NotOwner), Some(Reply::Stored)];
    is("*2\r\n:0\r\n:1\r\n", &set_keys([1, 2]), &replies, &[]);
    let replies = [Some(Reply::Absent), Some(Reply::NotOwner), Some(Reply::Deleted)];
    is("*3\r\n:0\r\n:-1\r\n:1\r\n", &delete_keys(), &replies, &[]);
    let of_lease = |it| Some(Reply::ExtendedLeases([it].into()));
    is(
        &format!("*3\r\n{digits}*1\r\n{digits}:0\r\n"),
        &extends(),
        &[Extended::Renewed(fence), Extended::Refused(fence), Extended::Failed].map(of_lease),
        &[],
    );
    let of_key = |it| Some(Reply::ExtendedKeys([it].into()));
    let replies = [ExtendedKey::NotOwner, ExtendedKey::Failed].map(of_key);
    is("*2\r\n:-1\r\n:-2\r\n", &extend_keys(), &replies, &[]);
}

#[test]
fn invalid_replies_to_a_batch_are_errors() {
    let batches: [&[Command]; 6] =
        [&acquires(), &releases(), &set_keys([1, 1]), &delete_keys(), &extends(), &extend_keys()];
    for entries in batches {
        for odd in ["+OK\r\n", "_\r\n", ":4\r\n", ":-3\r\n", "*1\r\n:1\r\n", "*0\r\n"] {
            let error = answers(odd, entries).unwrap_err();
            assert!(matches!(error, NodeError::Protocol(_)), "{odd:?} {entries:?}");
        }
        let odd = format!("*{}\r\n{}", entries.len(), ":9\r\n".repeat(entries.len()));
        assert!(answers(&odd, entries).is_err(), "{odd:?} {entries:?}");
    }
    for number in [":0\r\n", ":1\r\n"] {
        assert!(answers(number, &releases()).is_err());
        assert!(answers(number, &delete_keys()).is_err());
    }
    assert!(answers(":2\r\n", &extends()).is_err());
    assert!(answers(":3\r\n", &extend_keys()).is_err());
    let whole = answers("-NOAUTH no\r\n", &releases()).unwrap_err();
    assert_eq!(whole, NodeError::Auth("NOAUTH no".into()));
}

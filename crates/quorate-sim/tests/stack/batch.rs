//! The part of the servers' protocol that concerns batches.

use quorate_core::{
    command::{Command, Owner, Reply},
    queue::{AcquireRequest, Position},
};

use crate::{
    language::{Script, extended_key, name, number},
    queue::{array, asked, extended, sender},
};

/// The batch that this call of a script is. A call of a script that also has batches of extensions
/// is one command with several entries instead.
pub(crate) fn command(script: Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Option<Command> {
    let entries = match (script, keys, args) {
        (Script::AcquireMany, [key, locks @ ..], [session, _, flags, owners @ ..]) => {
            let sender = sender(key, session)?;
            let one = |((lock, owner), flags): ((&Vec<u8>, &Vec<u8>), &u8)| {
                let (name, owner) = (name(lock)?, Owner::from_bytes(owner));
                let (is_waiting, is_known) = (flags % 2 == 1, *flags >= b'2');
                let request = AcquireRequest { name, owner, is_waiting, is_known };
                Some(Command::Acquire { sender, request })
            };
            locks.iter().zip(owners).zip(flags).map(one).collect::<Option<_>>()?
        }
        (Script::ReleaseMany, locks, [_, owners @ ..]) => {
            let one = |(lock, owner): (&Vec<u8>, &Vec<u8>)| {
                let (name, owner) = (name(lock)?, Owner::from_bytes(owner));
                Some(Command::Release { name, owner, yields: None })
            };
            locks.iter().zip(owners).map(one).collect::<Option<_>>()?
        }
        (Script::SetKeys, [key, locks @ ..], [session, common, rest @ ..]) => {
            let sender = Some(sender(key, session)?);
            let (owners, ttls) = rest.split_at_checked(locks.len())?;
            let one = |(at, lock): (usize, &Vec<u8>)| {
                let (name, owner) = (name(lock)?, Owner::from_bytes(&owners[at]));
                let ttl_ms = number(ttls.get(at).unwrap_or(common))?;
                Some(Command::SetKey { name, owner, ttl_ms, sender })
            };
            locks.iter().enumerate().map(one).collect::<Option<_>>()?
        }
        (Script::DeleteKeys, locks, owners) => {
            let one = |(lock, owner): (&Vec<u8>, &Vec<u8>)| {
                Some(Command::DeleteKey { name: name(lock)?, owner: Owner::from_bytes(owner) })
            };
            locks.iter().zip(owners).map(one).collect::<Option<_>>()?
        }
        _ => return None,
    };
    Some(Command::Batch(entries))
}

/// The reply as a server writes it.
pub(crate) fn encode(entries: &[Command], each: &[Option<Reply>]) -> String {
    let all = || entries.iter().zip(each);
    if each.contains(&Some(Reply::Stale)) {
        return ":0\r\n".into();
    }
    if all().all(|(entry, reply)| reply.as_ref().is_some_and(|reply| is_usual(entry, reply))) {
        return format!(":{}\r\n", entries.len());
    }
    array(all().map(|(entry, reply)| item(entry, reply.as_ref())).collect())
}

fn is_usual(entry: &Command, reply: &Reply) -> bool {
    match (entry, reply) {
        (Command::Acquire { request, .. }, Reply::Granted { fence, is_earlier: false }) => {
            let position = Position::of(request.owner.as_bytes());
            position.is_some_and(|position| position.ticket == fence.get())
        }
        (_, Reply::Stored | Reply::Deleted | Reply::Released { is_ours: true }) => true,
        _ => false,
    }
}

fn item(entry: &Command, reply: Option<&Reply>) -> String {
    match (entry, reply) {
        (_, None) => "-ERR it failed\r\n".into(),
        (_, Some(Reply::Full)) => {
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n".into()
        }
        (entry, Some(reply)) if is_usual(entry, reply) => ":1\r\n".into(),
        (Command::DeleteKey { .. }, Some(Reply::NotOwner)) => ":-1\r\n".into(),
        (_, Some(Reply::NotOwner | Reply::Absent | Reply::Released { .. })) => ":0\r\n".into(),
        (_, Some(Reply::ExtendedLeases(fates))) => extended(fates[0]),
        (_, Some(Reply::ExtendedKeys(fates))) => extended_key(fates[0]),
        (_, Some(reply)) => asked(reply),
    }
}

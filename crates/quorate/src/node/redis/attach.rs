//! The first words on every new connection: who are you, and may we vote there?

use std::sync::{Mutex, PoisonError};

use quorate_core::{
    command::{Command, Reply},
    line::{Session, Speaker},
    moment::Moment,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    link::Surroundings,
    script::{Script, Scripts},
    target::{Place, Secret, Target},
    transport::{Stream, lost},
    wire::{Frame, channel, write_command, write_words},
};
use crate::{engine::Mode, error::Trouble};

/// Logs in, looks at the server and leaves the scripts there. Those who wait in line then begin to
/// listen, and a session: in a second round trip, since a server that is there under another name
/// already has a session of ours, which must not be ended.
pub(crate) async fn attach(
    stream: &mut Stream,
    target: &Target,
    around: &Surroundings,
    (number, session): (usize, Session),
) -> Result<Attached, Trouble> {
    let mut replies = Replies { stream, target, bytes: Vec::new(), used: 0 };
    let mut asked_at = around.clock.now();
    replies.ask(&greeting(target, around)).await?;

    if let Err(trouble) = replies.fill().await {
        return Err(unheard_greeting(trouble, replies.bytes.first().copied(), target));
    }
    let (frame, bytes) = replies.next().await?;
    if let Some(error) = frame.error(bytes) {
        return Err(refused_greeting(&blotted(&error, target)));
    }
    if target.database != 0 {
        replies.expect_text().await?;
    }
    let server = replies.expect_text().await?;
    let replication = replies.expect_text().await?;
    if field(&replication, "role") != Some("master") {
        return Err(Trouble::ReadOnly);
    }
    let run_id = field(&server, "run_id")
        .filter(|run_id| !run_id.is_empty())
        .ok_or_else(|| Trouble::Unsupported("the server has no run_id".into()))?
        .to_owned();
    let mut scripts = Scripts::new(around.prefix.clone());
    if around.mode == Mode::Line {
        check_version(&server)?;
    }
    for script in Script::of_mode(around.mode) {
        scripts.set(*script, replies.expect_text().await?);
    }
    around.identities.claim(number, &run_id, &target.label)?;
    let mut time_us = None;
    if around.mode == Mode::Line {
        asked_at = around.clock.now();
        time_us = Some(open_session(&mut replies, around, session).await?);
    }
    let rest = replies.bytes.split_off(replies.used);
    Ok(Attached { scripts, asked_at, time_us, rest })
}

/// Begins to listen, and then a session, so that one always has somebody who listens. Returns the
/// server's time.
async fn open_session(
    replies: &mut Replies<'_>,
    around: &Surroundings,
    session: Session,
) -> Result<u64, Trouble> {
    let speaker = Speaker { client: around.client, session };
    let (introduction, opening) =
        (around.introduction(), Command::Attach { speaker, life_ms: SESSION_LIFE_MS });
    let mut out = Vec::new();
    let channel = channel(&around.prefix, &around.client);
    write_words(&mut out, &[b"SUBSCRIBE", channel.as_bytes()]);
    let scripts = Scripts::new(around.prefix.clone());
    write_command(&mut out, &introduction, &scripts);
    write_command(&mut out, &opening, &scripts);
    replies.ask(&out).await?;
    replies.expect_subscribed().await?;
    replies.expect_reply(&introduction).await?;
    match replies.expect_reply(&opening).await? {
        Reply::Attached { time_us } => Ok(time_us),
        _ => Err(Trouble::Protocol("a session was expected while attaching".into())),
    }
}

fn check_version(server: &str) -> Result<(), Trouble> {
    let version = field(server, "redis_version").unwrap_or_default();
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) < (6, 2) => Err(Trouble::Unsupported(
            format!("Redis {version} cannot carry the line: 6.2 is needed, or classic mode"),
        )),
        _ => Ok(()),
    }
}

/// How long a session lasts that is not heard of. It must be well below the ten seconds by which a
/// ticket may be ahead of it.
pub(crate) const SESSION_LIFE_MS: u64 = 5_000;

/// What was learned at the attach.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) scripts: Scripts,
    /// When the last round trip began.
    pub(crate) asked_at: Moment,
    /// The server's time when the session began.
    pub(crate) time_us: Option<u64>,
    /// What it sent after its answers.
    pub(crate) rest: Vec<u8>,
}

/// The servers behind the nodes of one client, to notice when two of them are the same.
#[derive(Debug)]
pub(crate) struct Identities {
    /// By node: the run it was last attached to, and its label.
    known: Mutex<Vec<Option<(String, String)>>>,
}

impl Identities {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { known: Mutex::new(vec![None; nodes]) }
    }

    /// The node is not attached any more; another may be that server now.
    pub(crate) fn release(&self, node: usize) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)[node] = None;
    }

    /// Notes that `node` is this run of a server, unless another node is.
    pub(crate) fn claim(&self, node: usize, run_id: &str, label: &str) -> Result<(), Trouble> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let other = known.iter().enumerate().find_map(|(number, known)| match known {
            Some((other, label)) if number != node && other == run_id => Some(label.clone()),
            Some(_) | None => None,
        });
        match other {
            Some(label) => Err(Trouble::SameServer(label)),
            None => {
                known[node] = Some((run_id.to_owned(), label.to_owned()));
                Ok(())
            }
        }
    }
}

/// A server's text without the password: some peers echo what they were sent. This comes before
/// the text is cut, or a part of the password could be left.
fn blotted(text: &str, target: &Target) -> String {
    match target.password.as_ref().map(Secret::expose) {
        Some(password) if !password.is_empty() => text.replace(password, "***"),
        Some(_) | None => text.to_owned(),
    }
}

/// The whole greeting in one piece.
fn greeting(target: &Target, around: &Surroundings) -> Vec<u8> {
    let mut out = Vec::new();
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(password) = &target.password {
        let user = target.user.as_deref().unwrap_or("default");
        hello.extend([b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
    }
    hello.extend([&b"SETNAME"[..], around.client_name.as_bytes()]);
    write_words(&mut out, &hello);
    if target.database != 0 {
        write_words(&mut out, &[b"SELECT", target.database.to_string().as_bytes()]);
    }
    write_words(&mut out, &[b"INFO", b"server"]);
    write_words(&mut out, &[b"INFO", b"replication"]);
    for script in Script::of_mode(around.mode) {
        write_words(&mut out, &[b"SCRIPT", b"LOAD", script.text().as_bytes()]);
    }
    out
}

fn refused_greeting(error: &str) -> Trouble {
    if error.contains("unknown command") {
        return Trouble::Unsupported("the server does not know HELLO: Redis 6.0 is needed".into());
    }
    Trouble::from_reply(error)
}

/// A server that expects TLS answers a plain greeting with an alert, or not at all.
fn unheard_greeting(trouble: Trouble, first: Option<u8>, target: &Target) -> Trouble {
    match trouble {
        _ if target.is_tls || matches!(target.place, Place::Unix(_)) => trouble,
        Trouble::Protocol(_) if first == Some(TLS_ALERT) => {
            Trouble::Tls("the server speaks TLS there; write rediss://".into())
        }
        Trouble::ConnectionLost(reason) => Trouble::ConnectionLost(format!(
            "{reason}, before its first reply; if it speaks TLS there, write rediss://"
        )),
        other => other,
    }
}

/// The value of a line `name:value` of an INFO text.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Reads replies one by one.
struct Replies<'a> {
    stream: &'a mut Stream,
    target: &'a Target,
    bytes: Vec<u8>,
    used: usize,
}

impl Replies<'_> {
    async fn ask(&mut self, request: &[u8]) -> Result<(), Trouble> {
        self.stream.writer.write_all(request).await.map_err(|error| lost(&error))
    }

    /// Reads until there is a whole reply.
    async fn fill(&mut self) -> Result<(Frame, usize), Trouble> {
        loop {
            if let Some(found) = Frame::decode(&self.bytes[self.used..])? {
                return Ok(found);
            }
            let read = self.stream.reader.read_buf(&mut self.bytes).await;
            if read.map_err(|error| lost(&error))? == 0 {
                return Err(Trouble::ConnectionLost("closed while attaching".into()));
            }
        }
    }

    /// The next reply, with the bytes that it points into.
    async fn next(&mut self) -> Result<(Frame, &[u8]), Trouble> {
        loop {
            let (frame, len) = self.fill().await?;
            let start = self.used;
            self.used += len;
            if !frame.is_push() {
                return Ok((frame, &self.bytes[start..self.used]));
            }
        }
    }

    /// The answer to a subscription, which is a push, or an error.
    async fn expect_subscribed(&mut self) -> Result<(), Trouble> {
        let (frame, len) = self.fill().await?;
        let bytes = &self.bytes[self.used..self.used + len];
        self.used += len;
        match frame.error(bytes) {
            Some(error) => Err(Trouble::from_reply(&blotted(&error, self.target))),
            None if frame.is_push() => Ok(()),
            None => Err(Trouble::Protocol("a subscription was expected while attaching".into())),
        }
    }

    async fn expect_reply(&mut self, command: &Command) -> Result<Reply, Trouble> {
        let (frame, bytes) = self.next().await?;
        frame.reply(bytes, command)
    }

    async fn expect_text(&mut self) -> Result<String, Trouble> {
        let target = self.target;
        let (frame, bytes) = self.next().await?;
        if let Some(error) = frame.error(bytes) {
            return Err(Trouble::from_reply(&blotted(&error, target)));
        }
        match frame.text(bytes) {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None => Err(Trouble::Protocol("a text was expected while attaching".into())),
        }
    }
}

/// The first byte of what a server with TLS says to a greeting that is none.
const TLS_ALERT: u8 = 0x15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_of_a_server_is_claimed_by_one_node_only() {
        let identities = Identities::new(3);
        assert_eq!(identities.claim(0, "aa", "a"), Ok(()));
        assert_eq!(identities.claim(1, "bb", "b"), Ok(()));
        assert_eq!(identities.claim(2, "aa", "c"), Err(Trouble::SameServer("a".into())));
        assert_eq!(identities.claim(0, "aa", "a"), Ok(()), "a reconnect");
        assert_eq!(identities.claim(0, "cc", "a"), Ok(()), "a restart");
        assert_eq!(identities.claim(2, "aa", "c"), Ok(()));
    }

    #[test]
    fn a_server_that_cannot_carry_the_line_is_refused_with_what_to_do() {
        let check = |version: &str| check_version(&format!("redis_version:{version}\r\n"));
        for fit in ["6.2.0", "6.2.14", "7.0.15", "7.2.4", "8.6.3", "255.255.255", "unknown"] {
            assert_eq!(check(fit), Ok(()), "{fit}");
        }
        assert_eq!(check_version(""), Ok(()), "a server that does not say is tried");
        for old in ["5.0.14", "6.0.16"] {
            let refused = check(old).unwrap_err().to_string();
            assert!(refused.contains(old) && refused.contains("classic mode"), "{refused}");
        }
    }

    #[test]
    fn fields_of_info_are_found_by_their_whole_name() {
        let info = "# Server\r\nxrun_id:no\r\nrun_id:abc\r\nrole:master\r\n";
        assert_eq!(field(info, "run_id"), Some("abc"));
        assert_eq!(field(info, "role"), Some("master"));
        assert_eq!(field(info, "run"), None);
    }
}

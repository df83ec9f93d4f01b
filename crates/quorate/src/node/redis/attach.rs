//! The first words on every new connection: who are you, and may we vote there?

use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    script::{Script, Scripts},
    target::{Place, Secret, Target},
    transport::{Stream, lost},
    wire::{Frame, write_words},
};
use crate::error::Trouble;

/// Logs in, looks at the server and leaves the scripts there. One round trip.
pub(crate) async fn attach(
    stream: &mut Stream,
    target: &Target,
    client_name: &str,
) -> Result<Attached, Trouble> {
    let request = greeting(target, client_name);
    stream.writer.write_all(&request).await.map_err(|error| lost(&error))?;
    let mut replies = Replies { stream, target, bytes: Vec::new(), used: 0 };

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
    let mut scripts = Scripts::default();
    for script in Script::CLASSIC {
        scripts.set(script, replies.expect_text().await?);
    }
    Ok(Attached { run_id, scripts })
}

/// What was learned at the attach.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The server's own name for this run of it.
    pub(crate) run_id: String,
    pub(crate) scripts: Scripts,
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
fn greeting(target: &Target, client_name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(password) = &target.password {
        let user = target.user.as_deref().unwrap_or("default");
        hello.extend([b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
    }
    hello.extend([&b"SETNAME"[..], client_name.as_bytes()]);
    write_words(&mut out, &hello);
    if target.database != 0 {
        write_words(&mut out, &[b"SELECT", target.database.to_string().as_bytes()]);
    }
    write_words(&mut out, &[b"INFO", b"server"]);
    write_words(&mut out, &[b"INFO", b"replication"]);
    for script in Script::CLASSIC {
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
    fn fields_of_info_are_found_by_their_whole_name() {
        let info = "# Server\r\nxrun_id:no\r\nrun_id:abc\r\nrole:master\r\n";
        assert_eq!(field(info, "run_id"), Some("abc"));
        assert_eq!(field(info, "role"), Some("master"));
        assert_eq!(field(info, "run"), None);
    }
}

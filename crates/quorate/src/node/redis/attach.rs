//! The handshakes of a new connection, before its first vote.

use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::{
    command::{Command, Reply},
    membership,
    moment::Moment,
    queue::{Sender, Session},
};

use super::{
    handshake::{Server, handshake, membership_is_off},
    link::{Link, LinkContext},
    replies::Replies,
    script::{Scripts, write_loads},
    transport::Stream,
    wire::{channel, write_command, write_words},
};
use crate::{
    error::NodeError,
    membership::{Connection, VotingTerms},
};

/// Logs in, checks the server, runs the membership handshake, and begins a session. These are
/// separate round trips: a server that is already a node under another name has a session of this
/// client, which must not end.
pub(crate) async fn attach(
    stream: &mut Stream,
    link: &Link,
    session: Session,
) -> Result<Attached, NodeError> {
    let around = &link.context;
    let mut replies = Replies::new(stream, &link.target);
    let mut asked_at = around.clock.now();
    let Server { run_id, mut scripts, time_us } = handshake(&mut replies, around).await?;
    // Before the membership handshake: a node in quarantine that is the same server as another one
    // is a mistake in the settings, and waiting does not help.
    around.identities.claim(link.number, &run_id, &link.target.label)?;
    let prefix = &around.prefix;
    let voting = link.membership.join(&mut Candidate { replies: &mut replies, prefix }).await?;
    let mut session_time_us = None;
    if around.has_sessions {
        asked_at = around.clock.now();
        let opening = (session, &voting);
        let now_us = match around.is_read_only {
            true => check_without_session(&mut replies, link).await?,
            false => open_session(&mut replies, link, opening, &mut scripts).await?,
        };
        if now_us <= time_us {
            return Err(NodeError::ClockStandsStill);
        }
        session_time_us = Some(now_us).filter(|_| !around.is_read_only);
    }
    Ok(Attached { scripts, asked_at, time_us: session_time_us, voting, rest: replies.rest() })
}

/// Checks what a session needs, without beginning one. Returns the server's time.
async fn check_without_session(replies: &mut Replies<'_>, link: &Link) -> Result<u64, NodeError> {
    let around = &link.context;
    let mut out = Vec::new();
    write_subscribe(&mut out, around);
    write_words(&mut out, &[b"TIME"]);
    replies.ask(&out).await?;
    expect_subscribed(replies, around).await?;
    replies.expect_time().await
}

fn write_subscribe(out: &mut Vec<u8>, around: &LinkContext) {
    if around.dialect.has_queue() {
        let channel = channel(&around.prefix, &around.client);
        write_words(out, &[b"SUBSCRIBE", channel.as_bytes()]);
        // The scripts need the permission to publish, and the subscriber must receive the message.
        write_words(out, &[b"PUBLISH", channel.as_bytes(), b""]);
    }
}

async fn expect_subscribed(
    replies: &mut Replies<'_>,
    around: &LinkContext,
) -> Result<(), NodeError> {
    if around.dialect.has_queue() {
        replies.expect_subscribed().await?;
        if replies.expect_number().await? == 0 {
            let reason = "messages published on a channel do not reach its subscribers";
            return Err(NodeError::Unsupported(reason.into()));
        }
    }
    Ok(())
}

/// Subscribes and then begins a session, so that every session has a subscriber. Returns the
/// server's time. A member of a set gets the scripts now.
async fn open_session(
    replies: &mut Replies<'_>,
    link: &Link,
    (session, voting): (Session, &VotingTerms),
    known: &mut Scripts,
) -> Result<u64, NodeError> {
    let around = &link.context;
    let sender = Sender { client: around.client, session };
    let terms = voting.terms(around.clock.wall_ms());
    let (introduction, opening) = (around.introduction(), Command::Attach { sender, terms });
    let mut out = Vec::new();
    write_subscribe(&mut out, around);
    let scripts = Scripts::new(around.prefix.clone());
    write_command(&mut out, &introduction, &scripts);
    write_command(&mut out, &opening, &scripts);
    if around.membership.is_some() {
        write_loads(&mut out, around.scripts());
    }
    replies.ask(&out).await?;
    expect_subscribed(replies, around).await?;
    match replies.expect_reply(&introduction).await {
        // The description decides nothing: a full server serves a client that it cannot describe.
        Ok(_) | Err(NodeError::OutOfMemory) => {}
        Err(node_error) => return Err(node_error),
    }
    // A session key of another type is overwritten, but the record is not.
    let opened = replies.expect_reply(&opening).await;
    let time_us = match opened.map_err(|node_error| node_error.of_record(&around.prefix))? {
        Reply::Attached { time_us } => time_us,
        Reply::Stale => return Err(NodeError::SessionLost),
        Reply::MembershipRequired => return Err(membership_is_off(&around.prefix)),
        _ => return Err(NodeError::Protocol("expected a session while attaching".into())),
    };
    if around.membership.is_some() {
        replies.expect_loads(around.scripts(), known).await?;
    }
    Ok(time_us)
}

/// A connection during the membership handshake.
struct Candidate<'a, 'b> {
    replies: &'a mut Replies<'b>,
    prefix: &'a Arc<str>,
}

impl Connection for Candidate<'_, '_> {
    async fn send(
        &mut self,
        command: membership::Command,
    ) -> Result<Option<membership::Reply>, NodeError> {
        let (mut out, command) = (Vec::new(), command.into());
        write_command(&mut out, &command, &Scripts::new(self.prefix.clone()));
        self.replies.ask(&out).await?;
        let (frame, bytes) = self.replies.next().await?;
        match frame.reply(bytes, &command) {
            Ok(Reply::Membership(reply)) => Ok(Some(reply)),
            Ok(_) => Ok(None),
            Err(node_error) => Err(node_error.of_record(self.prefix)),
        }
    }

    async fn is_durable(&mut self) -> Result<bool, NodeError> {
        let mut out = Vec::new();
        for setting in ["appendonly", "appendfsync", "no-appendfsync-on-rewrite"] {
            write_words(&mut out, &[b"CONFIG", b"GET", setting.as_bytes()]);
        }
        write_words(&mut out, &[b"INFO", b"persistence"]);
        write_words(&mut out, &[b"INFO", b"replication"]);
        self.replies.ask(&out).await?;
        let mut is_durable = true;
        for expected in ["yes", "always", "no"] {
            is_durable &= self.replies.expect_setting().await?.as_deref() == Some(expected);
        }
        let (persistence, replication) =
            (self.replies.expect_text().await?, self.replies.expect_text().await?);
        let has = |info: &str, line: &str| info.lines().any(|it| it.trim_end() == line);
        let zero = format!("master_replid2:{}", "0".repeat(40));
        Ok(is_durable
            && has(&persistence, "aof_last_write_status:ok")
            && has(&replication, "connected_slaves:0")
            && has(&replication, &zero))
    }
}

/// The result of an attach.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) scripts: Scripts,
    /// When the last round trip began.
    pub(crate) asked_at: Moment,
    /// The server's time when the session began.
    pub(crate) time_us: Option<u64>,
    /// The permission to vote.
    pub(crate) voting: VotingTerms,
    /// The bytes after the answers.
    pub(crate) rest: Vec<u8>,
}

/// The servers behind the nodes of one client, to detect two nodes that are the same server.
#[derive(Debug)]
pub(crate) struct Identities {
    /// By node: the run id of its server, and its label.
    known: Mutex<Vec<Option<(String, String)>>>,
}

impl Identities {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { known: Mutex::new(vec![None; nodes]) }
    }

    /// The node is detached. Another node may be that server now.
    pub(crate) fn release(&self, node: usize) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)[node] = None;
    }

    /// Records that `node` is this run of a server, unless another node already is.
    pub(crate) fn claim(&self, node: usize, run_id: &str, label: &str) -> Result<(), NodeError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let other = known.iter().enumerate().find_map(|(number, known)| match known {
            Some((other, label)) if number != node && other == run_id => Some(label.clone()),
            Some(_) | None => None,
        });
        match other {
            Some(label) => Err(NodeError::SameServer(label)),
            None => {
                known[node] = Some((run_id.to_owned(), label.to_owned()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_run_is_claimed_by_one_node_only() {
        let identities = Identities::new(3);
        assert_eq!(identities.claim(0, "aa", "a"), Ok(()));
        assert_eq!(identities.claim(1, "bb", "b"), Ok(()));
        assert_eq!(identities.claim(2, "aa", "c"), Err(NodeError::SameServer("a".into())));
        assert_eq!(identities.claim(0, "aa", "a"), Ok(()), "a reconnect");
        assert_eq!(identities.claim(0, "cc", "a"), Ok(()), "a restart");
        assert_eq!(identities.claim(2, "aa", "c"), Ok(()));
    }
}

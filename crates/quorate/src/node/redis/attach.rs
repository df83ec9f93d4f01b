//! What comes before the first vote on every new connection: who are you, and may you vote?

use std::sync::{Mutex, PoisonError};

use quorate_core::{
    command::{Command, Reply},
    line::{Session, Speaker},
    moment::Moment,
};

use super::{
    greeting::{Greeted, greet, guard_is_off},
    link::{Link, Surroundings},
    meeting::meet,
    replies::Replies,
    script::{Scripts, write_loads},
    transport::Stream,
    wire::{channel, write_command, write_words},
};
use crate::{error::Trouble, node::redis::chamber::Judged};

/// Logs in, looks at the server, hears what it knows of the set of nodes, and begins a session: in
/// round trips of their own, since a server that is there under another name already has a session
/// of ours, which must not be ended.
pub(crate) async fn attach(
    stream: &mut Stream,
    link: &Link,
    session: Session,
) -> Result<Attached, Trouble> {
    let around = &link.surroundings;
    let mut replies = Replies::new(stream, &link.target);
    let mut asked_at = around.clock.now();
    let Greeted { run_id, mut scripts, time_us } = greet(&mut replies, around).await?;
    if around.only_looks {
        // Nodes that are new have no names yet by which two of them would be known to be the same.
        around.identities.claim(link.number, &run_id, &link.target.label)?;
    }
    let judged = match &around.chamber {
        Some(chamber) => Some(meet(&mut replies, link, chamber).await?),
        None => None,
    };
    around.identities.claim(link.number, &run_id, &link.target.label)?;
    let mut session_time_us = None;
    if around.dialect.has_queue() || judged.is_some() {
        asked_at = around.clock.now();
        let opening = (session, judged.as_ref());
        let now_us = match around.only_looks {
            true => look(&mut replies, link).await?,
            false => open_session(&mut replies, link, opening, &mut scripts).await?,
        };
        if now_us <= time_us {
            return Err(Trouble::ClockStandsStill);
        }
        session_time_us = Some(now_us).filter(|_| !around.only_looks);
    }
    Ok(Attached { scripts, asked_at, time_us: session_time_us, judged, rest: replies.rest() })
}

/// Finds what a session would find, without one. Returns the server's time.
async fn look(replies: &mut Replies<'_>, link: &Link) -> Result<u64, Trouble> {
    let around = &link.surroundings;
    let mut out = Vec::new();
    write_listening(&mut out, around);
    write_words(&mut out, &[b"TIME"]);
    replies.ask(&out).await?;
    expect_listening(replies, around).await?;
    replies.expect_time().await
}

fn write_listening(out: &mut Vec<u8>, around: &Surroundings) {
    if around.dialect.has_queue() {
        let channel = channel(&around.prefix, &around.client);
        write_words(out, &[b"SUBSCRIBE", channel.as_bytes()]);
        // The scripts must be allowed to, and somebody must hear it.
        write_words(out, &[b"PUBLISH", channel.as_bytes(), b""]);
    }
}

async fn expect_listening(replies: &mut Replies<'_>, around: &Surroundings) -> Result<(), Trouble> {
    if around.dialect.has_queue() {
        replies.expect_subscribed().await?;
        if replies.expect_number().await? == 0 {
            let reason = "what is published on a channel does not reach who listens there";
            return Err(Trouble::Unsupported(reason.into()));
        }
    }
    Ok(())
}

/// Begins to listen, and then a session, so that one always has somebody who listens. Returns the
/// server's time. A guarded node learns the scripts now.
async fn open_session(
    replies: &mut Replies<'_>,
    link: &Link,
    (session, judged): (Session, Option<&Judged>),
    known: &mut Scripts,
) -> Result<u64, Trouble> {
    let around = &link.surroundings;
    let speaker = Speaker { client: around.client, session };
    let stay = around.stay(judged);
    let (introduction, opening) = (around.introduction(), Command::Attach { speaker, stay });
    let mut out = Vec::new();
    write_listening(&mut out, around);
    let scripts = Scripts::new(around.prefix.clone());
    write_command(&mut out, &introduction, &scripts);
    write_command(&mut out, &opening, &scripts);
    if judged.is_some() {
        write_loads(&mut out, around.scripts());
    }
    replies.ask(&out).await?;
    expect_listening(replies, around).await?;
    match replies.expect_reply(&introduction).await {
        // Nothing is decided by who a client is: a full server serves one that it cannot name.
        Ok(_) | Err(Trouble::OutOfMemory) => {}
        Err(trouble) => return Err(trouble),
    }
    // A session that is of another type is overwritten, and the record is not.
    let opened = replies.expect_reply(&opening).await;
    let time_us = match opened.map_err(|trouble| trouble.of_record(&around.prefix))? {
        Reply::Attached { time_us } => time_us,
        Reply::Stale => return Err(Trouble::SessionLost),
        Reply::Guarded => return Err(guard_is_off(&around.prefix)),
        _ => return Err(Trouble::Protocol("a session was expected while attaching".into())),
    };
    if judged.is_some() {
        replies.expect_loads(around.scripts(), known).await?;
    }
    Ok(time_us)
}

/// What was learned at the attach.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) scripts: Scripts,
    /// When the last round trip began.
    pub(crate) asked_at: Moment,
    /// The server's time when the session began.
    pub(crate) time_us: Option<u64>,
    /// What the node is, if nodes are guarded.
    pub(crate) judged: Option<Judged>,
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
}

//! Hears what a node knows of itself and of the set, and sees to what it is to know.

use quorate_core::{
    command::{Command, Reply},
    guard::{Disagreement, Doubt, Enrolment, Greeting, Mark, Met, Opinion},
};
use std::time::Duration;

use super::{
    chamber::{Chamber, Judged},
    link::Link,
    replies::Replies,
    script::Scripts,
    wire::{write_command, write_words},
};
use crate::{error::Trouble, nonces::Nonces};

/// Meets the node until it may vote for us, or tells why it does not.
pub(super) async fn meet(
    replies: &mut Replies<'_>,
    link: &Link,
    chamber: &Chamber,
) -> Result<Judged, Trouble> {
    let mut meeting = Meeting { replies, link, chamber };
    let is_durable = chamber.is_durable && meeting.is_durable().await?;
    // What comes into force while we ask makes the answer void.
    let lists = chamber.watch();
    for _ in 0..MEETINGS_MAX {
        let is_looking = chamber.is_looking();
        let greeting = Greeting { is_durable, is_looking, ..link.greeting(chamber)? };
        let met = meeting.greet(&greeting).await?;
        let (mark, is_enrolled) = (met.mark, met.is_enrolled);
        let recovers_in_ms = met.recovers_in_ms;
        let seen = greeting.is_looking.then(|| met.clone());
        let now = link.surroundings.clock.now();
        let opinion = chamber.hear(link.number, met, greeting.is_looking, now);
        // Somebody has begun to act, or is done.
        let opinion = opinion.ok_or(Trouble::Connecting)?;
        if let Some(seen) = seen {
            let why_not_yet = looked_at(&opinion, &seen, &greeting)?;
            // One that waits for an ordinary client recovers when that has come.
            let recovers_in_ms = if why_not_yet.is_some() { 0 } else { recovers_in_ms };
            return Ok(Judged { why_not_yet, ..chamber.judged(mark, recovers_in_ms, lists) });
        }
        match opinion {
            Opinion::Votes(mark) => return Ok(chamber.judged(mark, recovers_in_ms, lists)),
            Opinion::Waits { why, left_ms } => {
                if !chamber.is_admitting() || !meeting.admit(mark).await? {
                    return Err(guarded(&told(why, is_enrolled), left_ms));
                }
            }
            Opinion::Enrol(enrolment) => meeting.enrol(enrolment).await?,
            Opinion::Tell { mark, pact } => {
                let fresh = meeting.fresh_mark()?;
                let command = Command::Change { mark, pact, fresh };
                if let Reply::TooSoon { left_ms } = meeting.say(&command).await? {
                    return Err(guarded(CHANGED_LATELY, left_ms));
                }
            }
            Opinion::Differs(differs) => return Err(differs_by(&differs)),
        }
    }
    Err(Trouble::SessionLost)
}

/// What is told of a node that was only looked at: it can be asked, and votes now or with the next
/// client; or why not.
fn looked_at(
    opinion: &Opinion,
    met: &Met,
    greeting: &Greeting,
) -> Result<Option<&'static str>, Trouble> {
    match (opinion, met.doubt) {
        // It takes the mark that it was offered, from whoever comes next.
        (Opinion::Votes(mark), _) if *mark == greeting.mark => Ok(Some(GUARD_IS_OVER)),
        (Opinion::Votes(_), _) => Ok(None),
        (Opinion::Tell { .. }, None) if met.changes_in_ms > 0 => {
            Err(guarded(CHANGED_LATELY, met.changes_in_ms))
        }
        (Opinion::Tell { .. } | Opinion::Enrol(_), None) => Ok(Some(IS_BEHIND)),
        (Opinion::Enrol(_), Some((why, left_ms))) => {
            Err(guarded(&format!("{why}; {BEGINS_LATER}"), left_ms))
        }
        (Opinion::Waits { .. } | Opinion::Tell { .. }, Some((why, left_ms))) => {
            Err(guarded(&told(why, met.is_enrolled), left_ms))
        }
        (Opinion::Waits { why, left_ms }, None) => {
            Err(guarded(&told(*why, met.is_enrolled), *left_ms))
        }
        (Opinion::Differs(differs), _) => Err(differs_by(differs)),
    }
}

/// Why a node is of no use to this client.
pub(crate) fn differs_by(differs: &Disagreement) -> Trouble {
    match differs {
        // The next one that is heard settles it.
        Disagreement::Unsettled { .. } => guarded(&differs.to_string(), 0),
        Disagreement::SameNode { label } => Trouble::SameServer(label.to_string()),
        _ => Trouble::Disagreement(differs.to_string()),
    }
}

fn told(why: Doubt, is_enrolled: bool) -> String {
    match is_enrolled {
        true => why.to_string(),
        false => format!("{why}, and too few other nodes have confirmed its place yet"),
    }
}

fn guarded(why: &str, left_ms: u64) -> Trouble {
    Trouble::Guarded { left: Duration::from_millis(left_ms), why: why.to_owned() }
}

struct Meeting<'a, 'b> {
    replies: &'a mut Replies<'b>,
    link: &'a Link,
    chamber: &'a Chamber,
}

impl Meeting<'_, '_> {
    async fn say(&mut self, command: &Command) -> Result<Reply, Trouble> {
        let mut out = Vec::new();
        let scripts = Scripts::new(self.link.surroundings.prefix.clone());
        write_command(&mut out, command, &scripts);
        self.replies.ask(&out).await?;
        let (frame, bytes) = self.replies.next().await?;
        frame.reply(bytes, command).map_err(|trouble| trouble.of_record(scripts.prefix()))
    }

    async fn greet(&mut self, greeting: &Greeting) -> Result<Met, Trouble> {
        let asked_at = self.link.surroundings.clock.now();
        self.chamber.ask(self.link.number);
        match self.say(&Command::Meet { greeting: *greeting }).await? {
            Reply::Met(met) => {
                // A node does not remember who has looked at it, and would seem to have forgotten.
                if !greeting.is_looking {
                    self.link.know_time(met.time_us, asked_at);
                }
                Ok(*met)
            }
            Reply::OtherWire(agreed) => {
                Err(Trouble::Disagreement(Disagreement::Wire { agreed }.to_string()))
            }
            _ => Err(Trouble::Protocol("a record was expected while attaching".into())),
        }
    }

    async fn enrol(&mut self, enrolment: Enrolment) -> Result<(), Trouble> {
        let wall_ms = self.link.surroundings.clock.wall_ms();
        let command = Command::Enrol { enrolment: Enrolment { wall_ms, ..enrolment } };
        // Whatever it answers, the next meeting shows what it is.
        self.say(&command).await.map(drop)
    }

    /// Lets the node vote at once. Returns false if it cannot yet.
    async fn admit(&mut self, mark: Mark) -> Result<bool, Trouble> {
        let fresh = self.fresh_mark()?;
        match self.say(&Command::Admit { mark, fresh }).await? {
            Reply::Admitted => Ok(true),
            Reply::Holds { keys } => {
                self.chamber.hold(self.link.number, keys);
                Err(Trouble::NotEmpty(keys))
            }
            _ => Ok(false),
        }
    }

    /// Whether the server writes everything to disk before it answers, and has no replica that
    /// could take its place without that.
    async fn is_durable(&mut self) -> Result<bool, Trouble> {
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

    fn fresh_mark(&self) -> Result<Mark, Trouble> {
        Ok(self.nonces().mark()?)
    }

    const fn nonces(&self) -> &Nonces {
        &self.link.surroundings.nonces
    }
}

/// What is told of a node that does nothing before another client comes.
const GUARD_IS_OVER: &str =
    "the restart guard is over: it votes 5 s after the next client that does not only look";
const IS_BEHIND: &str = "it has missed a change of the set of nodes: it votes when the next client \
                         that does not only look has told it";
const BEGINS_LATER: &str = "the time begins with the next client that does not only look";

/// A node does not go by another list before those who go by the one before the last are gone.
pub(crate) const CHANGED_LATELY: &str = "the set of nodes was changed a short while ago";

/// A node that is told something is met again; more than this is a node that does not keep it.
const MEETINGS_MAX: usize = 6;

//! Hears what a node knows of itself and of the set, and sees to what it is to know.

use quorate_core::{
    command::{Command, Reply},
    guard::{
        Disagreement, Doubt, Enrolment, Greeting, Mark, Met, NodeId, Opinion, SESSION_LIFE_MS,
    },
};
use std::time::Duration;

use super::{
    chamber::{Chamber, Judged},
    link::Link,
    replies::Replies,
    script::Scripts,
    wire::{write_command, write_words},
};
use crate::error::Trouble;

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
        let met = meeting.greet(is_durable).await?;
        let (mark, is_enrolled, doubt) = (met.mark, met.is_enrolled, met.doubt);
        match chamber.hear(link.number, met, link.surroundings.clock.now()) {
            Opinion::Votes(mark) => return Ok(chamber.judged(mark, lists)),
            Opinion::Waits { why, left_ms } => {
                if !chamber.is_admitting() || !meeting.admit(mark).await? {
                    return Err(guarded(&told(why, is_enrolled), left_ms));
                }
            }
            Opinion::Enrol(_) | Opinion::Tell { .. } if chamber.is_looking => {
                let (why, left_ms) = doubt.unwrap_or((Doubt::Unknown, 0));
                return Err(guarded(&told(why, is_enrolled), left_ms));
            }
            Opinion::Enrol(enrolment) => meeting.enrol(enrolment).await?,
            Opinion::Tell { mark, pact } => {
                let fresh = meeting.fresh_mark();
                let command = Command::Change { mark, pact, fresh };
                if let Reply::TooSoon { left_ms } = meeting.say(&command).await? {
                    return Err(guarded(CHANGED_LATELY, left_ms));
                }
            }
            // The next one that is heard settles it.
            Opinion::Differs(unsettled @ Disagreement::Unsettled { .. }) => {
                return Err(guarded(&unsettled.to_string(), 0));
            }
            Opinion::Differs(Disagreement::SameNode { label }) => {
                return Err(Trouble::SameServer(label.to_string()));
            }
            Opinion::Differs(differs) => return Err(Trouble::Disagreement(differs.to_string())),
        }
    }
    Err(Trouble::SessionLost)
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

    async fn greet(&mut self, is_durable: bool) -> Result<Met, Trouble> {
        let clock = self.link.surroundings.clock;
        let asked_at = clock.now();
        self.chamber.ask(self.link.number);
        let greeting = Greeting {
            wall_ms: clock.wall_ms(),
            known: self.link.known_time(asked_at),
            mark: self.fresh_mark(),
            id: NodeId::from_random(self.link.draw()),
            life_ms: SESSION_LIFE_MS,
            guard_ms: self.chamber.guard_ms,
            is_looking: self.chamber.is_looking,
            is_durable,
        };
        match self.say(&Command::Meet { greeting }).await? {
            Reply::Met(met) => {
                self.link.know_time(met.time_us, asked_at);
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
        let fresh = self.fresh_mark();
        match self.say(&Command::Admit { mark, fresh }).await? {
            Reply::Admitted => Ok(true),
            Reply::Holds { keys } => Err(Trouble::NotEmpty(keys)),
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

    fn fresh_mark(&self) -> Mark {
        Mark::from_random(self.link.draw())
    }
}

/// A node does not go by another list before those who go by the one before the last are gone.
pub(crate) const CHANGED_LATELY: &str = "the set of nodes was changed a short while ago";

/// A node that is told something is met again; more than this is a node that does not keep it.
const MEETINGS_MAX: usize = 6;

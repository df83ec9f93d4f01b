//! While the command runs: passes signals on, watches the lease, and sees to it that nothing of
//! the command is left when the lock can be another's.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use super::{
    Signals,
    danger::{Danger, State, Step, Why},
    leash::Until,
    locks::Locks,
    spawn::{Child, Exit},
};
use crate::{time, voice::Voice};

/// What is needed for that.
pub(super) struct Supervisor<'a> {
    pub(super) child: &'a Child,
    pub(super) locks: &'a Locks,
    pub(super) danger: Danger,
    /// What asks the command to end.
    pub(super) signal: Signal,
    /// How long the command may run.
    pub(super) max_hold: Option<Duration>,
    /// How often its guardian is told.
    pub(super) tell_every: Duration,
    pub(super) voice: &'a Voice,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    /// The command ended by itself, with this exit code.
    Finished(u8),
    /// The lock was lost, or was about to be, or the time was over, and the command was ended.
    Lost,
    /// As above, but something of the command could not be killed.
    Stuck,
}

impl Supervisor<'_> {
    pub(super) async fn run(&self, signals: &mut Signals) -> End {
        let mut asked_at: Option<Instant> = None;
        let mut has_ended = false;
        let mut is_lost = false;
        let mut resumed_at: Option<Until> = None;
        let mut lost = Box::pin(self.locks.lost());
        loop {
            // What the command has started was asked as well, and has as much time.
            if has_ended && !self.child.is_anything_left() {
                return End::Lost;
            }
            let step = match self.step(asked_at, resumed_at) {
                Step::Ask(why) => {
                    asked_at = Some(Instant::now());
                    self.ask(why);
                    continue;
                }
                Step::Kill => return self.kill(is_lost).await,
                Step::Wait(step) => step,
            };
            let step = step.min(self.tell_every);
            let latest = Until::now().after(step + self.tell_every);
            tokio::select! {
                biased;
                signal = signals.next() => self.handle_signal(signal),
                () = self.child.news() => {}
                why = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.voice.error(&format!("the lock is lost: {why}"));
                }
                () = sleep(step) => {}
            }
            // Not only when a signal says so: it may have been lost.
            let exit = self.child.look();
            self.child.stop_with_it();
            let now = Until::now();
            resumed_at = if now > latest { Some(now) } else { resumed_at };
            match exit {
                Some(exit) if asked_at.is_none() => return self.finished(exit).await,
                Some(_) => has_ended = true,
                None => {}
            }
        }
    }

    fn step(&self, asked_at: Option<Instant>, resumed_at: Option<Until>) -> Step {
        // The moment first: the guardian is never told a later end.
        let now = Until::now();
        let left = self.locks.left();
        self.child.set_until(now.after(self.danger.allowed(left)));
        let allowed = self.max_hold.map(|max| max.saturating_sub(self.locks.held_for()));
        let asked = asked_at.map(|at| at.elapsed());
        let resumed = resumed_at.map(|at| now.since(at));
        self.danger.step(State { left, allowed, asked, resumed })
    }

    fn handle_signal(&self, signal: Signal) {
        match signal {
            Signal::CHILD => {}
            // Whoever stopped us and lets us go on means the command, too. It goes on only if the
            // lock is still ours: a stopped process does not renew.
            Signal::CONT if self.locks.left().is_zero() && !self.danger.is_harmless() => {}
            Signal::CONT => self.child.go_on(),
            signal => self.child.pass_on(signal),
        }
    }

    fn ask(&self, why: Why) {
        let why = match why {
            Why::Danger => "the lock is not renewed in time".to_owned(),
            Why::TooLong => {
                let ran = time::shown(self.locks.held_for());
                format!("the command has run for {ran}, which is as long as allowed")
            }
        };
        let kill_after = time::shown(self.danger.kill_after);
        self.voice.error(&format!("{why}: it is asked to end, and killed within {kill_after}"));
        self.child.ask(self.signal);
    }

    /// Ends the command for good.
    async fn kill(&self, is_lost: bool) -> End {
        // We may have been stopped meanwhile, but its guardian was not.
        let was_left = self.child.is_anything_left();
        let why = match self.kill_tree().await {
            Killed::No => return End::Stuck,
            Killed::Late => "what was left of the command has ended",
            Killed::Yes if !was_left => KILLED_IN_TIME,
            Killed::Yes if is_lost || !self.locks.left().is_zero() => "the command was killed",
            Killed::Yes => "the command was killed, but not before the lock was over",
        };
        self.voice.error(why);
        End::Lost
    }

    /// Kills all of it. While something cannot be killed the lock is kept for as long as it can be.
    async fn kill_tree(&self) -> Killed {
        let (started, mut is_told) = (Instant::now(), false);
        loop {
            let left = self.child.kill_once();
            if left == 0 {
                return if is_told { Killed::Late } else { Killed::Yes };
            }
            if started.elapsed() >= GUARDIAN_BOUND && self.child.count() == 0 {
                // It does not even see that nothing is left.
                self.child.dismiss_guardian();
            }
            if started.elapsed() >= KILL_BOUND {
                if !is_told {
                    is_told = true;
                    let text = format!(
                        "{left} of the command's processes cannot be killed: the lock is kept \
                         for as long as possible"
                    );
                    self.voice.error(&text);
                }
                if self.locks.left().is_zero() {
                    self.voice.error("the lock is over, and the command is not");
                    return Killed::No;
                }
            }
            sleep(if is_told { LOOK_AGAIN } else { LOOK_SOON }).await;
        }
    }

    async fn finished(&self, exit: Exit) -> End {
        match exit {
            Exit::Command(code) => {
                let left = self.left_behind().await;
                let go_on = match left {
                    1 => "1 process that the command has started goes on".to_owned(),
                    left => format!("{left} processes that the command has started go on"),
                };
                if left > 0 {
                    self.voice.warn(&format!("{go_on} without the lock"));
                }
                self.child.dismiss_guardian();
                End::Finished(code)
            }
            Exit::Late => {
                self.voice.error(KILLED_IN_TIME);
                End::Lost
            }
            Exit::Guardian(code) => match self.kill_tree().await {
                Killed::Yes | Killed::Late => End::Finished(code),
                Killed::No => End::Stuck,
            },
        }
    }

    /// How many processes go on although the command has ended. What is about to end is none.
    async fn left_behind(&self) -> usize {
        let ended_at = Instant::now();
        while self.child.is_anything_left() {
            let left = self.child.count();
            let bound = if left > 0 { LINGER_BOUND } else { GUARDIAN_BOUND };
            if ended_at.elapsed() >= bound {
                return left.max(1);
            }
            sleep(LOOK_SOON).await;
        }
        0
    }
}

/// Whether all of the command was killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Killed {
    Yes,
    /// Not by us: something that could not be killed has ended after all.
    Late,
    No,
}

/// By its guardian.
const KILLED_IN_TIME: &str = "the lock was not renewed in time, and the command was killed";

/// For how long what is about to end may take: the guardian of a run inside this one, above all.
const LINGER_BOUND: Duration = Duration::from_millis(100);

/// For how long a guardian may not have noticed that nothing is left.
const GUARDIAN_BOUND: Duration = Duration::from_millis(200);

/// For how long processes are killed before somebody is told that they do not die.
const KILL_BOUND: Duration = Duration::from_secs(5);

const LOOK_SOON: Duration = Duration::from_millis(2);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

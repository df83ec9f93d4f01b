//! While the command runs: passes signals on, watches the lease, and sees to it that nothing of
//! the command is left when the lock can be another's.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use super::{
    Signals,
    danger::{Danger, Step},
    locks::Locks,
    spawn::{Change, Child, is_anything_left},
    tree,
};
use crate::{time, voice::Voice};

/// What is needed for that.
pub(super) struct Supervisor<'a> {
    pub(super) child: &'a Child,
    pub(super) locks: &'a Locks,
    pub(super) danger: Danger,
    /// What asks the command to end.
    pub(super) signal: Signal,
    /// How long the command may still run.
    pub(super) left: &'a dyn Fn() -> Duration,
    /// How often its guardian is told.
    pub(super) tell_every: Duration,
    pub(super) voice: &'a Voice,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    /// The command ended by itself, with this exit code.
    Finished(u8),
    /// The lock was lost, or was about to be, and the command was ended.
    Lost,
}

impl Supervisor<'_> {
    pub(super) async fn run(&self, signals: &mut Signals) -> End {
        let mut is_asked = false;
        let mut lost = Box::pin(self.locks.lost());
        let mut is_lost = false;
        let mut has_ended = false;
        loop {
            // What the command has started was asked as well, and has as much time.
            if has_ended && !is_anything_left() {
                return End::Lost;
            }
            let left = (self.left)();
            self.child.set_left(self.danger.allowed(left));
            let step = match self.danger.step(left, is_asked) {
                Step::Ask => {
                    is_asked = true;
                    self.warn_and_ask();
                    continue;
                }
                Step::Kill => {
                    self.kill_tree();
                    let why = "the command was killed, since the lock could be another's";
                    self.voice.error(why);
                    return End::Lost;
                }
                Step::Wait(step) => step,
            };
            tokio::select! {
                biased;
                signal = signals.next() => match self.handle_signal(signal) {
                    Some(code) if !is_asked => return self.finished(code),
                    Some(_) => has_ended = true,
                    None => {}
                },
                why = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.voice.error(&format!("the lock is lost: {why}"));
                }
                () = sleep(step.min(self.tell_every)) => {}
            }
        }
    }

    /// Returns the exit code if the command has ended.
    fn handle_signal(&self, signal: Signal) -> Option<u8> {
        match signal {
            Signal::CHILD => loop {
                match self.child.reap()? {
                    Change::Ended(code) => return Some(code),
                    Change::Unguarded(code) => {
                        self.kill_tree();
                        return Some(code);
                    }
                    Change::Stopped => self.child.stop_with_it(),
                }
            },
            // Whoever stopped us and lets us go on means the command, too. It goes on only if the
            // lock is still ours: a stopped process does not renew.
            Signal::CONT => {
                if !(self.left)().is_zero() || self.danger.is_harmless() {
                    self.child.go_on();
                }
                None
            }
            signal => {
                self.child.pass_on(signal);
                None
            }
        }
    }

    fn warn_and_ask(&self) {
        let left = time::shown((self.left)());
        self.voice.error(&format!(
            "the lock was not renewed, or is held for as long as allowed: the command is asked to \
             end, and killed in {left}"
        ));
        self.child.signal(self.signal);
        // A stopped process would not hear it.
        self.child.signal(Signal::CONT);
    }

    /// Kills the command and all that descends from it.
    fn kill_tree(&self) {
        self.child.signal(Signal::KILL);
        let left = tree::kill_all(KILL_BOUND);
        if left > 0 {
            self.voice.error(&format!("{left} processes of the command cannot be killed"));
        }
        self.child.reap();
    }

    fn finished(&self, code: u8) -> End {
        if is_anything_left() {
            let left = tree::count();
            self.voice.warn(&format!(
                "{left} processes that the command has started go on without the lock"
            ));
        }
        End::Finished(code)
    }
}

/// For how long processes are killed that do not die.
const KILL_BOUND: Duration = Duration::from_secs(10);

//! Supervises the running command: forwards signals, checks the lease, and ensures that no process
//! of the command is left when another owner can acquire the lock.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use super::{
    Signals,
    deadline_channel::BootInstant,
    locks::Locks,
    spawn::{Child, Exit},
    termination::{Action, Reason, State, TerminationPolicy},
};
use crate::{reporter::Reporter, time};

/// What the supervision needs.
pub(super) struct Supervisor<'a> {
    pub(super) child: &'a Child,
    pub(super) locks: &'a Locks,
    pub(super) policy: TerminationPolicy,
    /// The signal that terminates the command.
    pub(super) signal: Signal,
    /// How long the command may run.
    pub(super) max_hold: Option<Duration>,
    /// How often the guardian gets a new deadline.
    pub(super) deadline_interval: Duration,
    pub(super) reporter: &'a Reporter,
}

/// How the run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    /// The command ended by itself, with this exit code.
    Finished(u8),
    /// The lock was lost or about to be lost, or the command ran for too long, and the command was
    /// stopped.
    Lost,
    /// As [`Self::Lost`], but processes of the command could not be killed.
    Stuck,
}

impl Supervisor<'_> {
    pub(super) async fn run(&self, signals: &mut Signals) -> End {
        let mut terminated_at: Option<Instant> = None;
        let mut has_ended = false;
        let mut is_lost = false;
        let mut resumed_at: Option<BootInstant> = None;
        let mut lost = Box::pin(self.locks.lost());
        loop {
            // Descendants of the command were terminated too, and have as much time.
            if has_ended && !self.child.has_processes() {
                return End::Lost;
            }
            let wait = match self.next_action(terminated_at, resumed_at) {
                Action::Terminate(reason) => {
                    terminated_at = Some(Instant::now());
                    self.terminate(reason);
                    continue;
                }
                Action::Kill => return self.kill(is_lost).await,
                Action::Wait(wait) => wait,
            };
            let wait = wait.min(self.deadline_interval);
            let latest = BootInstant::now().after(wait + self.deadline_interval);
            tokio::select! {
                biased;
                signal = signals.next() => self.handle_signal(signal),
                () = self.child.event() => {}
                why = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.reporter.error(&format!("the lock was lost: {why}"));
                }
                () = sleep(wait) => {}
            }
            // Check after every wakeup: signals can be merged or lost.
            let exit = self.child.poll_exit();
            self.child.stop_if_command_stopped();
            let now = BootInstant::now();
            resumed_at = if now > latest { Some(now) } else { resumed_at };
            match exit {
                Some(exit) if terminated_at.is_none() => return self.finished(exit).await,
                Some(_) => has_ended = true,
                None => {}
            }
        }
    }

    fn next_action(
        &self,
        terminated_at: Option<Instant>,
        resumed_at: Option<BootInstant>,
    ) -> Action {
        // Take the time before the remaining validity, so that the guardian's deadline is never too
        // late.
        let now = BootInstant::now();
        let left = self.locks.left();
        self.child.set_deadline(now.after(self.policy.run_limit(left)));
        let allowed = self.max_hold.map(|max| max.saturating_sub(self.locks.held_for()));
        let terminated = terminated_at.map(|at| at.elapsed());
        let resumed = resumed_at.map(|at| now.since(at));
        self.policy.next_action(State { left, allowed, terminated, resumed })
    }

    fn handle_signal(&self, signal: Signal) {
        match signal {
            Signal::CHILD => {}
            // A process that continues quorate means the command too. The command continues only if
            // the lock is still held: a stopped quorate does not renew it.
            Signal::CONT if self.locks.left().is_zero() && !self.policy.lets_command_continue() => {
            }
            Signal::CONT => self.child.resume(),
            signal => self.child.forward(signal),
        }
    }

    fn terminate(&self, reason: Reason) {
        let reason = match reason {
            Reason::LeaseExpiring => "the lock was not renewed in time".to_owned(),
            Reason::MaxHoldReached => {
                let ran = time::shown(self.locks.held_for());
                format!("the command has run for {ran}, the limit of --max-hold")
            }
        };
        let kill_after = time::shown(self.policy.kill_after);
        self.reporter.error(&format!(
            "{reason}: terminating the command, and killing it within {kill_after}"
        ));
        self.child.terminate(self.signal);
    }

    /// Kills the command.
    async fn kill(&self, is_lost: bool) -> End {
        // This process may have been stopped while the guardian acted.
        let had_processes = self.child.has_processes();
        let text = match self.kill_tree().await {
            Killed::No => return End::Stuck,
            Killed::Late => "the remaining processes of the command have ended",
            Killed::Yes if !had_processes => KILLED_IN_TIME,
            Killed::Yes if is_lost || !self.locks.left().is_zero() => "the command was killed",
            Killed::Yes => "the command was killed, but only after the lock had expired",
        };
        self.reporter.error(text);
        End::Lost
    }

    /// Kills all processes of the command. While one cannot be killed, the lock is kept for as long
    /// as possible.
    async fn kill_tree(&self) -> Killed {
        let (started, mut is_reported) = (Instant::now(), false);
        loop {
            let left = self.child.kill_all();
            if left == 0 {
                return if is_reported { Killed::Late } else { Killed::Yes };
            }
            if started.elapsed() >= GUARDIAN_TIMEOUT && self.child.count() == 0 {
                // The guardian does not notice that no process is left.
                self.child.kill_guardian();
            }
            if started.elapsed() >= KILL_REPORT_AFTER {
                if !is_reported {
                    is_reported = true;
                    let text = format!(
                        "{left} processes of the command cannot be killed: keeping the lock for \
                         as long as possible"
                    );
                    self.reporter.error(&text);
                }
                if self.locks.left().is_zero() {
                    self.reporter.error(
                        "the lock expired while processes of the command were still running",
                    );
                    return Killed::No;
                }
            }
            sleep(if is_reported { RECHECK_AFTER } else { RECHECK_SOON }).await;
        }
    }

    async fn finished(&self, exit: Exit) -> End {
        match exit {
            Exit::Command(code) => {
                let left = self.left_behind().await;
                let processes = match left {
                    1 => "1 process that the command started keeps running".to_owned(),
                    left => format!("{left} processes that the command started keep running"),
                };
                if left > 0 {
                    self.reporter.warn(&format!("{processes} without the lock"));
                }
                self.child.kill_guardian();
                End::Finished(code)
            }
            Exit::KilledByGuardian => {
                self.reporter.error(KILLED_IN_TIME);
                End::Lost
            }
            Exit::GuardianFailed(code) => match self.kill_tree().await {
                Killed::Yes | Killed::Late => End::Finished(code),
                Killed::No => End::Stuck,
            },
        }
    }

    /// How many processes keep running after the command has ended. Processes that end right after
    /// it do not count.
    async fn left_behind(&self) -> usize {
        let ended_at = Instant::now();
        while self.child.has_processes() {
            let left = self.child.count();
            let timeout = if left > 0 { LINGER_TIMEOUT } else { GUARDIAN_TIMEOUT };
            if ended_at.elapsed() >= timeout {
                return left.max(1);
            }
            sleep(RECHECK_SOON).await;
        }
        0
    }
}

/// Whether all processes of the command were killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Killed {
    Yes,
    /// A process that could not be killed has ended after all.
    Late,
    No,
}

/// Reported if the guardian killed the command.
const KILLED_IN_TIME: &str = "the lock was not renewed in time, and the command was killed";

/// How long processes may take to end after the command, such as the guardian of a nested run.
const LINGER_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the guardian may take to notice that no process is left.
const GUARDIAN_TIMEOUT: Duration = Duration::from_millis(200);

/// How long processes are killed before a message reports that they do not end.
const KILL_REPORT_AFTER: Duration = Duration::from_secs(5);

const RECHECK_SOON: Duration = Duration::from_millis(2);
const RECHECK_AFTER: Duration = Duration::from_secs(1);

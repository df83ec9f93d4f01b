//! `quorate run`: runs a command only while this process holds a lock, among all processes that use
//! the same nodes.

mod acquire_all;
mod deadline_channel;
pub(crate) mod guardian;
mod lock;
mod locks;
mod nested;
mod proc;
mod request;
mod signals;
mod spawn;
mod supervise;
mod terminal;
mod termination;
mod tree;
mod wait_status;

use std::{
    ffi::OsString,
    io,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use clap::Args;
use rustix::process::Signal;

use self::{
    deadline_channel::BootInstant,
    locks::Locks,
    request::Requests,
    spawn::Child,
    supervise::{End, Supervisor},
    termination::{OnLost, TerminationPolicy},
};
pub(crate) use self::{
    lock::{check_nodes, lock, with_name},
    locks::WaitArgs,
    request::{LockArgs, Request},
    signals::Signals,
};
use crate::{
    cli::block_file_size_signal,
    exit::{BUSY, BY_SIGNAL, CONFIG, Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, SOFTWARE, USAGE},
    progress,
    reporter::Reporter,
    runtime,
    settings::{NodeArgs, Settings},
    time, who,
};

/// Run a command while holding a lock
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Name of the lock, or of the permits
    name: String,
    /// Command to run, and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "command", value_name = "COMMAND")]
    argv: Vec<OsString>,
    /// Run this text with $SHELL, or /bin/sh, instead of a command
    #[arg(short, long, value_name = "TEXT", conflicts_with = "argv")]
    command: Option<OsString>,
    /// Another lock to hold; can be repeated. All locks are acquired together or not at all. With
    /// --shared they are shared too; with --permits they are exclusive, and acquired after the
    /// permits
    #[arg(short, long = "lock", value_name = "NAME")]
    locks: Vec<String>,
    #[command(flatten)]
    wait_args: WaitArgs,
    #[command(flatten)]
    lock_args: LockArgs,
    /// Acquire this many permits, all or none [default: 1]. QUORATE_PERMIT contains their numbers
    /// and QUORATE_FENCE their fences, separated by commas
    #[arg(long, value_name = "NUMBER", value_parser = request::take, requires = "permits")]
    take: Option<NonZeroU32>,
    /// Exit code if the lock is held
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = BUSY)]
    conflict_exit_code: u8,
    /// Exit code if the lock is lost while the command runs
    #[arg(long, value_name = "NUMBER", default_value_t = LOST)]
    lost_exit_code: u8,
    /// Time until the lock expires if this process is killed [default: 10s] [minimum: 200ms]. The
    /// lock is renewed every third of it
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    ttl: Option<Duration>,
    /// Hold the lock for at least this long, even if the command ends earlier: for hosts whose
    /// clocks start the same job slightly apart. Ignored if the command is not found or not
    /// executable
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    min_hold: Option<Duration>,
    /// Terminate the command after this long, and kill it after --kill-after. The exit code is that
    /// of a lost lock
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    max_hold: Option<Duration>,
    /// What to do with the command when the lock is about to be lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    on_lost: OnLost,
    /// How long before the lock expires the command is terminated; it is killed just before the
    /// lock expires [default: half of the ttl, at most 5s]. Must be at most half of the ttl
    #[arg(short, long, value_name = "TIME", value_parser = time::parse)]
    kill_after: Option<Duration>,
    /// Signal that terminates the command
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    signal: Signal,
    /// Run the command in the process group of quorate instead of its own. A signal to that whole
    /// group, as by `kill -TERM -PGID`, reaches the command twice: from the sender and from quorate
    #[arg(long)]
    foreground: bool,
    /// Name of the holder, shown to those waiting [default: host, process, user, and the name of
    /// the command without its arguments]. At most 96 characters; non-ASCII characters are shown as
    /// question marks
    #[arg(long, value_name = "TEXT")]
    who: Option<String>,
    /// Reason for holding the lock, shown to those waiting
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    node_args: NodeArgs,
    #[command(flatten)]
    pub(crate) reporter: Reporter,
}

impl Run {
    /// Returns the exit code.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        // Before any other thread starts: threads inherit the signal mask.
        signals::unblock();
        block_file_size_signal();
        if !proc::is_visible() {
            let text = "cannot find this process in /proc: mount the /proc of its PID namespace";
            return Err(Failure::new(SOFTWARE, text));
        }
        self.check_holds()?;
        let requests = self.requests()?;
        let settings = self.node_args.settings()?;
        let ttl = self.ttl(&settings)?;
        let kill_after = self.kill_after.unwrap_or_else(|| (ttl / 2).min(KILL_AFTER_MAX));
        if TerminationPolicy::is_too_early(kill_after, ttl) {
            let (kill_after, ttl) = (time::shown(kill_after), time::shown(ttl));
            return Err(Failure::usage(format!(
                "--kill-after {kill_after} is more than half of the ttl of {ttl}: the command \
                 would be terminated although the lock is renewed in time"
            )));
        }
        let policy = TerminationPolicy::new(self.on_lost, kill_after, ttl);
        settings.warn(&self.reporter);
        settings.note_local_locks(&self.reporter);
        runtime::start()?.block_on(self.under_lock(requests, &settings, ttl, policy))
    }

    fn check_holds(&self) -> Result<(), Failure> {
        match (self.min_hold, self.max_hold) {
            (Some(least), Some(most)) if most < least => {
                let (least, most) = (time::shown(least), time::shown(most));
                Err(Failure::usage(format!(
                    "--max-hold {most} is less than --min-hold {least}: use a longer --max-hold \
                     or a shorter --min-hold"
                )))
            }
            _ => Ok(()),
        }
    }

    fn ttl(&self, settings: &Settings) -> Result<Duration, Failure> {
        let (ttl, code) = match self.ttl {
            Some(ttl) => (ttl, USAGE),
            None => (settings.ttl()?, CONFIG),
        };
        // The library rejects a ttl of zero.
        if !ttl.is_zero() && ttl < TTL_MIN && self.on_lost != OnLost::Warn {
            let (ttl, least) = (time::shown(ttl), time::shown(TTL_MIN));
            let text = format!(
                "a ttl of {ttl} is too short to stop the command before the lock expires: use \
                 at least {least}, or --on-lost warn"
            );
            return Err(Failure::new(code, text));
        }
        Ok(ttl)
    }

    /// The locks that must be held while the command runs.
    fn requests(&self) -> Result<Requests<'_>, Failure> {
        let is_one_lock = self.locks.iter().all(|name| *name == self.name);
        let identity = self.lock_args.identity(is_one_lock)?;
        let main = match is_one_lock {
            true => self.lock_args.single_request(&self.name, &identity),
            false => self.lock_args.request(&self.name),
        };
        let main = self.lock_args.with_take(self.take, main)?;
        if let Some(part) = self.locks.iter().find(|name| main.includes(name)) {
            return Err(Failure::usage(format!(
                "--lock {part:?} is one of the locks that make up the permits of {:?}: it cannot \
                 be held as well",
                self.name
            )));
        }
        let others = self.locks.iter().filter(|name| main.is_permit() || **name != self.name);
        let others = others.map(|name| self.lock_args.additional_request(name));
        Ok(Requests { all: others.chain([main]).collect(), main, identity })
    }

    async fn under_lock(
        &self,
        requests: Requests<'_>,
        settings: &Settings,
        ttl: Duration,
        policy: TerminationPolicy,
    ) -> Result<u8, Failure> {
        let failed = |error| Failure::system("cannot handle signals", error);
        let mut signals = Signals::listen().map_err(failed)?;
        let builder = requests.identity.apply_to(settings.builder()?);
        let builder = builder.who(self.holder_text(settings));
        let acquired = Locks::acquire(builder, &requests, ttl, &self.wait_args, &self.reporter);
        let acquired = tokio::select! {
            biased;
            signal = signals.next_terminating() => Err(signal),
            acquired = acquired => Ok(acquired),
        };
        let locks = match acquired {
            Ok(Ok(locks)) => locks,
            Ok(Err(failure)) if failure.code == BUSY => {
                self.reporter.conflict(&failure.text);
                return Ok(self.conflict_exit_code);
            }
            Ok(Err(failure)) => return Err(failure),
            // Dropping the future has released the lock.
            Err(signal) => {
                self.reporter.status("");
                return Ok(by_signal(signal));
            }
        };
        let command = self.argv();
        // Take the time before the remaining validity, so that the guardian's deadline is never too
        // late.
        let now = BootInstant::now();
        let deadline = now.after(policy.run_limit(locks.left()));
        let (mut variables, reporter) = (locks.variables(), &self.reporter);
        variables.push(requests.identity.variable());
        let started = signals
            .listen_to_stops()
            .and_then(|()| Child::start(&command, &variables, self.foreground, deadline, reporter));
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                locks.release(&self.reporter).await;
                return Err(not_started(&error));
            }
        };
        let supervisor = Supervisor {
            child: &child,
            locks: &locks,
            policy,
            signal: self.signal,
            max_hold: self.max_hold,
            deadline_interval: ttl / 10,
            reporter: &self.reporter,
        };
        let end = supervisor.run(&mut signals).await;
        child.take_terminal_back();
        self.finish(end, locks, &mut signals).await
    }

    async fn finish(&self, end: End, locks: Locks, signals: &mut Signals) -> Result<u8, Failure> {
        let remaining = self.min_hold.and_then(|least| least.checked_sub(locks.held_for()));
        // A command that could not be executed has done nothing: another host may run it.
        let has_run = !matches!(end, End::Finished(NOT_EXECUTABLE | NOT_FOUND));
        let end = match (end, remaining.filter(|_| has_run)) {
            // The command has ended, so losing the lock from now on does not matter.
            (End::Finished(code), Some(remaining)) if !locks.left().is_zero() => {
                let ends = Instant::now() + remaining;
                let text = |_| {
                    let left = ends.saturating_duration_since(Instant::now());
                    format!("holding the lock for {} more (--min-hold)", time::shown(left))
                };
                let hold =
                    progress::during_async(&self.reporter, text, tokio::time::sleep(remaining));
                tokio::select! {
                    () = hold => {}
                    _ = signals.next_terminating() => self.reporter.status(""),
                }
                locks.release(&self.reporter).await;
                return Ok(code);
            }
            (end, _) => end,
        };
        if end == End::Stuck {
            locks.leave_to_expire();
            return Ok(self.lost_exit_code);
        }
        let was_held = locks.release(&self.reporter).await;
        Ok(match end {
            End::Finished(code) if was_held || self.on_lost == OnLost::Warn => code,
            End::Finished(_) | End::Lost | End::Stuck => self.lost_exit_code,
        })
    }

    fn argv(&self) -> Vec<OsString> {
        match &self.command {
            Some(text) => {
                let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
                vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), text.clone()]
            }
            None => self.argv.clone(),
        }
    }

    /// The description of the holder for people who wait for the lock.
    fn holder_text(&self, settings: &Settings) -> String {
        // A script may pass an unset variable: an empty text counts as not given.
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let why = given(&self.why);
        let who = given(&self.who).or_else(|| settings.who().map(str::to_owned));
        match who {
            Some(who) => who::given(&who, why.as_deref()),
            None => who::of_run(&self.argv()).text(why.as_deref()),
        }
    }
}

fn not_started(error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            "its arguments and environment, which contains the names of all locks, are too long: "
        }
        _ => "",
    };
    Failure::system("cannot start the command", format!("{why}{error}"))
}

pub(crate) fn by_signal(signal: Signal) -> u8 {
    BY_SIGNAL.saturating_add(u8::try_from(signal.as_raw()).unwrap_or(0))
}

/// The shortest ttl with which a command can be stopped in time. 50 ms of it are reserved for
/// killing the command; the rest must suffice to start it, and for a renewal that is late after a
/// third of the ttl.
const TTL_MIN: Duration = Duration::from_millis(200);

/// The longest default of `--kill-after`.
const KILL_AFTER_MAX: Duration = Duration::from_secs(5);

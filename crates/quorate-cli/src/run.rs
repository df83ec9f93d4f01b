//! `quorate run`: a command that runs only while this machine, or this process among all that use
//! the same nodes, has the lock.

mod danger;
pub(crate) mod guardian;
mod leash;
mod lock;
mod locks;
mod nested;
mod proc;
mod several;
mod signals;
mod spawn;
mod supervise;
mod terminal;
mod tree;
mod waiting;
mod want;

use std::{ffi::OsString, io, num::NonZeroU32, time::Duration};

use clap::Args;
use rustix::process::Signal;

use self::{
    danger::{Danger, OnLost},
    leash::Until,
    locks::Locks,
    spawn::Child,
    supervise::{End, Supervisor},
    want::Wanted,
};
pub(crate) use self::{
    lock::{lock, named},
    locks::Patience,
    signals::Signals,
    want::{Kind, Want},
};
use crate::{
    cli::outlive_file_limits,
    exit::{BUSY, BY_SIGNAL, CONFIG, Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, SOFTWARE, USAGE},
    runtime,
    settings::{Place, Settings},
    time,
    voice::Voice,
};

/// Runs a command under a lock.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The name of the lock, or of the permits.
    name: String,
    /// The command, and its arguments.
    #[arg(trailing_var_arg = true, required_unless_present = "command", value_name = "COMMAND")]
    argv: Vec<OsString>,
    /// A text for the shell in place of a command: $SHELL, or /bin/sh, runs it.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "argv")]
    command: Option<OsString>,
    /// One more lock to hold; can be given several times. All are acquired together or not at all.
    /// With --shared they are shared as well; with --permits they are exclusive, and acquired after
    /// the permit.
    #[arg(short, long = "lock", value_name = "NAME")]
    locks: Vec<String>,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    kind: Kind,
    /// Acquire this many permits, all or none [default: 1]. The command gets their numbers in
    /// QUORATE_PERMIT, separated by commas, and their fences in QUORATE_FENCE.
    #[arg(long, value_name = "NUMBER", value_parser = want::take, requires = "permits")]
    take: Option<NonZeroU32>,
    /// The exit code if another has the lock.
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = BUSY)]
    conflict_exit_code: u8,
    /// The exit code if the lock was lost while the command ran.
    #[arg(long, value_name = "NUMBER", default_value_t = LOST)]
    lost_exit_code: u8,
    /// How long the lock outlives this process if it is killed, 10s by default, 200ms at least. It
    /// is renewed at a third of it.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    ttl: Option<Duration>,
    /// Holds the lock for at least so long, also if the command is done earlier: for hosts whose
    /// clocks start the same job a little apart. Not if it was not there, or could not be
    /// executed.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    min_hold: Option<Duration>,
    /// Asks the command to end when it has run for so long, and kills it after --kill-after. The
    /// exit code is that of a lost lock.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    max_hold: Option<Duration>,
    /// What happens to the command when the lock is about to be lost.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    on_lost: OnLost,
    /// How long before the end of the lock the command is asked to end, and how long it has then:
    /// it is killed at the end. At most half of the ttl, which is the default, 5s at the most.
    #[arg(short, long, value_name = "TIME", value_parser = time::parse)]
    kill_after: Option<Duration>,
    /// The signal that asks the command to end.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    signal: Signal,
    /// Runs the command in the process group of this one, in place of one of its own. What is sent
    /// to that whole group, as by `kill -TERM -PGID`, reaches the command twice: from its sender,
    /// and from here.
    #[arg(long)]
    foreground: bool,
    /// Who holds the lock, for people who wait for it. Program, host and process by default. What
    /// is not ASCII is shown as question marks, and 96 characters at the most.
    #[arg(long, value_name = "TEXT")]
    who: Option<String>,
    /// Why the lock is held, for people who wait for it.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

impl Run {
    /// Returns the exit code.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        // Before there is any other thread.
        signals::unblock();
        outlive_file_limits();
        if !proc::is_visible() {
            let text = "/proc does not show this process: it is of another namespace, or not there";
            return Err(Failure::new(SOFTWARE, text));
        }
        self.check_holds()?;
        let wanted = self.wanted()?;
        let settings = self.place.settings()?;
        let ttl = self.ttl(&settings)?;
        let kill_after = self.kill_after.unwrap_or_else(|| (ttl / 2).min(KILL_AFTER_MAX));
        if Danger::is_hasty(kill_after, ttl) {
            let (kill_after, ttl) = (time::shown(kill_after), time::shown(ttl));
            return Err(Failure::usage(format!(
                "--kill-after {kill_after} is more than half of the ttl of {ttl}: the command \
                 would be asked to end while all is well"
            )));
        }
        let danger = Danger::new(self.on_lost, kill_after, ttl);
        settings.warn(&self.voice);
        if settings.is_local_by_default() {
            self.voice.warn("no nodes are configured: the lock is local to this machine");
        }
        runtime::start()?.block_on(self.under_lock(wanted, &settings, ttl, danger))
    }

    fn check_holds(&self) -> Result<(), Failure> {
        match (self.min_hold, self.max_hold) {
            (Some(least), Some(most)) if most < least => {
                let (least, most) = (time::shown(least), time::shown(most));
                Err(Failure::usage(format!(
                    "--max-hold {most} is less than --min-hold {least}: the lock cannot be held \
                     for both"
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
        // None at all is told by the library.
        if !ttl.is_zero() && ttl < TTL_MIN && self.on_lost != OnLost::Warn {
            let (ttl, least) = (time::shown(ttl), time::shown(TTL_MIN));
            let text = format!(
                "a ttl of {ttl} is too short for a command that must be dead before it ends: it \
                 must be {least} at least, or --on-lost warn"
            );
            return Err(Failure::new(code, text));
        }
        Ok(ttl)
    }

    /// What must be held while the command runs.
    fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        let is_one_lock = self.locks.iter().all(|name| *name == self.name);
        let identity = self.kind.identity(is_one_lock)?;
        let main = match is_one_lock {
            true => self.kind.only(&self.name, &identity),
            false => self.kind.of(&self.name),
        };
        let main = self.kind.taking(self.take, main)?;
        if let Some(part) = self.locks.iter().find(|name| main.has_part(name)) {
            return Err(Failure::usage(format!(
                "{part:?} is one of the locks that the permits of {:?} are made of: it cannot be \
                 held as well",
                self.name
            )));
        }
        let others = self.locks.iter().filter(|name| main.is_permit() || **name != self.name);
        let others = others.map(|name| self.kind.besides(name));
        Ok(Wanted { all: others.chain([main]).collect(), main, identity })
    }

    async fn under_lock(
        &self,
        wanted: Wanted<'_>,
        settings: &Settings,
        ttl: Duration,
        danger: Danger,
    ) -> Result<u8, Failure> {
        let deaf = |error| Failure::system("cannot listen to signals", error);
        let mut signals = Signals::listen().map_err(deaf)?;
        let builder = wanted.identity.put_on(settings.builder()?);
        let builder = match self.introduction() {
            Some(who) => builder.who(who),
            None => builder,
        };
        let acquired = Locks::acquire(builder, &wanted, ttl, &self.patience, &self.voice);
        let acquired = tokio::select! {
            biased;
            signal = signals.end() => Err(signal),
            acquired = acquired => Ok(acquired),
        };
        let locks = match acquired {
            Ok(Ok(locks)) => locks,
            Ok(Err(failure)) if failure.code == BUSY => {
                return Err(Failure { code: self.conflict_exit_code, ..failure });
            }
            Ok(Err(failure)) => return Err(failure),
            // The lock was given up when its future was dropped.
            Err(signal) => {
                self.voice.status("");
                return Ok(by_signal(signal));
            }
        };
        let command = self.argv();
        // The moment first: the guardian is never told a later end.
        let until = Until::now();
        let until = until.after(danger.allowed(locks.left()));
        let (mut variables, voice) = (locks.variables(), &self.voice);
        variables.push(wanted.identity.variable());
        let started = signals
            .listen_to_stops()
            .and_then(|()| Child::start(&command, &variables, self.foreground, until, voice));
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                locks.release(&self.voice).await;
                return Err(not_started(&error));
            }
        };
        let supervisor = Supervisor {
            child: &child,
            locks: &locks,
            danger,
            signal: self.signal,
            max_hold: self.max_hold,
            tell_every: ttl / 10,
            voice: &self.voice,
        };
        let end = supervisor.run(&mut signals).await;
        child.take_terminal_back();
        self.finish(end, locks, &mut signals).await
    }

    async fn finish(&self, end: End, locks: Locks, signals: &mut Signals) -> Result<u8, Failure> {
        let rest = self.min_hold.and_then(|least| least.checked_sub(locks.held_for()));
        // A command that was not there has done nothing: another host may have it.
        let has_run = !matches!(end, End::Finished(NOT_EXECUTABLE | NOT_FOUND));
        let end = match (end, rest.filter(|_| has_run)) {
            // Whoever holds the lock from now on does not disturb a command that is done.
            (End::Finished(code), Some(rest)) if !locks.left().is_zero() => {
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    _ = signals.end() => {}
                }
                locks.release(&self.voice).await;
                return Ok(code);
            }
            (end, _) => end,
        };
        if end == End::Stuck {
            locks.leave();
            return Ok(self.lost_exit_code);
        }
        let was_held = locks.release(&self.voice).await;
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

    /// What people who wait for the lock are told.
    fn introduction(&self) -> Option<String> {
        // A variable of a script that is not set says nothing.
        let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        match (said(&self.who), said(&self.why)) {
            (who, None) => who,
            (who, Some(why)) => {
                let own = || format!("quorate/{}", std::process::id());
                Some(format!("{} ({why})", who.unwrap_or_else(own)))
            }
        }
    }
}

fn not_started(error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            "its arguments and environment, where all names of its locks stand, are too long: "
        }
        _ => "",
    };
    Failure::system("the command was not started", format!("{why}{error}"))
}

pub(crate) fn by_signal(signal: Signal) -> u8 {
    BY_SIGNAL.saturating_add(u8::try_from(signal.as_raw()).unwrap_or(0))
}

/// The shortest ttl of a lock with which a command is ended in time. 50 ms of it are kept to kill;
/// the rest must last for its start, and for a renewal that comes late after a third of it.
const TTL_MIN: Duration = Duration::from_millis(200);

/// As long before the end of the lock as this the command is asked to end, if nothing else is said.
const KILL_AFTER_MAX: Duration = Duration::from_secs(5);

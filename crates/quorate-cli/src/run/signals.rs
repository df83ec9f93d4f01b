//! The signals that the command gets, and passes on.

use std::{fs, future::poll_fn, io, task::Poll};

use nix::sys::signal::{self, SigSet};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What has arrived.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens from now on. What was ignored when we were started stays so, for us and for the
    /// command: `nohup` and jobs in the background count on it. What we need ourselves does not.
    ///
    /// Whoever waits for a lock is stopped by Ctrl-Z like every other program.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let heard = PASSED_ON.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let wanted = heard.chain([Signal::CHILD, Signal::CONT]);
        Ok(Self(wanted.map(listen).collect::<io::Result<_>>()?))
    }

    /// From now on it is the command that Ctrl-Z stops.
    pub(crate) fn listen_to_stops(&mut self) -> io::Result<()> {
        if ignored() & bit(Signal::TSTP) == 0 {
            self.0.push(listen(Signal::TSTP)?);
        }
        Ok(())
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that asks us to end.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }
}

fn listen(signal: Signal) -> io::Result<(Signal, unix::Signal)> {
    Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?))
}

/// Hears every signal, whatever whoever started us has blocked, but for one: what a group that is
/// not in front of its terminal is stopped by when it writes there or puts another in front. Comes
/// first, before any thread is started, so that all of them have it.
pub(crate) fn unblock() {
    let mut set = SigSet::empty();
    set.add(signal::Signal::SIGTTOU);
    // The sets are valid.
    let _ = SigSet::all().thread_unblock();
    let _ = set.thread_block();
}

/// What the kernel says is ignored, one bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    let number = u32::try_from(signal.as_raw()).unwrap_or(0);
    1_u64.checked_shl(number.saturating_sub(1)).unwrap_or(0)
}

/// Reads `TERM`, `SIGTERM` or `15`.
pub(crate) fn parse(text: &str) -> Result<Signal, String> {
    let known = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("KILL", Signal::KILL),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_meant =
        |(known, signal): &(&str, Signal)| *known == name || signal.as_raw().to_string() == name;
    let found = known.into_iter().find(is_meant);
    let wrong = || {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is no signal to end a command by: write {}", names.join(", "))
    };
    found.map(|(_, signal)| signal).ok_or_else(wrong)
}

/// What the command gets if we get it, apart from what stops it.
const PASSED_ON: [Signal; 7] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// What asks us to end.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_name_and_number() {
        for text in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(parse(text), Ok(Signal::TERM), "{text}");
        }
        for wrong in ["", "SIG", "0", "STOP", "99"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("USR1")), "{wrong}");
        }
    }
}

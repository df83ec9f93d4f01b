//! The signals that quorate handles and forwards to the command.

use std::{fs, future::poll_fn, io, task::Poll};

use nix::sys::signal::{self, SigSet};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The handled signals.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Handles signals from now on. Signals that were ignored when this process started stay
    /// ignored, for quorate and the command: `nohup` and background jobs rely on that. Signals that
    /// quorate itself needs are always handled.
    ///
    /// While quorate waits for a lock, Ctrl-Z stops it like any other program.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let forwarded = FORWARDED.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let handled = forwarded.chain([Signal::CHILD, Signal::CONT]);
        Ok(Self(handled.map(listen).collect::<io::Result<_>>()?))
    }

    /// From now on, Ctrl-Z stops the command.
    pub(crate) fn listen_to_stops(&mut self) -> io::Result<()> {
        if ignored() & bit(Signal::TSTP) == 0 {
            self.0.push(listen(Signal::TSTP)?);
        }
        Ok(())
    }

    /// The next signal.
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

    /// The next signal that asks quorate to end.
    pub(crate) async fn next_terminating(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if TERMINATING.contains(&signal) {
                return signal;
            }
        }
    }
}

fn listen(signal: Signal) -> io::Result<(Signal, unix::Signal)> {
    Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?))
}

/// Unblocks all signals, which the parent may have blocked, and blocks SIGTTOU: it would stop a
/// background process that writes to its terminal or changes its foreground group. Must run before
/// any thread is started, because threads inherit the mask.
pub(crate) fn unblock() {
    let mut set = SigSet::empty();
    set.add(signal::Signal::SIGTTOU);
    // Cannot fail: the sets are valid.
    let _ = SigSet::all().thread_unblock();
    let _ = set.thread_block();
}

/// The ignored signals as the kernel reports them, one bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    let number = u32::try_from(signal.as_raw()).unwrap_or(0);
    1_u64.checked_shl(number.saturating_sub(1)).unwrap_or(0)
}

/// Parses `TERM`, `SIGTERM` or `15`.
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
    let matches =
        |(known, signal): &(&str, Signal)| *known == name || signal.as_raw().to_string() == name;
    let found = known.into_iter().find(matches);
    let wrong = || {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("invalid signal {text:?}: use {}, or its number", names.join(", "))
    };
    found.map(|(_, signal)| signal).ok_or_else(wrong)
}

/// The signals that are forwarded to the command, apart from SIGTSTP.
const FORWARDED: [Signal; 7] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// The signals that ask quorate to end.
const TERMINATING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_parsed_by_name_and_number() {
        for text in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(parse(text), Ok(Signal::TERM), "{text}");
        }
        for wrong in ["", "SIG", "0", "STOP", "99"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("USR1")), "{wrong}");
        }
    }
}

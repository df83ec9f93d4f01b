//! `quorate ls --watch`: the list, again and again.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use quorate::{
    blocking::Client,
    inspect::{LockPage, LockReport},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios,
};

use super::{Ls, check_complete};
use crate::{
    cli::print_unless_closed,
    exit::Failure,
    reporter::{Reporter, fitting},
    table::{BOLD, PLAIN, is_dumb},
};

/// Runs until the reader of the output is gone, or this process is interrupted.
pub(super) fn run(ls: &Ls, client: &Client) -> Result<u8, Failure> {
    let is_live = !ls.output.is_json() && io::stdout().is_terminal() && !is_dumb();
    let (mut last, mut last_failure) = (None, None);
    loop {
        let Listing { text, state, failure } = Listing::at(ls, client);
        // Times change all the time, and are no reason to write a list again.
        let is_news = state.is_some() && state != last;
        if is_live || is_news {
            let text = if is_live { screen(&text, failure.as_deref()) } else { text };
            if !print_unless_closed(&text)? {
                return Ok(0);
            }
            last = state;
        }
        if !is_live && failure != last_failure {
            failure.iter().for_each(|text| Reporter::default().warn(text));
        }
        last_failure = failure;
        if !waits_with_a_reader(INTERVAL) {
            return Ok(0);
        }
    }
}

/// The list at one moment.
struct Listing {
    text: String,
    /// `None` if the list could not be read.
    state: Option<Vec<LockState>>,
    /// What is wrong.
    failure: Option<String>,
}

impl Listing {
    fn at(ls: &Ls, client: &Client) -> Self {
        match ls.find(client) {
            Ok(found) => {
                let text = match ls.is_empty(&found) {
                    true => "no locks".to_owned(),
                    false => ls.text(&found),
                };
                let failure = check_complete(&found).err().map(|failure| failure.text);
                Self { text, state: Some(state(&found)), failure }
            }
            Err(failure) => Self { text: String::new(), state: None, failure: Some(failure.text) },
        }
    }
}

/// What a reader notices about a lock: its name, holders, fence and number of waiters.
type LockState = (String, Vec<String>, Option<u64>, u64);

fn state(found: &LockPage) -> Vec<LockState> {
    let of = |lock: &LockReport| {
        let holders = lock.holder.iter().chain(&lock.shared_with);
        let fence = lock.holder.as_ref().and_then(|holder| holder.fence);
        (
            lock.name.clone(),
            holders.map(|holder| holder.who.clone()).collect(),
            fence.map(quorate::fence::Fence::get),
            lock.waiting_total,
        )
    };
    found.locks.iter().map(of).collect()
}

/// The text for a whole terminal. What does not fit is cut.
fn screen(text: &str, failure: Option<&str>) -> String {
    let size = termios::tcgetwinsize(io::stdout()).ok();
    let size = size.filter(|size| size.ws_row > 1 && size.ws_col > 0);
    let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
    let lines: Vec<&str> = text.lines().chain(failure).collect();
    // The cursor is in the last row.
    let room = usize::saturating_sub(rows, 1);
    let count = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    let fit = |line: &&str| match line.strip_prefix(BOLD).and_then(|it| it.strip_suffix(PLAIN)) {
        Some(head) => format!("{BOLD}{}{PLAIN}", fitting(head, columns)),
        None => fitting(line, columns),
    };
    let more = lines.len() - count;
    let more = (more > 0).then(|| format!("and {more} more"));
    let shown: Vec<String> = lines.iter().take(count).map(fit).chain(more).collect();
    format!("{CLEAR}{}", shown.join("\n"))
}

/// Waits for this long. Returns false if standard output has lost its reader meanwhile.
fn waits_with_a_reader(time: Duration) -> bool {
    let out = io::stdout();
    // Without an event, only the loss of the reader ends the wait.
    let mut events = [PollFd::new(&out, PollFlags::empty())];
    let time = Timespec::try_from(time).ok();
    !matches!(poll(&mut events, time.as_ref()), Ok(1..))
}

const INTERVAL: Duration = Duration::from_secs(1);

/// Moves to the first line and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

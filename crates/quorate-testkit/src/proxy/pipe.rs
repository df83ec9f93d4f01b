//! One direction of one proxied connection: what has arrived and has not been forwarded yet.
//!
//! Responsible for order, due times and partial writes. Which flow applies when is decided by
//! `proxy/link.rs`. Sockets are non-blocking and belong to the caller.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How one direction flows under the current fault.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flow {
    /// Forward everything this long after it arrived, which may be no time at all.
    After(Duration),
    /// Forward nothing.
    Hold,
    /// Throw away bytes; hold back the end of the stream.
    Discard,
}

/// How things stand after forwarding what could be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// The rest, if any, is not due or does not fit into the target's buffer yet.
    Open,
    /// The byte budget is used up.
    Cut,
    /// One of the two sides was reset.
    Broken,
}

#[derive(Debug, Default)]
pub(super) struct Pipe {
    queue: VecDeque<Chunk>,
    queued_bytes: usize,
    source_ended: bool,
    target_full: bool,
    finished: bool,
}

#[derive(Debug)]
struct Chunk {
    arrived: Instant,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes { bytes: Vec<u8>, sent: usize },
    Fin,
    Rst,
}

impl Pipe {
    pub(super) fn wants_to_read(&self) -> bool {
        !self.source_ended && self.queued_bytes < QUEUE_LIMIT
    }

    /// Whether forwarding waits for the target to become writable.
    pub(super) fn wants_to_write(&self) -> bool {
        self.target_full
    }

    pub(super) fn target_is_writable(&mut self) {
        self.target_full = false;
    }

    /// Whether the end of the source has been passed on.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes in what the source has, up to one buffer.
    pub(super) fn fill(&mut self, mut source: &TcpStream) {
        let mut buffer = vec![0; READ_SIZE];
        let content = match source.read(&mut buffer) {
            Ok(0) => Content::Fin,
            Ok(count) => {
                buffer.truncate(count);
                Content::Bytes { bytes: buffer, sent: 0 }
            }
            Err(error) if is_transient(&error) => return,
            Err(_) => Content::Rst,
        };
        match &content {
            Content::Bytes { bytes, .. } => self.queued_bytes += bytes.len(),
            Content::Fin | Content::Rst => self.source_ended = true,
        }
        self.queue.push_back(Chunk { arrived: Instant::now(), content });
    }

    /// Forwards what `flow` lets through by now. A `budget` is what may be forwarded at most, and
    /// is counted down.
    pub(super) fn drain(
        &mut self,
        target: &TcpStream,
        flow: Flow,
        now: Instant,
        mut budget: Option<&mut u64>,
    ) -> Drained {
        while !self.target_full {
            let Some(head) = self.queue.front_mut() else {
                break;
            };
            match (flow, &mut head.content) {
                (Flow::Hold, _) | (Flow::Discard, Content::Fin | Content::Rst) => break,
                (Flow::Discard, Content::Bytes { .. }) => self.pop(),
                (Flow::After(delay), _) if !is_due(head.arrived, delay, now) => break,
                (Flow::After(_), Content::Rst) => return Drained::Broken,
                (Flow::After(_), Content::Fin) => {
                    // Fails only if the target is gone, and then there is nobody left to tell.
                    let _ = target.shutdown(Shutdown::Write);
                    self.finished = true;
                    self.pop();
                }
                (Flow::After(_), Content::Bytes { bytes, sent }) => {
                    match send(target, &bytes[*sent..], budget.as_deref_mut()) {
                        Sent::Bytes(count) => *sent += count,
                        Sent::NothingYet => self.target_full = true,
                        Sent::Cut => return Drained::Cut,
                        Sent::Broken => return Drained::Broken,
                    }
                    if *sent == bytes.len() {
                        self.pop();
                    }
                }
            }
        }
        Drained::Open
    }

    /// When there is something to forward again, as far as that depends on time alone.
    pub(super) fn next_due(&self, flow: Flow) -> Option<Instant> {
        match (flow, self.queue.front()) {
            (Flow::After(delay), Some(head)) if !self.target_full => {
                head.arrived.checked_add(delay)
            }
            _ => None,
        }
    }

    fn pop(&mut self) {
        if let Some(Chunk { content: Content::Bytes { bytes, .. }, .. }) = self.queue.pop_front() {
            self.queued_bytes -= bytes.len();
        }
    }
}

enum Sent {
    Bytes(usize),
    NothingYet,
    Cut,
    Broken,
}

/// One write. Reports the cut with the write that uses up the budget, so that the connection is
/// closed then and not only when there is something more to forward.
fn send(mut target: &TcpStream, bytes: &[u8], budget: Option<&mut u64>) -> Sent {
    let allowed = budget
        .as_deref()
        .map_or(bytes.len(), |left| usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len()));
    if allowed == 0 {
        return Sent::Cut;
    }
    match target.write(&bytes[..allowed]) {
        Ok(count) => match budget {
            Some(left) => {
                *left -= count as u64;
                if *left == 0 { Sent::Cut } else { Sent::Bytes(count) }
            }
            None => Sent::Bytes(count),
        },
        Err(error) if error.kind() == ErrorKind::Interrupted => Sent::Bytes(0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::NothingYet,
        Err(_) => Sent::Broken,
    }
}

/// A delay beyond what a clock can count means never.
fn is_due(arrived: Instant, delay: Duration, now: Instant) -> bool {
    arrived.checked_add(delay).is_some_and(|due| due <= now)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

const READ_SIZE: usize = 64 * 1024;

/// Far more than any test has under way; beyond it the sender is slowed down by TCP itself.
const QUEUE_LIMIT: usize = 16 * 1024 * 1024;

//! Single questions to a server, without a client.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A connection for single questions.
pub(super) struct Connection(TcpStream);

impl Connection {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self(stream))
    }

    /// How long each answer may take from now on.
    pub(super) fn wait_for(&self, limit: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(limit))
    }

    /// The answer up to the end of its first line, or of the text whose length that line has.
    /// Empty if the connection was closed instead.
    pub(super) fn ask(&mut self, command: &str) -> io::Result<Vec<u8>> {
        self.0.write_all(format!("{command}\r\n").as_bytes())?;
        let (mut answer, mut part) = (Vec::new(), [0; 4096]);
        while !is_complete(&answer) && answer.len() < ANSWER_MAX {
            match self.0.read(&mut part)? {
                0 => break,
                len => answer.extend_from_slice(&part[..len]),
            }
        }
        Ok(answer)
    }
}

fn is_complete(answer: &[u8]) -> bool {
    let Some(end) = answer.iter().position(|byte| *byte == b'\n') else { return false };
    let text = |line: &[u8]| str::from_utf8(line).ok()?.trim().parse::<usize>().ok();
    match answer[..end].strip_prefix(b"$").and_then(text) {
        Some(len) => answer.len().saturating_sub(end + LINE_ENDS) >= len,
        None => true,
    }
}

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The ends of the first line and of the text.
const LINE_ENDS: usize = 3;
const ANSWER_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_complete_with_its_last_byte() {
        for complete in ["+PONG\r\n", "-ERR no\r\n", "$0\r\n\r\n", "$3\r\nabc\r\n"] {
            assert!(is_complete(complete.as_bytes()), "{complete:?}");
            assert!(!is_complete(&complete.as_bytes()[..2]), "{complete:?}");
        }
        assert!(!is_complete(b"$3\r\na"));
    }
}

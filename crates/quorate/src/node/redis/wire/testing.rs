//! Encoder and decoder for tests that compare a server with the core's store.

use quorate_core::{
    command::{Command, Reply},
    queue::Push,
};

use super::{Answers, Frame, write_command};
use crate::{
    error::NodeError,
    node::redis::script::{Script, Scripts},
};

/// Encodes commands for one server, and decodes what it sends.
#[derive(Clone, Debug)]
pub struct Wire {
    scripts: Scripts,
}

/// A decoded reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decoded {
    /// The reply. In a batch, an entry that failed has none.
    pub reply: Reply,
    /// The errors of these entries, in their order.
    pub errors: Vec<NodeError>,
}

impl Wire {
    /// For a server without scripts: they are sent as text.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { scripts: Scripts::new(prefix.into()) }
    }

    /// The texts of all scripts.
    pub fn texts() -> impl Iterator<Item = &'static str> {
        all().map(Script::text)
    }

    /// Sets the digests under which the server has the scripts, in the order of their texts.
    pub fn set_digests(&mut self, digests: impl IntoIterator<Item = String>) {
        for (script, digest) in all().zip(digests) {
            self.scripts.set(script, digest);
        }
    }

    /// Appends one command.
    pub fn encode(&self, out: &mut Vec<u8>, command: &Command) {
        write_command(out, command, &self.scripts);
    }

    /// The length of the first message in `bytes`; `None` while it is incomplete.
    ///
    /// # Errors
    ///
    /// If this is no RESP3.
    pub fn message_len(bytes: &[u8]) -> Result<Option<usize>, NodeError> {
        Ok(Frame::decode(bytes)?.map(|(_, len)| len))
    }

    /// Decodes a message that is the reply to `command`.
    ///
    /// # Errors
    ///
    /// With the server's error, or if the reply does not fit the command.
    pub fn decode(message: &[u8], command: &Command) -> Result<Decoded, NodeError> {
        let frame = whole(message)?;
        match command {
            Command::Batch(entries) => {
                let Answers { replies, errors } = frame.answers(message, entries)?;
                Ok(Decoded { reply: Reply::Batch(replies), errors })
            }
            single => Ok(Decoded { reply: frame.reply(message, single)?, errors: Vec::new() }),
        }
    }

    /// Decodes a push about a lock; `None` if the message is something else.
    #[must_use]
    pub fn decode_push(&self, message: &[u8]) -> Option<Push> {
        whole(message).ok()?.push(message, self.scripts.prefix())
    }
}

fn whole(message: &[u8]) -> Result<Frame, NodeError> {
    match Frame::decode(message)? {
        Some((frame, _)) => Ok(frame),
        None => Err(NodeError::Protocol("incomplete".into())),
    }
}

fn all() -> impl Iterator<Item = Script> {
    Script::CLASSIC_MEMBERS.iter().chain(Script::QUEUE).chain(OTHERS).copied()
}

/// The scripts that are not loaded when a client attaches.
const OTHERS: &[Script] = &[
    Script::Introduce,
    Script::Handshake,
    Script::Enrol,
    Script::Change,
    Script::Admit,
    Script::Inspect,
    Script::List,
];

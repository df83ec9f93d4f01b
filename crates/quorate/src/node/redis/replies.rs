//! Reads replies one by one, before a link is open.

use quorate_core::command::{Command, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    script::{Script, Scripts},
    target::{Secret, Target},
    transport::{Stream, lost},
    wire::Frame,
};
use crate::error::NodeError;

/// Reads replies one by one.
pub(super) struct Replies<'a> {
    stream: &'a mut Stream,
    pub(super) target: &'a Target,
    bytes: Vec<u8>,
    used: usize,
}

impl<'a> Replies<'a> {
    pub(super) const fn new(stream: &'a mut Stream, target: &'a Target) -> Self {
        Self { stream, target, bytes: Vec::new(), used: 0 }
    }

    /// The first received byte.
    pub(super) fn first(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// The bytes after the replies that were read.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.bytes.split_off(self.used)
    }

    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<(), NodeError> {
        self.stream.writer.write_all(request).await.map_err(|error| lost(&error))
    }

    /// Reads until a whole reply is available.
    pub(super) async fn fill(&mut self) -> Result<(Frame, usize), NodeError> {
        loop {
            if let Some(found) = Frame::decode(&self.bytes[self.used..])? {
                return Ok(found);
            }
            let read = self.stream.reader.read_buf(&mut self.bytes).await;
            if read.map_err(|error| lost(&error))? == 0 {
                return Err(NodeError::ConnectionLost("closed while attaching".into()));
            }
        }
    }

    /// The next reply, with the bytes that it refers to.
    pub(super) async fn next(&mut self) -> Result<(Frame, &[u8]), NodeError> {
        loop {
            let (frame, len) = self.fill().await?;
            let start = self.used;
            self.used += len;
            if !frame.is_push() {
                return Ok((frame, &self.bytes[start..self.used]));
            }
        }
    }

    /// The answer to a subscription: a push, or an error.
    pub(super) async fn expect_subscribed(&mut self) -> Result<(), NodeError> {
        let (frame, len) = self.fill().await?;
        let bytes = &self.bytes[self.used..self.used + len];
        self.used += len;
        match frame.error(bytes) {
            Some(error) => Err(NodeError::from_reply(&without_password(&error, self.target))),
            None if frame.is_push() => Ok(()),
            None => Err(NodeError::Protocol("expected a subscription while attaching".into())),
        }
    }

    pub(super) async fn expect_reply(&mut self, command: &Command) -> Result<Reply, NodeError> {
        let (frame, bytes) = self.next().await?;
        frame.reply(bytes, command)
    }

    /// The server's clock, in microseconds.
    pub(super) async fn expect_time(&mut self) -> Result<u64, NodeError> {
        let texts = self.expect_texts().await?;
        let number = |text: &String| text.parse::<u64>().ok();
        match texts.iter().map(number).collect::<Option<Vec<_>>>().as_deref() {
            Some([seconds, micros]) => Ok(seconds.saturating_mul(1_000_000) + micros),
            _ => Err(NodeError::Protocol("expected a time while attaching".into())),
        }
    }

    /// The value of one setting, if the server has it.
    pub(super) async fn expect_setting(&mut self) -> Result<Option<String>, NodeError> {
        Ok(self.expect_texts().await?.pop())
    }

    pub(super) async fn expect_number(&mut self) -> Result<i64, NodeError> {
        let target = self.target;
        let (frame, bytes) = self.next().await?;
        match (frame.error(bytes), frame.number()) {
            (Some(error), _) => Err(NodeError::from_reply(&without_password(&error, target))),
            (None, Some(number)) => Ok(number),
            (None, None) => Err(NodeError::Protocol("expected a number while attaching".into())),
        }
    }

    /// The digests of the scripts that were loaded.
    pub(super) async fn expect_loads(
        &mut self,
        left: &[Script],
        scripts: &mut Scripts,
    ) -> Result<(), NodeError> {
        for script in left {
            scripts.set(*script, self.expect_text().await?);
        }
        Ok(())
    }

    /// The texts of a list.
    pub(super) async fn expect_texts(&mut self) -> Result<Vec<String>, NodeError> {
        let target = self.target;
        let (frame, bytes) = self.next().await?;
        if let Some(error) = frame.error(bytes) {
            return Err(NodeError::from_reply(&without_password(&error, target)));
        }
        let owned = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match frame.texts(bytes) {
            Some(texts) => Ok(texts.into_iter().map(owned).collect()),
            None => Err(NodeError::Protocol("expected a list while attaching".into())),
        }
    }

    pub(super) async fn expect_text(&mut self) -> Result<String, NodeError> {
        let target = self.target;
        let (frame, bytes) = self.next().await?;
        if let Some(error) = frame.error(bytes) {
            return Err(NodeError::from_reply(&without_password(&error, target)));
        }
        match frame.text(bytes) {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None => Err(NodeError::Protocol("expected a text while attaching".into())),
        }
    }
}

/// Removes the password from a server's text: some servers echo their input. This must come before
/// the text is cut, or a part of the password could remain.
pub(super) fn without_password(text: &str, target: &Target) -> String {
    match target.password.as_ref().map(Secret::expose) {
        Some(password) if !password.is_empty() => text.replace(password, "***"),
        Some(_) | None => text.to_owned(),
    }
}

//! A connection on which commands are sent as the library encodes them, and decoded as it does.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use quorate::{
    error::NodeError,
    simulation::{Decoded, Wire},
};
use quorate_core::{
    command::{Command, Reply},
    moment::NodeTime,
    queue::Push,
};
use quorate_testkit::redis::{
    Cmd, FromRedisValue, RedisResult, Value, cmd, from_redis_value, parse_redis_value,
};

use super::keys::PREFIX;

pub(super) struct Connection {
    stream: TcpStream,
    wire: Wire,
    /// Received and not yet read.
    bytes: Vec<u8>,
}

impl Connection {
    /// Connects to a server. Scripts are sent as text until they are loaded.
    pub(super) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("an ordinary socket");
        stream.set_nodelay(true).expect("an ordinary socket");
        let mut connection = Self { stream, wire: Wire::new(PREFIX), bytes: Vec::new() };
        connection.ask(cmd("HELLO").arg(3)).expect("the server speaks RESP3");
        connection
    }

    /// Loads all scripts, which are called by digest from now on.
    pub(super) fn load_scripts(&mut self) {
        let load = |text| self.fetch(cmd("SCRIPT").arg("LOAD").arg(text));
        let digests: Vec<String> = Wire::texts().map(load).collect();
        self.wire.set_digests(digests);
    }

    /// Appends a command to a request.
    pub(super) fn encode(&self, request: &mut Vec<u8>, command: &Command) {
        self.wire.encode(request, command);
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)
    }

    /// The next message of the server.
    pub(super) fn read(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let len = Wire::message_len(&self.bytes).expect("the server speaks RESP3");
            if let Some(len) = len {
                return Ok(self.bytes.drain(..len).collect());
            }
            let mut part = [0; 64 * 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                len => self.bytes.extend_from_slice(&part[..len]),
            }
        }
    }

    /// The next message, which answers a request that is no command of the library.
    pub(super) fn read_plain(&mut self) -> RedisResult<Value> {
        parse_redis_value(&self.read().expect("the server answers"))?.extract_error()
    }

    /// The next message, which is the reply to this command, in the words of the store.
    pub(super) fn read_reply(&mut self, command: &Command) -> Result<Reply, String> {
        match Wire::decode(&self.read().expect("the server answers"), command) {
            Ok(Decoded { reply, errors }) => with_errors(reply, errors),
            Err(NodeError::OutOfMemory) => Ok(Reply::Full),
            Err(NodeError::SessionLost) => {
                let each = command.entries().iter().map(|_| Some(Reply::Stale));
                Ok(Reply::Batch(each.collect()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The reply to a batch. An entry without a reply has an error.
    pub(super) fn ask_for_batch(&mut self, batch: &Command) -> Result<Decoded, NodeError> {
        let mut request = Vec::new();
        self.encode(&mut request, batch);
        self.send(&request).expect("the server listens");
        Wire::decode(&self.read().expect("the server answers"), batch)
    }

    /// The push that a message is, if it is one.
    pub(super) fn push(&self, message: &[u8]) -> Option<Push> {
        self.wire.decode_push(message)
    }

    /// Sends a request that is no command of the library.
    pub(super) fn ask(&mut self, request: &Cmd) -> RedisResult<Value> {
        self.send(&request.get_packed_command()).expect("the server listens");
        self.read_plain()
    }

    pub(super) fn fetch<T: FromRedisValue>(&mut self, request: &Cmd) -> T {
        from_redis_value(self.ask(request).expect("the server answers")).expect("another type")
    }

    pub(super) fn now(&mut self) -> NodeTime {
        time(self.ask(&cmd("TIME")).expect("the server answers"))
    }

    /// Deletes everything, and gives the server memory.
    pub(super) fn clear(&mut self) {
        self.ask(&cmd("FLUSHALL")).expect("the server answers");
        self.ask(&fill(false)).expect("the server answers");
    }
}

/// A full server refuses what is new. The store says so with a reply.
fn with_errors(reply: Reply, errors: Vec<NodeError>) -> Result<Reply, String> {
    if errors.iter().any(|error| *error != NodeError::OutOfMemory) {
        return Err(format!("{reply:?}, {errors:?}"));
    }
    Ok(match reply {
        Reply::Batch(each) => {
            Reply::Batch(each.into_iter().map(|reply| reply.or(Some(Reply::Full))).collect())
        }
        single => single,
    })
}

/// Any use of memory is above this limit, or there is none.
pub(super) fn fill(is_full: bool) -> Cmd {
    let mut set = cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(u8::from(is_full));
    set
}

pub(super) fn time(answer: Value) -> NodeTime {
    let (seconds, micros): (u64, u64) = from_redis_value(answer).expect("a time");
    NodeTime::from_micros(seconds * 1_000_000 + micros)
}

const PATIENCE: Duration = Duration::from_secs(20);

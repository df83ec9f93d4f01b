//! The server's side: steps as requests, answers as replies of the core.

use std::time::{Duration, Instant};

use quorate_core::{command::Reply, moment::NodeTime};
use quorate_testkit::{Clock, Server, redis::cmd};

use super::{
    super::{
        connection::{Connection, fill, time},
        keys::record_key,
    },
    draw::Step,
};

/// A server whose clock stands still unless it is set, and the connection on which it is asked.
pub(super) struct Node<'a> {
    connection: Connection,
    clock: &'a Clock,
    /// It counts microseconds by itself: only at the beginning of a millisecond is it safe from
    /// running into the next.
    is_counting: bool,
}

/// What came back for a batch.
pub(super) struct Answered {
    /// The server's time before the first step.
    pub(super) from: NodeTime,
    /// The server's time after the last step.
    pub(super) to: NodeTime,
    /// One entry for each step; only our own commands have a reply.
    pub(super) replies: Vec<Option<Result<Reply, String>>>,
}

impl<'a> Node<'a> {
    pub(super) fn connect(server: &'a Server) -> Self {
        let mut connection = Connection::open(&server.address());
        connection.load_scripts();
        let info: String = connection.fetch(cmd("INFO").arg("server"));
        let is_counting = info.contains("valkey_version:");
        let clock = server.clock();
        clock.stop();
        Self { connection, clock, is_counting }
    }

    /// What the clock shows.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.time_us()
    }

    /// Sets the clock to a millisecond, and to these microseconds of it if the server allows that.
    pub(super) fn set_clock(&mut self, to_ms: u64, micros: u64) {
        let micros = if self.is_counting { 0 } else { micros };
        let (from_us, to_us) = (self.now_us(), to_ms * 1_000 + micros);
        self.clock.forward(Duration::from_micros(to_us.saturating_sub(from_us)));
        self.clock.back(Duration::from_micros(from_us.saturating_sub(to_us)));
        let deadline = Instant::now() + SEEN_WITHIN;
        while self.connection.now().as_millis() != to_ms {
            assert!(Instant::now() < deadline, "the server does not see its clock");
        }
    }

    /// Runs the steps on the server, in one piece. Before that it reads each of `keys`: what has
    /// expired is deleted then and does not count.
    pub(super) fn ask(&mut self, steps: &[Step], keys: &[String]) -> Answered {
        let mut request = cmd("TIME").get_packed_command();
        request.extend(cmd("EXISTS").arg(keys).get_packed_command());
        steps.iter().for_each(|step| self.write(&mut request, step));
        request.extend(cmd("TIME").get_packed_command());
        let connection = &mut self.connection;
        connection.send(&request).expect("the server listens");
        let from = time(connection.read_plain().expect("a time"));
        connection.read_plain().expect("a number of keys");
        let replies = steps.iter().map(|step| match step {
            Step::Ask(command) => Some(connection.read_reply(command)),
            Step::Plant { .. }
            | Step::Forget { .. }
            | Step::Clear
            | Step::Fill(_)
            | Step::OtherRun => {
                connection.read_plain().expect("the server does what another program asks");
                None
            }
        });
        let replies = replies.collect();
        Answered { from, to: time(connection.read_plain().expect("a time")), replies }
    }

    /// Deletes everything, and gives the server memory.
    pub(super) fn clear(&mut self) {
        self.connection.clear();
    }

    fn write(&self, request: &mut Vec<u8>, step: &Step) {
        let plain = match step {
            Step::Ask(command) => return self.connection.encode(request, command),
            Step::Plant { name, ttl_ms } => {
                let mut set = cmd("SET");
                set.arg(name.as_bytes()).arg("something");
                if let Some(ttl_ms) = ttl_ms {
                    set.arg("PX").arg(ttl_ms);
                }
                set
            }
            Step::Forget { name } => cmd("DEL").arg(name.as_bytes()).clone(),
            Step::Clear => cmd("FLUSHALL"),
            Step::Fill(is_full) => fill(*is_full),
            Step::OtherRun => cmd("HSET").arg(record_key()).arg("run").arg("other").clone(),
        };
        request.extend(plain.get_packed_command());
    }
}

const SEEN_WITHIN: Duration = Duration::from_secs(20);

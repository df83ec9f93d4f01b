//! What the scripts cost on the server, beside the plain compare-and-delete: the server's own count
//! of the time in each call.

use quorate_testkit::{
    Server,
    redis::{Cmd, Connection, cmd, pipe},
    script,
};

use crate::{
    bare::FREE,
    table::{line, median, ratio},
};

/// Runs every contestant in turn, each on the same locks.
pub(crate) fn run(quick: bool) {
    let server = Server::builder().cpu(1).start();
    let rounds = if quick { 21 } else { 401 };
    let mut listener = server.connection();
    let mut listener = listener.as_pubsub();
    listener.subscribe(format!("quorate:c:{NEXT}")).expect("the server is up");
    let mut fixture = Fixture::new(&server);
    let mut costs: Vec<(&str, Vec<f64>)> = Vec::new();
    for round in 0..=rounds {
        let costs_of_round = fixture.round();
        // The first round warms up.
        if round > 0 {
            if costs.is_empty() {
                costs = costs_of_round.iter().map(|(name, _)| (*name, Vec::new())).collect();
            }
            for ((_, known), (_, cost)) in costs.iter_mut().zip(costs_of_round) {
                known.push(cost);
            }
        }
    }
    line("| script | µs on the server | / compare-and-delete |");
    line("|---|---|---|");
    let plain = costs[0].1.clone();
    for (name, costs) in &costs {
        line(&format!("| {name} | {:.2} | {} |", median(costs), ratio(costs, &plain)));
    }
}

struct Fixture {
    connection: Connection,
    free: String,
    attach: String,
    acquire: String,
    release: String,
    extend: String,
}

impl Fixture {
    fn new(server: &Server) -> Self {
        let mut connection = server.connection();
        let mut load = |text: &str| -> String {
            let loaded = cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection);
            loaded.expect("the server takes the script")
        };
        let free = load(FREE);
        let acquire = load(&script("queue/acquire.lua"));
        let release = load(&script("queue/release.lua"));
        let extend = load(&script("queue/extend.lua"));
        let attach = load(&script("queue/attach.lua"));
        Self { connection, free, attach, acquire, release, extend }
    }

    /// Every contestant once, on as many locks.
    fn round(&mut self) -> Vec<(&'static str, f64)> {
        self.attach();
        let ticket = self.now_us();
        let plain = |lock: usize| {
            let mut set = cmd("SET");
            set.arg(format!("bench:{lock}")).arg(owner(FIRST, ticket)).arg("PX").arg(TTL_MS);
            set
        };
        let free = |fixture: &Self, lock: usize| {
            let mut eval = cmd("EVALSHA");
            eval.arg(&fixture.free).arg(1).arg(format!("bench:{lock}")).arg(owner(FIRST, ticket));
            eval
        };
        self.run(|_, lock| plain(lock));
        let free = self.run(free);
        let first = self.run(|fixture, lock| fixture.acquire(lock, FIRST, ticket));
        let extended = self.run(|fixture, lock| fixture.extend(lock, FIRST, ticket));
        let released = self.run(|fixture, lock| fixture.release(lock, FIRST, ticket));
        self.run(|fixture, lock| fixture.acquire(lock, FIRST, ticket + 1));
        let queued = self.run(|fixture, lock| fixture.acquire(lock, NEXT, ticket + 2));
        let handed_off = self.run(|fixture, lock| fixture.release(lock, FIRST, ticket + 1));
        self.run(|fixture, lock| fixture.release(lock, NEXT, ticket + 2));
        vec![
            ("compare-and-delete", free),
            ("acquire", first),
            ("release", released),
            ("extend", extended),
            ("acquire, queued", queued),
            ("release with hand-off", handed_off),
        ]
    }

    /// The node stops trusting the tickets of a session that sent nothing for 10 s.
    fn attach(&mut self) {
        for client in [FIRST, NEXT] {
            let mut eval = cmd("EVALSHA");
            eval.arg(&self.attach).arg(2).arg(format!("quorate:s:{client}")).arg("quorate:node");
            eval.arg(SESSION).arg(SESSION_MS).arg("").arg(SLACK_US).arg(0);
            eval.exec(&mut self.connection).expect("the server answers");
        }
    }

    /// Microseconds per call of a script, by the server's own count.
    fn run(&mut self, request: impl Fn(&Self, usize) -> Cmd) -> f64 {
        cmd("CONFIG").arg("RESETSTAT").exec(&mut self.connection).expect("the server answers");
        for start in (0..LOCKS).step_by(PIPELINED) {
            let mut pipeline = pipe();
            for lock in start..start + PIPELINED {
                pipeline.add_command(request(self, lock)).ignore();
            }
            pipeline.exec(&mut self.connection).expect("the server answers");
        }
        let stats: String = cmd("INFO")
            .arg("commandstats")
            .query(&mut self.connection)
            .expect("the server answers");
        let found = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        let cost = found.and_then(|line| line.split("usec_per_call=").nth(1)?.split(',').next());
        cost.map_or(0.0, |cost| cost.parse().expect("a number"))
    }

    fn acquire(&self, lock: usize, client: &str, ticket: u64) -> Cmd {
        let mut eval = keys(&self.acquire, 4, lock);
        eval.arg(format!("quorate:s:{client}")).arg(owner(client, ticket)).arg(SESSION);
        eval.arg(format!("{ticket:016}")).arg(TTL_MS).arg(u8::from(client == NEXT)).arg(0);
        eval
    }

    fn release(&self, lock: usize, client: &str, ticket: u64) -> Cmd {
        let mut eval = keys(&self.release, 3, lock);
        eval.arg(owner(client, ticket));
        eval
    }

    fn extend(&self, lock: usize, client: &str, ticket: u64) -> Cmd {
        let mut eval = cmd("EVALSHA");
        eval.arg(&self.extend).arg(4).arg(format!("quorate:s:{client}"));
        side_keys(&mut eval, lock);
        eval.arg(SESSION).arg(owner(client, ticket)).arg(format!("{ticket:016}"));
        eval.arg(2 * TTL_MS).arg(1);
        eval
    }

    fn now_us(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) =
            cmd("TIME").query(&mut self.connection).expect("the server answers");
        seconds * 1_000_000 + micros
    }
}

fn keys(digest: &str, count: usize, lock: usize) -> Cmd {
    let mut eval = cmd("EVALSHA");
    eval.arg(digest).arg(count);
    side_keys(&mut eval, lock);
    eval
}

fn side_keys(eval: &mut Cmd, lock: usize) {
    eval.arg(format!("bench:{lock}"));
    eval.arg(format!("quorate:f:{{bench:{lock}}}")).arg(format!("quorate:q:{{bench:{lock}}}"));
}

fn owner(client: &str, ticket: u64) -> String {
    format!("q1:{ticket:016}:{TTL_MS}:{client}:1")
}

const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
const NEXT: &str = "76543210fedcba9876543210fedcba9876543210";
const SESSION: &str = "0123456789abcdef0123456789abcdef";
const SLACK_US: u64 = 10_000_000;
const SESSION_MS: u64 = 3_600_000;
const TTL_MS: u64 = 30_000;
const LOCKS: usize = 400;
const PIPELINED: usize = 100;

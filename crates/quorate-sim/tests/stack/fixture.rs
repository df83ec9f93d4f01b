//! A whole simulation: servers, programs with the library in them, and the network between them.

use std::{
    cell::{Cell, RefCell},
    fmt,
    io::Write as _,
    rc::Rc,
    time::Duration,
};

use quorate::{Client, ClientBuilder, Guard, fence::Fence};
use turmoil::Sim;

use crate::{
    claims::{Claim, Claims, Hold},
    dice::Dice,
    network::{STRAGGLE_MAX_MS, Sockets, Wires},
    server::{EPOCH_US, Node, PORT},
    trace::{Trace, Witness, now},
};

/// One simulation.
pub(crate) struct Fixture {
    pub(crate) sim: Sim<'static>,
    pub(crate) nodes: Vec<Rc<Node>>,
    pub(crate) claims: Claims,
    pub(crate) trace: Trace,
    pub(crate) wires: Wires,
    /// A failure prints the end of the trace.
    pub(crate) prints_failure: bool,
    mode: Mode,
    max_ttl: Option<Duration>,
    seed: u64,
    programs: Vec<Program>,
}

/// How the clients of a simulation wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Queue,
    Classic,
}

impl Fixture {
    /// This number of servers, and a network whose messages take up to `latency_max`.
    pub(crate) fn new(seed: u64, nodes: usize, latency_max: Duration) -> Self {
        Self::with_tick(seed, nodes, (TICK, latency_max))
    }

    /// The same with another tick. A longer one runs faster, and delays every message by as much.
    pub(crate) fn with_tick(
        seed: u64,
        nodes: usize,
        (tick, latency_max): (Duration, Duration),
    ) -> Self {
        let mut dice = Dice::new(seed, "stage");
        let (trace, wires) = (Trace::default(), Wires::default());
        let mut sim = turmoil::Builder::new()
            .rng_seed(dice.next())
            // A message arrives in the next tick at the earliest: hosts run one after another, and
            // none may receive a message from its future.
            .min_message_latency(tick)
            .max_message_latency(latency_max)
            .tick_duration(tick)
            .enable_random_order()
            .build();
        // All clocks run at rates within one per cent of each other, as the default drift allows
        // for. Those of the programs run at the true rate.
        let slowest_ppm = -i64::try_from(dice.below(RATES_PPM + 1)).expect("small");
        let mut fast_ppm = || match dice.below(3) {
            0 => slowest_ppm,
            1 => slowest_ppm + i64::try_from(RATES_PPM).expect("small"),
            _ => slowest_ppm + i64::try_from(dice.below(RATES_PPM + 1)).expect("small"),
        };
        let nodes: Vec<_> =
            (0..nodes).map(|number| Node::new(number, fast_ppm(), &wires, &trace)).collect();
        for node in &nodes {
            let process = node.clone();
            sim.host(Node::host(node.number), move || process.clone().run());
        }
        let claims = Claims::new(&trace);
        // Two of three seeds: what users get.
        let mode = if Dice::new(seed, "mode").below(3) == 0 { Mode::Classic } else { Mode::Queue };
        let (max_ttl, programs) = (None, Vec::new());
        Self {
            sim,
            nodes,
            claims,
            trace,
            wires,
            prints_failure: true,
            mode,
            max_ttl,
            seed,
            programs,
        }
    }

    /// In the default mode, whatever the seed draws.
    pub(crate) fn in_default_mode(mut self) -> Self {
        self.mode = Mode::Queue;
        self
    }

    /// With quarantine and this `max_ttl`.
    pub(crate) fn quarantined(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The mode that the seed has drawn.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Adds a host that runs this program, and runs it again after a restart.
    pub(crate) fn program<F>(&mut self, host: &str, run: impl Fn(Program) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.program_with_clock(host, 0, run);
    }

    /// The same with a wall clock that is ahead.
    pub(crate) fn program_with_clock<F>(
        &mut self,
        host: &str,
        wall_ahead_ms: i64,
        run: impl Fn(Program) -> F + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let program = Program {
            host: host.into(),
            mode: self.mode,
            max_ttl: self.max_ttl,
            wall_ahead_ms,
            seed: self.seed,
            runs: Rc::default(),
            is_done: Rc::default(),
            sockets: Rc::default(),
            wires: self.wires.clone(),
            nodes: self.nodes.clone(),
            claims: self.claims.clone(),
            trace: self.trace.clone(),
        };
        self.programs.push(program.clone());
        self.sim.host(host, move || {
            let program = program.clone();
            program.runs.set(program.runs.get() + 1);
            program.sockets.borrow_mut().push(Sockets::new(&program.wires));
            let work = run(program.clone());
            async move {
                work.await;
                program.is_done.set(true);
                Ok(())
            }
        });
    }

    /// The true time.
    pub(crate) fn now(&self) -> Duration {
        self.sim.elapsed()
    }

    /// Runs until all programs are done, with `between` after every tick. Panics after `limit`.
    pub(crate) fn run(&mut self, limit: Duration, mut between: impl FnMut(&mut Self)) {
        while !self.programs.iter().all(|program| program.is_done.get()) {
            assert!(self.now() < limit, "the programs are not done after {limit:?}");
            self.step();
            between(self);
        }
        for node in &self.nodes {
            assert_eq!(node.refused(), 0, "node-{} was sent what it does not know", node.number);
        }
    }

    /// Panics if keys or waiters are left after the time in which they must expire. Killed
    /// processes and late bytes may leave some behind until then.
    pub(crate) fn assert_nothing_left(&mut self, longest: Duration) {
        self.pass(Duration::from_millis(STRAGGLE_MAX_MS) + longest + longest / 50);
        let now = self.now();
        for node in &self.nodes {
            assert_eq!(node.names(now), [""; 0], "keys on node-{}", node.number);
        }
        self.pass(longest + longest / 50);
        let now = self.now();
        for node in &self.nodes {
            assert_eq!(node.queues(now), [""; 0], "queues on node-{}", node.number);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until {
            self.step();
        }
    }

    /// Kills the process of a program: it sends nothing any more. [`Sim::bounce`] restarts it.
    pub(crate) fn kill(&mut self, host: &str) {
        let program = self.programs.iter().find(|program| program.host == host);
        program.expect("there is such a program").sockets().kill();
        self.wires.cut_all(self.sim.lookup(host));
        self.claims.end_all_of(host, self.sim.elapsed());
        self.trace.add_at(self.sim.elapsed(), format_args!("{host} is killed"));
        self.sim.crash(host);
    }

    fn step(&mut self) {
        if let Err(error) = self.sim.step() {
            panic!("{error}");
        }
        self.claims.check();
    }
}

/// A seed's latencies, this number of servers, and one program.
pub(crate) fn play<F>(seed: u64, nodes: usize, story: impl Fn(Program, Dice) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let mut fixture = Fixture::new(seed, nodes, Dice::new(seed, "latency").ms(1..=8));
    fixture.program("client-0", move |program| {
        let dice = program.dice("story");
        story(program, dice)
    });
    fixture.run(Duration::from_secs(60), |_| {});
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() && self.prints_failure {
            // A failure to write must not hide the failure of the test.
            let _ = writeln!(std::io::stderr(), "{}", self.trace.story(SHOWN_LINES));
            if let Some(path) = std::env::var_os("QUORATE_TRACE") {
                let _ = std::fs::write(path, self.trace.story(usize::MAX));
            }
        }
    }
}

/// The environment of a program of the simulation.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) host: String,
    pub(crate) nodes: Vec<Rc<Node>>,
    pub(crate) claims: Claims,
    pub(crate) mode: Mode,
    max_ttl: Option<Duration>,
    wall_ahead_ms: i64,
    trace: Trace,
    wires: Wires,
    seed: u64,
    runs: Rc<Cell<u32>>,
    is_done: Rc<Cell<bool>>,
    /// Of each run; those of runs that were killed are kept to the end.
    sockets: Rc<RefCell<Vec<Sockets>>>,
}

impl Program {
    /// Decisions of this run of the program.
    pub(crate) fn dice(&self, purpose: &str) -> Dice {
        Dice::new(self.seed, &format!("{} {} {purpose}", self.host, self.runs.get()))
    }

    /// This program holds the lock of `guard`, until the claim is dropped.
    pub(crate) fn claim(&self, guard: &Guard) -> Claim {
        let fence = guard.fence().map(Fence::get);
        // In the default mode only readers have no fence.
        let is_shared = self.mode == Mode::Queue && fence.is_none();
        let hold = Hold { fence, is_shared, ..Hold::default() };
        self.claims.begin(&self.host, guard.name(), hold)
    }

    /// Adds an action of this program to the trace.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.add(format_args!("{} {what}", self.host));
    }

    /// Breaks the connections to a server.
    pub(crate) fn cut(&self, node: usize) {
        self.wires.cut(turmoil::lookup(self.host.as_str()), &Node::host(node));
    }

    fn sockets(&self) -> Sockets {
        self.sockets.borrow().last().expect("it runs").clone()
    }

    /// A client of all servers on the simulated network. Its random numbers come from the seed.
    pub(crate) fn client(&self, purpose: &str) -> ClientBuilder {
        let urls =
            self.nodes.iter().map(|node| format!("redis://{}:{PORT}", Node::host(node.number)));
        let (who, sockets) = (format!("{}{purpose}", self.host), self.sockets());
        let witness =
            Witness { who: who.clone(), sockets: sockets.clone(), trace: self.trace.clone() };
        let settings = match self.mode {
            Mode::Queue => Client::builder(),
            Mode::Classic => Client::builder().classic(),
        };
        let settings = match self.max_ttl {
            Some(max_ttl) => settings.max_ttl(max_ttl),
            None => settings,
        };
        let wall_ms = EPOCH_US / 1_000 + i64::try_from(now().as_millis()).expect("short");
        settings
            .quarantine(self.max_ttl.is_some())
            .nodes(urls)
            .who(who)
            .observer(witness)
            .danger_engine_on_this_runtime()
            .danger_network(sockets)
            .danger_seed(self.dice(purpose).next())
            .danger_wall_clock_ahead(wall_ms + self.wall_ahead_ms)
    }
}

/// How long every host runs before the next one does.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// How far the rates of two clocks may differ, in parts per million.
const RATES_PPM: usize = 9_900;

/// How much of the trace a failure shows.
const SHOWN_LINES: usize = 80;

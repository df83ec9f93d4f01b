//! Our mutex beside the bare limit, the `redis` crate's connection and rslock: uncontended pairs of
//! lock and unlock, and what they cost the client and the servers.

mod contestant;
mod other_build;

use std::{rc::Rc, time::Duration};

use quorate_testkit::Server;

pub(crate) use self::other_build::contestant;
use self::{
    contestant::{Contestant, Round},
    other_build::OtherBuild,
};
use crate::{
    bare::Bare,
    cpu,
    multiplexed::Multiplexed,
    options::{LimitOptions, Mode, Options},
    setup::{Plan, open_servers, quarantined_servers},
    table::{line, median, ratio},
};

/// Compares at each number of nodes, with each number of callers, in each mode.
pub(crate) async fn run(options: &Options) {
    let limit = &options.limit;
    let plan = plan(options);
    line(
        "| nodes | callers | client | pairs/s | / limit | / rslock | / other build \
         | µs per pair: client | servers |",
    );
    line("|---|---|---|---|---|---|---|---|---|");
    for count in options.nodes() {
        let sets = Sets::start(*count).await;
        for callers in &limit.callers {
            let mut seats = seats(&sets, *callers, limit).await;
            measure(&mut seats, *callers, &plan).await;
            print(&seats, *count, *callers);
        }
    }
}

fn plan(options: &Options) -> Plan {
    let plan = Plan::new(options.quick);
    match options.limit.seconds {
        Some(seconds) => {
            let rounds = (seconds / plan.time.as_secs_f64()).round().max(1.0) as usize;
            Plan { rounds, ..plan }
        }
        None => plan,
    }
}

/// All clients of a node use quarantine, or none does. The set that is idle costs next to nothing.
struct Sets {
    open: Vec<Server>,
    quarantined: Vec<Server>,
}

impl Sets {
    async fn start(count: usize) -> Self {
        let (open, quarantined) = (open_servers(count), quarantined_servers(count).await);
        Self { open, quarantined }
    }

    fn of(&self, mode: Mode) -> &[Server] {
        if mode.has_quarantine(self.open.len()) { &self.quarantined } else { &self.open }
    }
}

/// A contestant and its results.
struct Seat<'a> {
    name: String,
    servers: &'a [Server],
    client: Client,
    rates: Vec<f64>,
    client_us: Vec<f64>,
    server_us: Vec<f64>,
}

enum Client {
    Here(Contestant),
    OtherBuild(OtherBuild),
}

impl<'a> Seat<'a> {
    fn new(name: impl Into<String>, servers: &'a [Server], client: Client) -> Self {
        let (rates, client_us, server_us) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.into(), servers, client, rates, client_us, server_us }
    }

    async fn round(&mut self, callers: usize, time: Duration, is_warm: bool) {
        let used = cpu::of_servers(self.servers);
        let Round { pairs, cpu } = match &mut self.client {
            Client::Here(contestant) => contestant.round(&self.name, callers, time).await,
            Client::OtherBuild(build) => build.round(time),
        };
        if is_warm {
            let per_pair = |cpu: Duration| cpu.as_secs_f64() * 1e6 / pairs.count as f64;
            self.rates.push(pairs.per_second());
            self.client_us.push(per_pair(cpu));
            self.server_us.push(per_pair(cpu::of_servers(self.servers) - used));
        }
    }
}

/// All that take part.
async fn seats<'a>(sets: &'a Sets, callers: usize, options: &LimitOptions) -> Vec<Seat<'a>> {
    let mut seats = if options.alone { Vec::new() } else { others(&sets.open).await };
    for mode in &options.mode {
        let servers = sets.of(*mode);
        let ours = Contestant::quorate(*mode, &urls(servers)).await;
        seats.push(Seat::new(mode.name(), servers, Client::Here(ours)));
        if let Some(program) = &options.against {
            let build = OtherBuild::start(program, *mode, callers, &urls(servers));
            let name = of_other_build(&mode.name());
            seats.push(Seat::new(name, servers, Client::OtherBuild(build)));
        }
    }
    seats
}

/// All but ours.
async fn others(servers: &[Server]) -> Vec<Seat<'_>> {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let bare = Contestant::Bare(Rc::new(Bare::connect(&addresses, usize::MAX).await));
    let gathered = Contestant::Bare(Rc::new(Bare::connect(&addresses, 16).await));
    let multiplexed = Multiplexed::connect(&urls(servers)).await;
    let multiplexed = Contestant::Multiplexed(Rc::new(multiplexed));
    let rslock = Contestant::rslock(&urls(servers));
    let named =
        [(BARE, bare), (GATHERED, gathered), ("redis crate", multiplexed), (RSLOCK, rslock)];
    let seat = |(name, contestant)| Seat::new(name, servers, Client::Here(contestant));
    named.into_iter().map(seat).collect()
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

/// They take turns, and each round starts with the next one.
async fn measure(seats: &mut [Seat<'_>], callers: usize, plan: &Plan) {
    for round in 0..=plan.rounds {
        for turn in 0..seats.len() {
            let seat = (round + turn) % seats.len();
            // The first round warms up.
            seats[seat].round(callers, plan.time, round > 0).await;
        }
    }
}

fn print(seats: &[Seat<'_>], nodes: usize, callers: usize) {
    let named = |name: &str| seats.iter().find(|seat| seat.name == name);
    // The faster one is the limit.
    let limits = [named(BARE), named(GATHERED)].into_iter().flatten();
    let limit = limits.max_by(|a, b| median(&a.rates).total_cmp(&median(&b.rates)));
    for seat in seats {
        let beside = |theirs: Option<&Seat<'_>>| {
            theirs.map_or_else(|| "–".to_owned(), |theirs| ratio(&seat.rates, &theirs.rates))
        };
        let [limit, rslock, other] =
            [limit, named(RSLOCK), named(&of_other_build(&seat.name))].map(beside);
        let (name, rate) = (&seat.name, median(&seat.rates));
        let (client, server) = (median(&seat.client_us), median(&seat.server_us));
        line(&format!(
            "| {nodes} | {callers} | {name} | {rate:.0} | {limit} | {rslock} | {other} | \
             {client:.2} | {server:.2} |"
        ));
    }
}

/// The name of the same mode in the other build.
fn of_other_build(name: &str) -> String {
    format!("{name}, other build")
}

const BARE: &str = "bare";
const GATHERED: &str = "bare, 16 gathered";
const RSLOCK: &str = "rslock";

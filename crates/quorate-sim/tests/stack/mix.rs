//! Random mixes of users on servers with quarantine: servers forget, links break, programs are
//! killed.

mod leases;
mod mishaps;
mod mutants;
mod settings;
mod user;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use tokio::time::sleep;

use self::{
    leases::Mailbox,
    mishaps::Mishaps,
    settings::{Forgetting, Settings, TICK_MS},
    user::{User, WAIT_MAX},
};
use crate::{
    chaos::{Chaos, program_host},
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    trace::now,
    waiting::eventually,
};

#[test]
fn locks_stay_exclusive_and_fences_grow_while_servers_forget() {
    let seen = RefCell::new(vec![0_u32; EVENTS.len()]);
    let seeds = for_seeds(SEEDS, |seed| {
        let trace = run(seed);
        for (count, event) in seen.borrow_mut().iter_mut().zip(EVENTS) {
            *count += u32::from(trace.iter().any(|line| line.contains(event)));
        }
    });
    for (count, event) in seen.borrow().iter().zip(EVENTS) {
        assert!(*count > 0 || seeds < SEEDS, "no seed had this in its trace: {event}");
    }
}

/// Runs one mix and returns its trace.
pub(crate) fn run(seed: u64) -> Vec<String> {
    play(seed, true)
}

/// Runs one mix. A failure prints the end of the trace, unless it is expected.
fn play(seed: u64, prints_failure: bool) -> Vec<String> {
    let settings = Settings::draw(seed);
    let times = (Duration::from_millis(TICK_MS), settings.latency_max);
    let mut fixture = Fixture::with_tick(seed, settings.nodes, times).quarantined(settings.max_ttl);
    fixture.prints_failure = prints_failure;
    fixture.trace.add_at(Duration::ZERO, format_args!("{:?} {settings:?}", fixture.mode()));
    set_clocks(&fixture, &settings);
    if settings.forgetting == Forgetting::Both {
        fixture.claims.allow_any_fence();
    }
    let mailbox = Rc::new(Mailbox::default());
    for number in 0..settings.programs {
        let mailbox = mailbox.clone();
        let wall_ahead_ms = settings.wall_ahead_ms(seed, number);
        fixture.program_with_clock(&program_host(number), wall_ahead_ms, move |program| {
            User { settings, mailbox: mailbox.clone(), program }.play()
        });
    }
    let is_set_up = Rc::new(Cell::new(false));
    let is_ready = is_set_up.clone();
    fixture.program("operator", move |program| operate(program, settings, is_ready.clone()));
    let mut chaos = Chaos::new(&fixture, settings.programs, settings.chaos_until);
    chaos = chaos.calm(settings.pause_max);
    let mut mishaps = Mishaps::new(seed, settings);
    fixture.run(settings.chaos_until + 4 * WAIT_MAX, |fixture| {
        chaos.step(fixture);
        if is_set_up.get() {
            mishaps.step(fixture);
        }
    });
    // Keys that a server copied from one whose clock is ahead last longer by that much.
    fixture.assert_nothing_left(settings.max_ttl + settings.quarantine() / 4);
    fixture.trace.lines()
}

/// Sets the clocks of the servers apart, within the bound under which fences grow.
fn set_clocks(fixture: &Fixture, settings: &Settings) {
    let mut dice = Dice::new(fixture.seed(), "clocks");
    let spread_ms = u64::try_from(settings.quarantine().as_millis() / 4).expect("short");
    for node in &fixture.nodes {
        let ahead = dice.ms(0..=spread_ms).as_millis();
        node.step_clock(i64::try_from(ahead).expect("short"));
    }
}

/// Admits the new servers. At the end it vouches for them if too many have forgotten the set.
async fn operate(program: Program, settings: Settings, is_set_up: Rc<Cell<bool>>) {
    let client = program
        .client("")
        .ttl(settings.ttl)
        .durable_nodes(settings.is_durable)
        .build()
        .expect("valid");
    if settings.is_admitted {
        // A server that hangs makes it fail. Then all servers wait for the end of their quarantine.
        let _ = client.admit().await;
    }
    let all_vote = || program.nodes.iter().all(|node| node.votes());
    eventually(2 * settings.quarantine() + PATIENCE, "all servers vote", all_vote).await;
    is_set_up.set(true);
    let rest = settings.chaos_until.saturating_sub(now());
    sleep(rest + Duration::from_secs(1)).await;
    if settings.is_reckless && !all_vote() {
        // The check below shows whether it helped.
        let _ = client.vouch_for_nodes().await;
    }
    eventually(2 * settings.quarantine() + PATIENCE, "all servers vote", all_vote).await;
}

/// How much longer than its quarantine a server may need to vote again, due to faults of links.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many seeds an ordinary run has.
const SEEDS: u64 = 40;

/// Texts that the traces of an ordinary run must contain, each at least once.
const EVENTS: [&str; 19] = [
    "Queue Settings",
    "Classic Settings",
    "nodes: 3",
    "nodes: 5",
    ": Restart(Everything)",
    ": Restart(Nothing)",
    ": Restart(Snapshot)",
    ": Flush",
    ": Copy(",
    ": Step(",
    "is cut off from",
    "is killed",
    "receives data of an old connection",
    "adopts a lease",
    "is_left: true",
    "is_shared: true",
    "quarantine: Some(Quarantine { reason: OtherRun",
    "quarantine: Some(Quarantine { reason: ClockStepped",
    "-> Stale",
];

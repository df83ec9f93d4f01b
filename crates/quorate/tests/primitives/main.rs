//! Every primitive under faults, judged by its sequential model: mutexes, readers and writers,
//! entries of identities, sets of names that overlap, and semaphores whose size changes.
//!
//! Processes ask, hold and release without end. They are killed and stopped, nodes are killed and
//! restarted with or without their data, and links are cut, in an order that follows from a seed
//! (`QUORATE_SEED`). Each fault lasts for longer than a lease, and until others had the lock; after
//! each round everybody gets it again. What all of them believed is taken down and judged at the
//! end, by the rules of [`quorate_testkit::history`], and nothing is left on the nodes.
//!
//! The program starts itself again as each worker. It has no test harness, so that a worker is a
//! plain process with one purpose. The name of a primitive as an argument runs that one alone; what
//! else `cargo test` hands over is understood or ignored. With `QUORATE_FULL=1` each primitive is
//! tried with nodes that keep their data and with nodes that forget it, until they vote again.

mod dice;
mod fixture;
mod storm;
mod worker;

use std::{env, process::ExitCode, time::Duration};

use quorate_testkit::history::{Claim, History, How, Moment};

use self::{
    fixture::{Fixture, Memory, WORKERS},
    storm::ROUNDS,
    worker::Task,
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if let [WORKER, task @ ..] = &*args.iter().map(String::as_str).collect::<Vec<_>>() {
        return worker::work(&Task::parse(task));
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("primitives: test");
        }
        return ExitCode::SUCCESS;
    }
    let (seed, is_full) = (seed(), env::var_os("QUORATE_FULL").is_some_and(|it| it == "1"));
    let is_named = Primitive::ALL.iter().any(|it| has(it.as_str()));
    for (number, primitive) in (0..).zip(Primitive::ALL) {
        if is_named && !has(primitive.as_str()) {
            continue;
        }
        // One after the other, so that each run has both.
        let first = usize::from((seed ^ number) % 2 == 1);
        for memory in Memory::ALL.into_iter().cycle().skip(first).take(1 + usize::from(is_full)) {
            run_case(primitive, memory, seed, is_full);
        }
    }
    ExitCode::SUCCESS
}

/// Panics if the model was not kept, if somebody did not get on, or if something is left.
fn run_case(primitive: Primitive, memory: Memory, seed: u64, is_full: bool) {
    let began = Moment::now();
    say(&format!("{}, data is {}: QUORATE_SEED={seed}", primitive.as_str(), memory.as_str()));
    let mut fixture = Fixture::start(primitive, memory, seed);
    storm::run(&mut fixture, seed, is_full);
    fixture.wait_until_tried();
    let history = fixture.end();
    let report = history.report();
    assert!(report.claims() >= CLAIMS_MIN, "{report}");
    let (claims, wait) = (report.claims(), report.longest_wait());
    let in_vain: usize = report.shares().values().map(|share| share.in_vain).sum();
    let time = Moment::now().since(began);
    say(&format!(
        "{}: {claims} claims keep the model, {in_vain} requests in vain, longest wait {wait:?}, \
         took {time:?}",
        primitive.as_str(),
    ));
}

/// A fixed seed, so that a failure can be repeated as far as real time allows.
fn seed() -> u64 {
    match env::var("QUORATE_SEED") {
        Ok(text) => text.parse().expect("QUORATE_SEED is a number"),
        Err(_) => 0x5eed_2026,
    }
}

/// What the workers want.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Primitive {
    Mutex,
    RwLock,
    Reentrant,
    Sets,
    Semaphore,
}

impl Primitive {
    const ALL: [Self; 5] =
        [Self::Mutex, Self::RwLock, Self::Reentrant, Self::Sets, Self::Semaphore];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Reentrant => "reentrant",
            Self::Sets => "sets",
            Self::Semaphore => "semaphore",
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == text);
        known.unwrap_or_else(|| panic!("no primitive: {text:?}"))
    }

    /// What the model is about and has not happened so far.
    pub(crate) fn untried(self, history: &History) -> Vec<String> {
        let claims = history.claims();
        let mut untried = Vec::new();
        let mut needs = |what: &str, is_it: &dyn Fn(&Claim) -> bool| {
            if !claims.iter().any(is_it) {
                untried.push(what.to_owned());
            }
        };
        let meets = |claim: &Claim, is_other: bool| {
            claims.iter().any(|it| {
                it.how.goes_with(&claim.how)
                    && (it.client != claim.client) == is_other
                    && it.acquired_at < claim.acquired_at
                    && it.ended_at.is_none_or(|end| claim.acquired_at < end)
            })
        };
        let is_entry = |it: &Claim| matches!(it.how, How::Entry(_));
        let size = |it: &Claim| it.set.as_ref().map_or(0, |set| set.size);
        let is_of =
            |it: &Claim, wanted: u32| matches!(it.how, How::Permit { of, .. } if of == wanted);
        match self {
            Self::Mutex => needs("mutex", &|it| it.how == How::Alone),
            Self::RwLock => {
                needs("writer", &|it| it.how == How::Alone);
                needs("reader with another", &|it| it.how == How::Reader && meets(it, true));
                needs("downgrade", &|it| it.how == How::Reader && it.asked_at == it.acquired_at);
            }
            Self::Reentrant => {
                needs("nested entry", &|it| is_entry(it) && meets(it, false));
                needs("entry of another process", &|it| is_entry(it) && meets(it, true));
                needs("mutex", &|it| it.how == How::Alone);
                needs("reader", &|it| it.how == How::Reader);
            }
            Self::Sets => {
                needs("pair", &|it| size(it) == 2);
                needs("set of three", &|it| size(it) == 3);
                needs("mutex", &|it| it.set.is_none());
            }
            Self::Semaphore => {
                (2..=4).for_each(|of| needs(&format!("permit of {of}"), &|it| is_of(it, of)));
                (1..=3).for_each(|many| needs(&format!("{many} permits"), &|it| size(it) == many));
            }
        }
        untried
    }
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "there is no harness that says how it went")]
pub(crate) fn complain(line: &str) {
    eprintln!("{line}");
}

const WORKER: &str = "--worker";

/// At the beginning everybody had what it wants, and in each round so many did twice. Mostly there
/// are several times as many.
const CLAIMS_MIN: usize = WORKERS * (1 + 2 * ROUNDS);

/// What a dead holder's lock is gone after.
pub(crate) const TTL: Duration = Duration::from_millis(400);

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

//! Every primitive under faults, checked by its sequential model: mutexes, readers and writers,
//! entries of identities, sets of names that overlap, and semaphores whose size changes.
//!
//! Processes acquire, hold and release again and again. They are killed and stopped, nodes are
//! killed and restarted with or without their data, and links are cut. The order follows from a
//! seed (`QUORATE_SEED`). Each fault lasts for longer than a lease, and until other processes
//! acquired the lock; after each round every process acquires it again. The processes record what
//! they believe. At the end the record is checked by the rules of [`quorate_testkit::history`], and
//! the nodes have no key of a lock.
//!
//! The name of a primitive as an argument runs only that primitive. With `QUORATE_FULL=1` each
//! primitive is tested with nodes that keep their data and with nodes that lose it, until they vote
//! again.

mod dice;
mod fixture;
mod storm;
mod worker;

use std::{env, process::ExitCode, time::Duration};

use quorate_testkit::{
    history::{Claim, History, How, Moment},
    processes::{self, print_line},
};

use self::{
    fixture::{Fixture, Memory, WORKERS},
    storm::ROUNDS,
    worker::Task,
};

fn main() -> ExitCode {
    processes::run("primitives", |_, task| worker::work(&Task::parse(task)), run)
}

fn run(args: &[&str]) {
    let has = |wanted: &str| args.contains(&wanted);
    let (seed, is_full) = (seed(), env::var_os("QUORATE_FULL").is_some_and(|it| it == "1"));
    let is_named = Primitive::ALL.iter().any(|it| has(it.as_str()));
    for (number, primitive) in (0..).zip(Primitive::ALL) {
        if is_named && !has(primitive.as_str()) {
            continue;
        }
        // They alternate, so that each run has both.
        let first = usize::from((seed ^ number) % 2 == 1);
        for memory in Memory::ALL.into_iter().cycle().skip(first).take(1 + usize::from(is_full)) {
            run_case(primitive, memory, seed, is_full);
        }
    }
}

/// Panics if the model was not kept, if a worker did not acquire anything, or if a key is left.
fn run_case(primitive: Primitive, memory: Memory, seed: u64, is_full: bool) {
    let began = Moment::now();
    print_line(&format!(
        "{}, data is {}: QUORATE_SEED={seed}",
        primitive.as_str(),
        memory.as_str()
    ));
    let mut fixture = Fixture::start(primitive, memory, seed);
    storm::run(&mut fixture, seed, is_full);
    fixture.wait_until_tried();
    let history = fixture.end();
    let report = history.report();
    assert!(report.claims() >= CLAIMS_MIN, "{report}");
    let (claims, wait) = (report.claims(), report.longest_wait());
    let in_vain: usize = report.shares().values().map(|share| share.in_vain).sum();
    let time = Moment::now().since(began);
    print_line(&format!(
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

pub(crate) const WORKER: &str = "worker";

/// Every worker acquires once at the beginning, and as many acquire twice in each round. Mostly
/// there are several times as many claims.
const CLAIMS_MIN: usize = WORKERS * (1 + 2 * ROUNDS);

/// The lock of a killed holder expires after this.
pub(crate) const TTL: Duration = Duration::from_millis(400);

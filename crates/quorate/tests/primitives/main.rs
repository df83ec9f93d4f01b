//! Every primitive under faults, judged by its sequential model: mutexes, readers and writers,
//! entries of identities, sets of names that overlap, and semaphores whose size changes.
//!
//! Processes ask, hold and release without end. They are killed and stopped, nodes are killed and
//! restarted, and links are cut, in an order that follows from a seed (`QUORATE_SEED`). Each fault
//! lasts for longer than a lease, and until others had the lock; after each round everybody gets it
//! again. What all of them believed is taken down and judged at the end, by the rules of
//! [`quorate_testkit::history`], and nothing is left on the nodes.
//!
//! The program starts itself again as each worker. It has no test harness, so that a worker is a
//! plain process with one purpose. The name of a primitive as an argument runs that one alone; what
//! else `cargo test` hands over is understood or ignored.

mod dice;
mod rig;
mod storm;
mod worker;

use std::{env, process::ExitCode, time::Duration};

use quorate_testkit::history::{Claim, History, How, Moment};

use self::{rig::Rig, worker::Task};

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
    let is_named = Primitive::ALL.iter().any(|it| has(it.as_str()));
    for primitive in Primitive::ALL {
        if !is_named || has(primitive.as_str()) {
            run_case(primitive, seed());
        }
    }
    ExitCode::SUCCESS
}

/// Panics if the model was not kept, if somebody did not get on, or if something is left.
fn run_case(primitive: Primitive, seed: u64) {
    let began = Moment::now();
    say(&format!("{}: QUORATE_SEED={seed}", primitive.as_str()));
    let mut rig = Rig::start(primitive, seed);
    storm::run(&mut rig, seed);
    let history = rig.end();
    let report = history.report();
    assert!(report.claims() >= CLAIMS_MIN, "{report}");
    primitive.assert_tried(&history);
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

    /// Everything that the model is about has happened.
    fn assert_tried(self, history: &History) {
        let claims = history.claims();
        let has = |what: &str, is_it: &dyn Fn(&Claim) -> bool| {
            assert!(claims.iter().any(is_it), "{}: there is no {what}", self.as_str());
        };
        let meets = |claim: &Claim, of_others: bool| {
            let at = |it: &Claim| it.acquired_at..it.ended_at.unwrap_or(Moment::NEVER);
            let is_met = |it: &Claim| {
                it.how.goes_with(&claim.how)
                    && (it.client != claim.client) == of_others
                    && it.acquired_at < claim.acquired_at
                    && at(it).contains(&claim.acquired_at)
            };
            claims.iter().any(is_met)
        };
        let is_entry = |it: &Claim| matches!(it.how, How::Entry(_));
        let size = |it: &Claim| it.set.as_ref().map_or(0, |set| set.size);
        let of = |wanted: u32| move |it: &Claim| matches!(it.how, How::Permit { of, .. } if of == wanted);
        match self {
            Self::Mutex => has("mutex", &|it| it.how == How::Alone),
            Self::RwLock => {
                has("writer", &|it| it.how == How::Alone);
                has("reader with another", &|it| it.how == How::Reader && meets(it, true));
                has("downgrade", &|it| it.how == How::Reader && it.asked_at == it.acquired_at);
            }
            Self::Reentrant => {
                has("nested entry", &|it| is_entry(it) && meets(it, false));
                has("entry of another process", &|it| is_entry(it) && meets(it, true));
                has("mutex", &|it| it.how == How::Alone);
                has("reader", &|it| it.how == How::Reader);
            }
            Self::Sets => {
                has("pair", &|it| size(it) == 2);
                has("set of three", &|it| size(it) == 3);
                has("mutex", &|it| it.set.is_none());
            }
            Self::Semaphore => {
                (2..=4).for_each(|wanted| has(&format!("permit of {wanted}"), &of(wanted)));
                (1..=3).for_each(|many| has(&format!("{many} permits"), &|it| size(it) == many));
            }
        }
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

/// Much less than there are, and more than it takes to get through all rounds.
const CLAIMS_MIN: usize = 150;

/// What a dead holder's lock is gone after.
pub(crate) const TTL: Duration = Duration::from_millis(400);

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

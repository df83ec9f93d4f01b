//! Processes that do nothing but take and release one lock are killed at any moment.
//!
//! What everybody believed is taken down and judged at the end: no two held the lock at a time, and
//! the fence of each was larger than all before.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use quorate_core::backoff::Jitter;
use quorate_testkit::{
    eventually,
    history::{History, Moment, Until},
};

use super::{Folder, PATIENCE, child, say};

/// Panics if a promise was broken, or if the lock was not had again.
pub(super) fn at_any_moment() {
    let mut fixture = Fixture::start();
    let mut jitter = Jitter::new(SEED);
    let mut longest = Duration::ZERO;
    for _ in 0..KILLS {
        longest = longest.max(fixture.kill_one(&mut jitter));
    }
    assert!(fixture.folder.is_whole(), "the file is damaged");
    let history = fixture.end();
    history.assert_kept(Until::Believed);
    say(&format!(
        "{KILLS} processes killed: {} claims, none overlapped, all fences grew; had again after \
         {longest:?} at the most",
        history.report().claims(),
    ));
}

/// The contenders, and what they take down.
struct Fixture {
    folder: Folder,
    running: BTreeMap<String, Child>,
    started: usize,
    deaths: Vec<(String, Moment)>,
}

impl Fixture {
    fn start() -> Self {
        let (folder, running, deaths) = (Folder::new(), BTreeMap::new(), Vec::new());
        let mut fixture = Self { folder, running, started: 0, deaths };
        (0..CONTENDERS).for_each(|_| fixture.add());
        fixture.wait_for_turns(Moment::now());
        fixture
    }

    fn add(&mut self) {
        self.started += 1;
        let name = format!("contender-{}", self.started);
        let mut command = child("acquire");
        command.arg(&name).arg(self.folder.0.path());
        self.running.insert(name, command.spawn().expect("the program starts itself"));
    }

    /// Kills one of them, and returns how long it took until another had the lock.
    fn kill_one(&mut self, jitter: &mut Jitter) -> Duration {
        let pick = usize::try_from(jitter.next()).unwrap_or(0) % self.running.len();
        let name = self.running.keys().nth(pick).expect("there is one").clone();
        // A turn takes less than a millisecond: any part of it may be hit.
        let until = Instant::now() + Duration::from_nanos(jitter.next() % 2_000_000);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let at = Moment::now();
        let mut child = self.running.remove(&name).expect("it is there");
        self.deaths.push((name, at));
        child.kill().expect("it runs");
        child.wait().expect("a killed process ends");
        self.add();
        self.wait_for_turns(at)
    }

    /// Waits until the lock has gone round, and returns how long it took to be had once.
    fn wait_for_turns(&mut self, since: Moment) -> Duration {
        let mut times = Vec::new();
        eventually("others have the lock again", PATIENCE, || {
            for (name, child) in &mut self.running {
                let ended = child.try_wait().expect("the state of a child");
                assert!(ended.is_none(), "{name} has ended: {ended:?}");
            }
            let history = self.history();
            let later = history.claims().iter().filter(|claim| claim.acquired_at > since);
            times = later.map(|claim| claim.acquired_at.since(since)).collect();
            times.len() > CONTENDERS
        });
        times[0]
    }

    fn history(&self) -> History {
        // A line may be on its way: the last one counts when it is whole.
        let text = fs::read_to_string(history_file(self.folder.0.path())).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        History::parse(whole)
    }

    /// Lets everybody end by itself, and returns what happened.
    fn end(mut self) -> History {
        fs::write(stop_file(self.folder.0.path()), "").expect("the folder is there");
        for (name, mut child) in std::mem::take(&mut self.running) {
            let mut ended = None;
            eventually(&format!("{name} ends"), PATIENCE, || {
                ended = child.try_wait().expect("the state of a child");
                ended.is_some()
            });
            assert!(ended.is_some_and(|ended| ended.success()), "{name}: {ended:?}");
        }
        let mut history = self.history();
        self.deaths.iter().for_each(|(name, at)| history.died(name, *at));
        history
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn history_file(folder: &Path) -> PathBuf {
    folder.join("history")
}

pub(super) fn stop_file(folder: &Path) -> PathBuf {
    folder.join("stop")
}

const CONTENDERS: usize = 4;
const KILLS: usize = 60;
const SEED: u64 = 0x5eed_2026;

/// What a dead holder's lock is gone after.
pub(super) const TTL: Duration = Duration::from_millis(250);

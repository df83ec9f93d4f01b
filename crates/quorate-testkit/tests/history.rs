//! Histories of real runs: many threads, and many processes that write to one file.
//!
//! The other processes are this test binary again. An environment variable chooses what they do.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Barrier, Mutex};
use std::thread;

use quorate_testkit::history::{History, Moment, Promise, Recorder, Until};
use quorate_testkit::processes::{Child, this_test};

#[test]
fn threads_under_a_mutex_keep_every_promise() {
    let (recorder, lock) = (Recorder::in_memory(), Mutex::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (recorder, lock) = (&recorder, &lock);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let request = recorder.ask(&format!("thread {thread}"), "mutex");
                    let mut fence = lock.lock().unwrap();
                    *fence += 1;
                    request.acquired(Some(*fence), None).released();
                }
            });
        }
    });
    let history = recorder.history();
    history.assert_kept(Until::Ended);
    let report = history.report();
    assert_eq!(report.claims(), THREADS * ROUNDS);
    assert!((report.unevenness() - 1.0).abs() < f64::EPSILON, "{report}");
}

#[test]
fn overlapping_claims_of_threads_are_found() {
    let (recorder, barrier) = (Recorder::in_memory(), Barrier::new(2));
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let (recorder, barrier) = (&recorder, &barrier);
            scope.spawn(move || {
                let holding = recorder.ask(name, "nobody's").acquired(None, None);
                barrier.wait();
                holding.released();
            });
        }
    });
    let found = recorder.history().violations(Until::Ended);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].promise, Promise::Exclusion);
}

#[test]
fn processes_under_the_lock_of_a_file_keep_every_promise_in_one_history() {
    let folder = tempfile::tempdir().unwrap();
    let processes: Vec<Child> =
        (0..PROCESSES).map(|number| part(folder.path(), &format!("process {number}"))).collect();
    processes.into_iter().for_each(Child::end);
    let history = History::read(lines_in(folder.path()));
    history.assert_kept(Until::Ended);
    assert_eq!(history.report().claims(), PROCESSES * ROUNDS);
    assert_eq!(history.report().shares().len(), PROCESSES);
    let fences: Vec<_> = history.claims().iter().map(|claim| claim.fence).collect();
    assert!(fences.is_sorted(), "the clock is the same in every process: {fences:?}");
}

#[test]
fn claims_of_a_killed_process_end_at_its_death() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = part(folder.path(), VICTIM);
    let lines = lines_in(folder.path());
    quorate_testkit::eventually(
        "the victim holds the lock",
        std::time::Duration::from_secs(20),
        || fs::read_to_string(&lines).is_ok_and(|text| text.contains("acquired")),
    );
    let killed_at = Moment::now();
    victim.kill();
    part(folder.path(), "next").end();

    let mut history = History::read(lines);
    let found = history.violations(Until::Ended);
    assert_eq!(
        found[0].promise,
        Promise::Exclusion,
        "the history does not know that it was killed"
    );
    history.died(VICTIM, killed_at);
    history.assert_kept(Until::Ended);
}

/// Does nothing when it runs as a test.
#[test]
fn act_as_another_process() {
    let (Some(folder), Ok(name)) = (env::var_os(FOLDER), env::var(NAME)) else { return };
    let folder = PathBuf::from(folder);
    let recorder = Recorder::to_file(lines_in(&folder));
    let lock = File::options().create(true).append(true).open(folder.join("lock")).unwrap();
    for _ in 0..ROUNDS {
        let request = recorder.ask(&name, "file");
        lock.lock().unwrap();
        let counter = folder.join("counter");
        let fence = fs::read_to_string(&counter).map_or(0, |text| text.parse().unwrap()) + 1;
        fs::write(counter, fence.to_string()).unwrap();
        let holding = request.acquired(Some(fence), None);
        if name == VICTIM {
            // Until it is killed, or the test ends without that.
            std::io::stdin().read_line(&mut String::new()).unwrap();
            return;
        }
        holding.released();
        lock.unlock().unwrap();
    }
}

fn part(folder: &Path, name: &str) -> Child {
    Child::start(this_test("act_as_another_process").env(FOLDER, folder).env(NAME, name))
}

fn lines_in(folder: &Path) -> PathBuf {
    folder.join("history")
}

const THREADS: usize = 8;
const PROCESSES: usize = 4;
const ROUNDS: usize = 200;
const FOLDER: &str = "QUORATE_TESTKIT_FOLDER";
const NAME: &str = "QUORATE_TESTKIT_NAME";
const VICTIM: &str = "victim";

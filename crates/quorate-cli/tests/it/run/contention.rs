//! Many concurrent processes, some of which are killed.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::fixture::{Fixture, Running};

#[test]
fn two_hundred_processes_count_to_two_hundred_on_five_nodes() {
    count(&Fixture::nodes(5));
}

#[test]
fn two_hundred_processes_count_to_two_hundred_on_this_machine() {
    count(&Fixture::without_servers());
}

#[test]
fn killed_holders_never_break_exclusion_on_five_nodes() {
    kill_some(&Fixture::nodes(5), &ALONE);
}

#[test]
fn killed_holders_never_break_exclusion_on_this_machine() {
    kill_some(&Fixture::without_servers(), &ALONE);
}

#[test]
fn killed_holders_never_duplicate_a_permit_on_three_nodes() {
    kill_some(&Fixture::nodes(3), &PERMITS);
}

#[test]
fn killed_holders_never_duplicate_a_permit_on_this_machine() {
    kill_some(&Fixture::without_servers(), &PERMITS);
}

#[test]
fn readers_and_writers_exclude_each_other_on_three_nodes() {
    read_and_write(&Fixture::nodes(3));
}

#[test]
fn readers_and_writers_exclude_each_other_on_this_machine() {
    read_and_write(&Fixture::without_servers());
}

#[test]
fn never_more_than_three_permits_are_held_on_three_nodes() {
    share_permits(&Fixture::nodes(3));
}

#[test]
fn never_more_than_three_permits_are_held_on_this_machine() {
    share_permits(&Fixture::without_servers());
}

/// Read, increment, write: two holders at the same time would lose an increment.
fn count(fixture: &Fixture) {
    fixture.write("count", "0\n");
    let script = "n=$(cat count); echo $((n + 1)) > count";
    let start = |_| fixture.start(["-q", "counter", "--", "sh", "-c", script]);
    let running: Vec<Running> = (0..CROWD).map(start).collect();
    for it in running {
        it.end_within(TOTAL_TIMEOUT).assert_code(0);
    }
    assert_eq!(fixture.read("count"), format!("{CROWD}\n"));
}

/// A reader never overlaps with a writer, and a writer with no one. Readers overlap with each
/// other: each waits until that has been seen once.
fn read_and_write(fixture: &Fixture) {
    fixture.write("last", "0\n");
    let reader = "\
        mkdir reader.$$; [ -e writer ] && echo a reader meets a writer >> broken; \
        [ -z \"${QUORATE_FENCE-}\" ] || echo a reader with a fence >> broken; \
        looks=0; while ! [ -e together ] && [ $looks -lt 50 ]; do \
            [ $(ls -d reader.* | wc -l) -gt 1 ] && echo > together; \
            looks=$((looks + 1)); sleep 0.01; \
        done; \
        [ -e writer ] && echo a writer meets a reader >> broken; \
        rmdir reader.$$; echo >> done";
    let writer = "\
        mkdir writer || echo two writers >> broken; \
        ls -d reader.* 2> /dev/null && echo a writer among readers >> broken; \
        [ $QUORATE_FENCE -gt $(cat last) ] || echo an older fence >> broken; \
        echo $QUORATE_FENCE > last; sleep 0.01; \
        ls -d reader.* 2> /dev/null && echo a reader beside a writer >> broken; \
        rmdir writer || echo writer is gone >> broken; echo >> done";
    let start = |it: usize| {
        let (kind, script) = if it.is_multiple_of(3) { ("-x", writer) } else { ("-s", reader) };
        fixture.start(["-q", "--ttl", "60s", kind, "x", "--", "sh", "-c", script])
    };
    let running: Vec<Running> = (0..MIXED_CROWD).map(start).collect();
    for it in running {
        it.end_within(TOTAL_TIMEOUT).assert_code(0);
    }
    assert_eq!(fixture.read("broken"), "");
    assert_eq!(fixture.read("done").lines().count(), MIXED_CROWD);
    assert_eq!(fixture.read("together"), "\n", "two readers were there at once");
}

/// Each holder waits until three have held permits at the same time, so the test ends only if that
/// happens.
fn share_permits(fixture: &Fixture) {
    let script = "\
        mkdir permit.$QUORATE_PERMIT || echo two have $QUORATE_LOCK >> broken; \
        mkdir in.$$; [ $(ls -d in.* | wc -l) -le 3 ] || echo more than three >> broken; \
        while ! [ -e three ]; do \
            [ $(ls -d in.* | wc -l) -eq 3 ] && echo > three; sleep 0.01; \
        done; \
        [ $(ls -d in.* | wc -l) -le 3 ] || echo more than three later >> broken; \
        rmdir in.$$ permit.$QUORATE_PERMIT || echo another was here >> broken; \
        echo $QUORATE_PERMIT >> done";
    let args = ["-q", "--ttl", "60s", "--permits", "3", "jobs", "--", "sh", "-c", script];
    let running: Vec<Running> = (0..PERMITS.crowd).map(|_| fixture.start(args)).collect();
    for it in running {
        it.end_within(TOTAL_TIMEOUT).assert_code(0);
    }
    assert_eq!(fixture.read("broken"), "");
    let done = fixture.read("done");
    assert_eq!(done.lines().count(), PERMITS.crowd);
    assert!(["1", "2", "3"].iter().all(|permit| done.lines().any(|it| it == *permit)), "{done}");
}

/// Each holder writes its fence, and reads it back unless another holder came in between. Each
/// fence must be larger than the one it replaces. Each permit has its own fences.
///
/// Any process may be killed, even `mv`: the shell reads with a builtin, and stops if `mv` was
/// killed.
fn kill_some(fixture: &Fixture, workload: &Workload) {
    for permit in ["", "1", "2", "3"] {
        fixture.write(&format!("last{permit}"), "0\n");
    }
    let script = "last=last${QUORATE_PERMIT-}; \
        read found < $last; \
        [ $QUORATE_FENCE -gt $found ] || echo older $QUORATE_FENCE than $found >> broken; \
        echo $QUORATE_FENCE > $last.new && mv $last.new $last || exit 1; \
        sleep 0.02; \
        read found < $last; \
        [ $QUORATE_FENCE -eq $found ] || echo disturbed $QUORATE_FENCE by $found >> broken; \
        echo $QUORATE_FENCE >> done";
    let (flags, crowd) = (workload.flags, workload.crowd);
    let start =
        |_| fixture.start(flags.iter().copied().chain(["counter", "--", "sh", "-c", script]));
    let mut running: Vec<Running> = (0..crowd).map(start).collect();
    let mut seed = 20_261_115_u64;
    let mut killed = 0;
    let done = || fixture.read("done").lines().count();
    let started = Instant::now();
    while running.iter_mut().any(|it| !it.has_ended()) {
        let late =
            || format!("{} are done, and these wait: {:?}", done(), fixture.mark().processes());
        assert!(started.elapsed() < TOTAL_TIMEOUT, "{}", late());
        // The time between two kills is part of the test.
        thread::park_timeout(Duration::from_millis(100));
        let processes = fixture.mark().processes();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let Some(victim) = processes.get((seed >> 33) as usize % processes.len().max(1)) else {
            continue;
        };
        // Enough processes survive to show that they make progress.
        if killed < crowd / 4 {
            killed += 1;
            // The process may have ended.
            let _ = rustix::process::kill_process(*victim, rustix::process::Signal::KILL);
        }
    }
    assert_eq!(fixture.read("broken"), "");
    let ended: Vec<_> = running.into_iter().map(Running::end).collect();
    // On a busy machine a lock may be lost. Its command was then terminated, and the exit code
    // reports it.
    let is_ill = |it: &&crate::fixture::Ended| !matches!(it.0.status.code(), Some(0 | 79));
    let ill: Vec<_> = ended.iter().filter(is_ill).collect();
    assert!(ill.len() <= killed, "{killed} were killed, and these did not end well: {ill:?}");
    let well = ended.iter().filter(|it| it.0.status.code() == Some(0)).count();
    assert!(well >= crowd / 2 && done() >= well, "{well} ended well");
}

/// What the processes acquire.
struct Workload {
    flags: &'static [&'static str],
    crowd: usize,
}

const ALONE: Workload = Workload { flags: &["-q", "--ttl", "3s"], crowd: CROWD };

/// If the first waiter is killed, the next one waits for its ttl.
const PERMITS: Workload = Workload { flags: &["-q", "--ttl", "2s", "--permits", "3"], crowd: 40 };

const CROWD: usize = 200;

const MIXED_CROWD: usize = 60;

/// How long all processes together may take.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(90);

//! Many processes at once, and some of them killed.

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
fn killed_processes_never_let_two_in_at_once_on_five_nodes() {
    kill_some(&Fixture::nodes(5), &ALONE);
}

#[test]
fn killed_processes_never_let_two_in_at_once_on_this_machine() {
    kill_some(&Fixture::without_servers(), &ALONE);
}

#[test]
fn killed_holders_of_permits_never_let_two_have_the_same_one_on_three_nodes() {
    kill_some(&Fixture::nodes(3), &PERMITS);
}

#[test]
fn killed_holders_of_permits_never_let_two_have_the_same_one_on_this_machine() {
    kill_some(&Fixture::without_servers(), &PERMITS);
}

#[test]
fn a_crowd_of_readers_and_writers_keeps_apart_on_three_nodes() {
    read_and_write(&Fixture::nodes(3));
}

#[test]
fn a_crowd_of_readers_and_writers_keeps_apart_on_this_machine() {
    read_and_write(&Fixture::without_servers());
}

#[test]
fn a_crowd_has_three_permits_and_never_more_on_three_nodes() {
    share_permits(&Fixture::nodes(3));
}

#[test]
fn a_crowd_has_three_permits_and_never_more_on_this_machine() {
    share_permits(&Fixture::without_servers());
}

/// Reads, adds one, writes: two at a time would lose one.
fn count(fixture: &Fixture) {
    fixture.write("count", "0\n");
    let script = "n=$(cat count); echo $((n + 1)) > count";
    let start = |_| fixture.start(["-q", "counter", "--", "sh", "-c", script]);
    let running: Vec<Running> = (0..CROWD).map(start).collect();
    for it in running {
        it.end_within(CROWD_PATIENCE).assert_code(0);
    }
    assert_eq!(fixture.read("count"), format!("{CROWD}\n"));
}

/// A reader never meets a writer, a writer meets nobody, and readers meet each other: each waits a
/// while for that, until it was seen once.
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
        it.end_within(CROWD_PATIENCE).assert_code(0);
    }
    assert_eq!(fixture.read("broken"), "");
    assert_eq!(fixture.read("done").lines().count(), MIXED_CROWD);
    assert_eq!(fixture.read("together"), "\n", "two readers were there at once");
}

/// Each waits until three were there at once, so that it ends only if that happens.
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
        it.end_within(CROWD_PATIENCE).assert_code(0);
    }
    assert_eq!(fixture.read("broken"), "");
    let done = fixture.read("done");
    assert_eq!(done.lines().count(), PERMITS.crowd);
    assert!(["1", "2", "3"].iter().all(|permit| done.lines().any(|it| it == *permit)), "{done}");
}

/// Each holder leaves its fence, and finds it again when it is done unless another was in between.
/// The fence of each must be larger than the one that it finds. Each permit has fences of its own.
///
/// Any process may be killed, `mv` as well: the shell reads by itself, and stops without `mv`.
fn kill_some(fixture: &Fixture, wanted: &Wanted) {
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
    let (flags, crowd) = (wanted.flags, wanted.crowd);
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
        assert!(started.elapsed() < CROWD_PATIENCE, "{}", late());
        // The time between two kills is a part of what is tested.
        thread::park_timeout(Duration::from_millis(100));
        let processes = fixture.mark().processes();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let Some(victim) = processes.get((seed >> 33) as usize % processes.len().max(1)) else {
            continue;
        };
        // Enough of them stay alive to show that they get on.
        if killed < crowd / 4 {
            killed += 1;
            // It may be gone.
            let _ = rustix::process::kill_process(*victim, rustix::process::Signal::KILL);
        }
    }
    assert_eq!(fixture.read("broken"), "");
    let ended: Vec<_> = running.into_iter().map(Running::end).collect();
    // On a busy machine a lock may be lost. Whoever lost it was ended, and says so.
    let is_ill = |it: &&crate::fixture::Ended| !matches!(it.0.status.code(), Some(0 | 79));
    let ill: Vec<_> = ended.iter().filter(is_ill).collect();
    assert!(ill.len() <= killed, "{killed} were killed, and these did not end well: {ill:?}");
    let well = ended.iter().filter(|it| it.0.status.code() == Some(0)).count();
    assert!(well >= crowd / 2 && done() >= well, "{well} ended well");
}

/// What a crowd wants.
struct Wanted {
    flags: &'static [&'static str],
    crowd: usize,
}

const ALONE: Wanted = Wanted { flags: &["-q", "--ttl", "3s"], crowd: CROWD };

/// Whoever comes after one that was killed as the first in line waits for its ttl.
const PERMITS: Wanted = Wanted { flags: &["-q", "--ttl", "2s", "--permits", "3"], crowd: 40 };

const CROWD: usize = 200;

const MIXED_CROWD: usize = 60;

/// How long all of them may take together.
const CROWD_PATIENCE: Duration = Duration::from_secs(90);

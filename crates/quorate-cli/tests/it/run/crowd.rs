//! Many processes at once, and some of them killed.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::rig::{Rig, Running};

#[test]
fn two_hundred_processes_count_to_two_hundred_on_five_nodes() {
    count(&Rig::nodes(5));
}

#[test]
fn two_hundred_processes_count_to_two_hundred_on_this_machine() {
    count(&Rig::without_servers());
}

#[test]
fn killed_processes_never_let_two_in_at_once_on_five_nodes() {
    kill_some(&Rig::nodes(5));
}

#[test]
fn killed_processes_never_let_two_in_at_once_on_this_machine() {
    kill_some(&Rig::without_servers());
}

/// Reads, adds one, writes: two at a time would lose one.
fn count(rig: &Rig) {
    rig.write("count", "0\n");
    let script = "n=$(cat count); echo $((n + 1)) > count";
    let start = |_| rig.start(["-q", "counter", "--", "sh", "-c", script]);
    let running: Vec<Running> = (0..CROWD).map(start).collect();
    for it in running {
        it.end_within(CROWD_PATIENCE).assert_code(0);
    }
    assert_eq!(rig.read("count"), format!("{CROWD}\n"));
}

/// Each holder leaves its fence, and finds it again when it is done unless another was in between.
/// The fence of each must be larger than the one that it finds.
fn kill_some(rig: &Rig) {
    rig.write("last", "0\n");
    let script = "\
        [ $QUORATE_FENCE -gt $(cat last) ] || echo older $QUORATE_FENCE >> broken; \
        echo $QUORATE_FENCE > last.new && mv last.new last; \
        sleep 0.02; \
        [ $QUORATE_FENCE -eq $(cat last) ] || echo disturbed $QUORATE_FENCE >> broken; \
        echo $QUORATE_FENCE >> done";
    let start = |_| rig.start(["-q", "--ttl", "3s", "counter", "--", "sh", "-c", script]);
    let mut running: Vec<Running> = (0..CROWD).map(start).collect();
    let mut seed = 20_261_115_u64;
    let mut killed = 0;
    let done = || rig.read("done").lines().count();
    let started = Instant::now();
    while running.iter_mut().any(|it| !it.has_ended()) {
        let late = || format!("{} are done, and these wait: {:?}", done(), rig.mark().processes());
        assert!(started.elapsed() < CROWD_PATIENCE, "{}", late());
        // The time between two kills is a part of what is tested.
        thread::park_timeout(Duration::from_millis(100));
        let processes = rig.mark().processes();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let Some(victim) = processes.get((seed >> 33) as usize % processes.len().max(1)) else {
            continue;
        };
        // Enough of them stay alive to show that they get on.
        if killed < CROWD / 4 {
            killed += 1;
            // It may be gone.
            let _ = rustix::process::kill_process(*victim, rustix::process::Signal::KILL);
        }
    }
    assert_eq!(rig.read("broken"), "");
    let ended: Vec<_> = running.into_iter().map(Running::end).collect();
    // On a busy machine a lock may be lost. Whoever lost it was ended, and says so.
    let is_ill = |it: &&crate::rig::Ended| !matches!(it.0.status.code(), Some(0 | 79));
    let ill: Vec<_> = ended.iter().filter(is_ill).collect();
    assert!(ill.len() <= killed, "{killed} were killed, and these did not end well: {ill:?}");
    let well = ended.iter().filter(|it| it.0.status.code() == Some(0)).count();
    assert!(well >= CROWD / 2 && done() >= well, "{well} ended well");
}

const CROWD: usize = 200;

/// How long all of them may take together.
const CROWD_PATIENCE: Duration = Duration::from_secs(90);

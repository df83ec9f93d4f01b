//! Rounds, one command to all nodes: their start, each node's answer, their end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorate::{
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
    observe::Event,
};

use crate::{
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, TTL, build, pass, settings},
};

in_both_modes! {
    paused:
    events_of_a_lock_and_its_release_are_in_order,
    answer_of_each_node_is_reported,
    every_outcome_has_its_own_name,
    round_has_one_number_and_reports_its_duration,
    clients_that_share_an_observer_have_distinct_round_numbers,
}

async fn events_of_a_lock_and_its_release_are_in_order(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    fixture.hold().await.release().await.unwrap();
    let expected = [
        "acquire orders:42 started",
        "acquire memory:0 answered granted",
        "acquire memory:1 answered granted",
        "acquire memory:2 answered granted",
        "acquire orders:42 ended done",
        "held orders:42",
        "let go orders:42",
        "release orders:42 started",
        "release memory:0 answered granted",
        "release memory:1 answered granted",
        "release memory:2 answered granted",
        "release orders:42 ended done",
    ];
    assert_eq!(fixture.journal.lines(), expected);
}

async fn answer_of_each_node_is_reported(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 5);
    fixture.nodes.plant(1, NAME, b"another's");
    fixture.behave(&[Answer, Answer, Fail, Hang, Answer]);
    // Two of five granted, and one refused: that is a majority that answered.
    assert!(fixture.mutex().try_lock().await.unwrap().is_none());
    fixture.behave(&[Answer; 5]);
    pass(TTL).await;
    let lines = fixture.journal.lines();
    let acquire: Vec<_> = lines.iter().filter(|line| line.starts_with("acquire")).collect();
    let expected = [
        "acquire orders:42 started",
        "acquire memory:0 answered granted",
        "acquire memory:1 answered refused",
        "acquire memory:2 answered connection_refused",
        "acquire memory:4 answered granted",
        "acquire orders:42 ended busy",
        // It answered after the end of the round.
        "acquire memory:3 answered granted",
    ];
    assert_eq!(acquire, expected);
    assert_eq!(fixture.journal.count("held"), 0);
}

async fn every_outcome_has_its_own_name(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    let guard = fixture.hold().await;
    assert!(fixture.mutex().try_lock().await.unwrap().is_none());
    guard.verify().await.unwrap();
    guard.extend(TTL).await.unwrap();
    fixture.behave(&[Hang, Hang, Answer]);
    guard.verify().await.unwrap_err();
    fixture.behave(&[Answer; 3]);
    (0..3).for_each(|node| fixture.nodes.plant(node, NAME, b"another's"));
    guard.extend(TTL).await.unwrap_err();
    guard.release().await.unwrap_err();
    fixture.behave(&[Hang; 3]);
    let mutex = fixture.mutex();
    let cut = tokio::time::timeout(TTL / 1_000, mutex.try_lock()).await;
    assert!(cut.is_err(), "nobody answers");

    let lines = fixture.journal.lines();
    let ends: Vec<_> = lines.iter().filter(|line| line.contains(" ended ")).collect();
    let expected = [
        "acquire orders:42 ended done",
        "acquire orders:42 ended busy",
        "verify orders:42 ended done",
        "extend orders:42 ended done",
        "verify orders:42 ended no_quorum",
        "extend orders:42 ended gone",
        "release orders:42 ended gone",
        "acquire orders:42 ended cancelled",
    ];
    assert_eq!(ends, expected);
}

async fn round_has_one_number_and_reports_its_duration(mode: Mode) {
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let nodes = MemoryNodes::new(3);
    let client = build(mode.of(settings(&nodes)).observer({
        let told = told.clone();
        move |event: &Event<'_>| {
            let line = match event {
                Event::Started { round, .. } => (*round, "started", 0),
                Event::Answered { round, took, .. } => (*round, "answered", took.as_millis()),
                Event::Ended { round, took, .. } => (*round, "ended", took.as_millis()),
                _ => return,
            };
            told.lock().expect("no test panics inside").push(line);
        }
    }));
    nodes.set(0, Mute);
    nodes.set(1, Mute);
    assert!(client.mutex(NAME).try_lock().await.is_err());
    let told = told.lock().unwrap().clone();
    let first = told[0].0;
    let of_first: Vec<_> = told.iter().filter(|(round, ..)| *round == first).collect();
    // Two nodes are silent for the whole vote timeout.
    let expected = [(first, "started", 0), (first, "answered", 0), (first, "ended", 50)];
    assert_eq!(of_first, expected.iter().collect::<Vec<_>>());
}

/// The number of a round, its events, and how many milliseconds it took.
type Told = (u64, &'static str, u128);

async fn clients_that_share_an_observer_have_distinct_round_numbers(mode: Mode) {
    let rounds = Arc::new(Mutex::new(Vec::new()));
    let seen = rounds.clone();
    let nodes = MemoryNodes::new(3);
    let shared = mode.of(settings(&nodes)).observer(move |event: &Event<'_>| {
        if let Event::Started { round, .. } = event {
            seen.lock().unwrap().push(*round);
        }
    });
    for name in ["one", "two"] {
        let client = build(shared.clone());
        client.mutex(name).lock().await.unwrap().release().await.unwrap();
    }
    let mut numbers = rounds.lock().unwrap().clone();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "an acquire and a release of each: {numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn reported_latency_of_a_waiter_excludes_its_wait() {
    let longest = Arc::new(Mutex::new(Duration::ZERO));
    let seen = longest.clone();
    let nodes = MemoryNodes::new(3);
    let holder = build(settings(&nodes));
    let _guard = holder.mutex(NAME).lock().await.unwrap();
    let client = build(settings(&nodes).observer(move |event: &Event<'_>| {
        if let Event::Answered { took, .. } = event {
            let mut longest = seen.lock().expect("no test panics inside");
            *longest = longest.max(*took);
        }
    }));
    assert!(client.mutex(NAME).lock_timeout(3 * TTL).await.is_err());
    assert_eq!(*longest.lock().unwrap(), Duration::ZERO, "nodes in memory answer at once");
}

//! Tests that every broken promise is found, and nothing else.

mod models;

use super::*;

#[test]
fn clean_history_passes() {
    let history = history(&[
        ("a", "x", Some(1), 0..10),
        ("b", "x", Some(2), 10..20),
        ("a", "x", Some(5), 25..30),
        ("c", "x", None, 30..40),
        ("b", "x", Some(6), 40..50),
        // Another lock does not count.
        ("b", "y", Some(1), 5..45),
    ]);
    for until in [Until::Ended, Until::Believed] {
        history.assert_kept(until);
        assert_eq!(history.violations(until), []);
    }
}

#[test]
fn two_holders_at_once_are_found() {
    let history = history(&[("a", "x", Some(1), 0..10), ("b", "x", Some(2), 9..20)]);
    assert_eq!(found(&history), ["exclusion: a and b"]);
    let shown = history.violations(Until::Ended)[0].to_string();
    let told = "exclusion of \"x\": two holders at once: a until 0.000010 ms and b until";
    assert!(shown.starts_with(told), "{shown}");
}

#[test]
fn overlap_with_a_much_earlier_claim_is_found() {
    let history = history(&[
        ("long", "x", None, 0..100),
        ("a", "x", None, 10..20),
        ("b", "x", None, 30..40),
        ("c", "x", None, 99..120),
        ("d", "x", None, 110..130),
    ]);
    let expected = ["long and a", "long and b", "long and c", "c and d"];
    assert_eq!(found(&history), expected.map(|pair| format!("exclusion: {pair}")));
}

#[test]
fn claim_without_an_end_overlaps_with_later_ones_until_its_holder_crashes() {
    let mut claims = claims(&[("a", "x", Some(1), 0..10), ("b", "x", Some(2), 20..30)]);
    claims[0].ended_at = None;
    let mut history: History = claims.into_iter().collect();
    assert_eq!(found(&history), ["exclusion: a and b"]);
    history.died("b", Moment(25));
    assert_eq!(found(&history), ["exclusion: a and b"]);
    history.died("a", Moment(15));
    assert_eq!(found(&history), [""; 0]);
    assert_eq!(history.claims()[1].ended_at, Some(Moment(30)), "what has ended stays as it was");
}

#[test]
fn fence_that_was_granted_twice_is_found_at_any_time() {
    let apart = history(&[("a", "x", Some(7), 0..10), ("b", "x", Some(7), 10..20)]);
    assert_eq!(found(&apart), ["fence: a and b"]);
    assert_eq!(apart.violations(Until::Ended)[0].text, "the fence 7 follows 7");
    let overlapping = history(&[("a", "x", Some(7), 0..10), ("b", "x", Some(7), 5..20)]);
    assert_eq!(found(&overlapping), ["exclusion: a and b", "fence: a and b"]);
    let locks = history(&[("a", "x", Some(7), 0..10), ("b", "y", Some(7), 10..20)]);
    assert_eq!(found(&locks), [""; 0]);
}

#[test]
fn decreasing_fence_is_found_long_after() {
    let history = history(&[
        ("a", "x", Some(9), 0..10),
        ("none", "x", None, 10..20),
        ("b", "x", Some(3), 20..30),
        ("c", "x", Some(4), 30..40),
        ("d", "x", Some(10), 40..50),
    ]);
    assert_eq!(found(&history), ["fence: a and b", "fence: a and c"]);
    assert_eq!(history.violations(Until::Ended)[1].text, "the fence 4 follows 9");
}

#[test]
fn order_of_fences_is_open_while_claims_overlap() {
    let history = history(&[("a", "x", Some(9), 0..10), ("b", "x", Some(3), 5..20)]);
    assert_eq!(found(&history), ["exclusion: a and b"]);
}

#[test]
fn late_reporter_does_not_extend_what_the_holder_believes() {
    let mut claims = claims(&[("a", "x", Some(1), 0..50), ("b", "x", Some(2), 30..60)]);
    claims[0].valid_until = Some(Moment(30));
    let history: History = claims.clone().into_iter().collect();
    assert_eq!(history.violations(Until::Believed), []);
    assert_eq!(history.violations(Until::Ended).len(), 1);
    // Its claim ends with its validity, even if it is released later.
    claims[0].valid_until = Some(Moment(31));
    let history: History = claims.clone().into_iter().collect();
    assert_eq!(history.violations(Until::Believed).len(), 1);
    // Its validity had ended before it knew that it held the lock.
    claims[1].valid_until = Some(Moment(30));
    let history: History = claims.into_iter().collect();
    assert_eq!(history.violations(Until::Believed), []);
}

#[test]
fn fences_of_claims_that_ended_at_once_count_too() {
    let mut claims = claims(&[
        ("a", "x", Some(1), 0..10),
        ("late", "x", Some(5), 20..30),
        ("b", "x", Some(4), 20..40),
    ]);
    claims[1].valid_until = Some(Moment(20));
    claims.push(Claim { acquired_at: Moment(40), fence: Some(4), ..claims[0].clone() });
    let history: History = claims.into_iter().collect();
    let found: Vec<_> =
        history.violations(Until::Believed).into_iter().map(|it| (it.promise, it.text)).collect();
    let twice = (Promise::Fence, "the fence 4 follows 4".to_owned());
    let back = (Promise::Fence, "the fence 4 follows 5".to_owned());
    assert_eq!(found, [twice, back]);
}

/// The same answer as from comparing every claim with every other.
#[test]
fn sorting_finds_what_comparing_all_pairs_finds() {
    let mut seed = 1_u64;
    let mut draw = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    for _ in 0..2_000 {
        let drawn: History = (0..2 + draw(6))
            .map(|number| {
                let start = draw(40);
                let end = start + draw(12);
                let fence = (draw(8) > 0).then(|| start / 4 + draw(6));
                let name = format!("c{number}");
                let mut claim = claim(&name, "x", fence, start..end);
                claim.how = match draw(4) {
                    0 => How::Alone,
                    1 => How::Reader,
                    identity => How::Entry(identity.to_string()),
                };
                claim.valid_until = (draw(3) == 0).then(|| Moment(start + draw(9)));
                claim
            })
            .collect();
        for until in [Until::Ended, Until::Believed] {
            let found = drawn.violations(until);
            let later = |promise, kind: fn(&str) -> bool| -> Vec<&str> {
                let is_judged = |text: &str| !text.contains("joins") && kind(text);
                let of_promise =
                    found.iter().filter(|it| it.promise == promise && is_judged(&it.text));
                of_promise.map(|it| it.second.client.as_str()).collect()
            };
            let (overlaps, doubles, backs) = by_pairs(drawn.claims(), until);
            assert_eq!(later(Promise::Exclusion, |_| true), overlaps, "{drawn:?}");
            assert_eq!(later(Promise::Fence, is_double), doubles, "{drawn:?}");
            assert_eq!(later(Promise::Fence, |text| !is_double(text)), backs, "{drawn:?}");
        }
    }
}

/// The later ones of all pairs that overlap, have the same fence, or have fences that go back.
fn by_pairs(claims: &[Claim], until: Until) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let end = |claim: &Claim| match until {
        Until::Ended => claim.ended_at.expect("all end"),
        Until::Believed => claim.ended_at.min(claim.valid_until.or(claim.ended_at)).expect("ends"),
    };
    let (mut overlaps, mut doubles, mut backs) = (Vec::new(), Vec::new(), Vec::new());
    for (at, second) in claims.iter().enumerate() {
        let excludes = |first: &&Claim| !first.how.goes_with(&second.how);
        let any =
            |is_wrong: &dyn Fn(&Claim) -> bool| claims[..at].iter().filter(excludes).any(is_wrong);
        let starts = second.acquired_at;
        if any(&|first| starts < end(first) && starts < end(second)) {
            overlaps.push(second.client.as_str());
        }
        if second.fence.is_some() && any(&|first| first.fence == second.fence) {
            doubles.push(second.client.as_str());
        }
        let is_before = |first: &Claim| end(first) <= starts && first.acquired_at < starts;
        let is_back = |first: &Claim| {
            second.fence.is_some() && is_before(first) && first.fence > second.fence
        };
        if any(&is_back) {
            backs.push(second.client.as_str());
        }
    }
    (overlaps, doubles, backs)
}

fn is_double(text: &str) -> bool {
    let numbers: Vec<&str> = text.split(' ').filter(|word| word.parse::<u64>().is_ok()).collect();
    numbers[0] == numbers[1]
}

#[test]
fn recorded_history_can_be_read_again() {
    let recorder = Recorder::in_memory();
    let before = Moment::now();
    let holding = recorder.ask("alice", "{größe} 鎖").acquired(Some(7), Some(Moment(5)));
    holding.extended(Moment(6));
    holding.lost();
    recorder.ask("bob", "x").acquired(None, None).released();
    drop(recorder.ask("carol", "x"));
    let _open = recorder.ask("dave", "x").acquired(Some(u64::MAX), None);
    let history = recorder.history();

    let [alice, bob, dave] = history.claims() else { panic!("{history:?}") };
    assert_eq!((alice.client.as_str(), alice.lock.as_str()), ("alice", "{größe} 鎖"));
    assert_eq!((alice.fence, alice.valid_until), (Some(7), Some(Moment(6))));
    assert!(before <= alice.asked_at && alice.asked_at <= alice.acquired_at);
    assert!(Some(alice.acquired_at) <= alice.ended_at && alice.ended_at <= Some(Moment::now()));
    assert_eq!((bob.fence, bob.valid_until, bob.ended_at.is_some()), (None, None, true));
    assert_eq!((dave.fence, dave.ended_at), (Some(u64::MAX), None));
    assert_eq!(history.report().shares()["carol"].in_vain, 1);
}

#[test]
fn lines_that_make_no_sense_are_not_passed_over() {
    let asked = "1\t5\tasked\ta\tx\n";
    let acquired = "1\t6\tacquired\t7\t-\n";
    for wrong in [
        "1\t5\treleased\n".to_owned(),
        "nothing\n".to_owned(),
        format!("{asked}1\t6\treleased\n"),
        format!("{asked}{asked}"),
        format!("{asked}1\t6\tacquired\tseven\t-\n"),
        format!("{asked}{acquired}{acquired}"),
        format!("{asked}{acquired}1\t7\tlost\n1\t8\treleased\n"),
        format!("{asked}1\t6\tgave up\n{acquired}"),
    ] {
        let last = wrong.lines().count();
        let panic = std::panic::catch_unwind(|| History::parse(&wrong)).expect_err(&wrong);
        let message = panic.downcast_ref::<String>().expect("a text");
        assert!(message.starts_with(&format!("line {last} is invalid")), "{message}");
    }
}

#[test]
fn shares_and_waits_are_reported() {
    let mut history = history(&[
        ("a", "x", None, 10..20),
        ("b", "x", None, 25..30),
        ("a", "x", None, 40..45),
        ("a", "x", None, 50..60),
    ]);
    let report = history.report();
    let nanos = Duration::from_nanos;
    let (claims, held, longest_wait, in_vain) = (3, nanos(25), nanos(3), 0);
    assert_eq!(report.shares()["a"], Share { claims, held, longest_wait, in_vain });
    assert_eq!((report.claims(), report.longest_wait()), (4, nanos(3)));
    assert!((report.unevenness() - 3.0).abs() < f64::EPSILON);

    let (client, lock) = ("c".to_owned(), "x".to_owned());
    let (asked_at, gave_up_at) = (Moment(0), Some(Moment(99)));
    let (how, size) = (How::Alone, None);
    history.in_vain.push(Wait { client, lock, how, size, asked_at, gave_up_at });
    let report = history.report();
    assert_eq!(report.longest_wait(), nanos(99), "failed waits count");
    assert!(report.unevenness().is_infinite(), "a client that asked acquired nothing");
    let shown = report.to_string();
    assert!(
        shown.starts_with("4 claims, most by fewest inf, longest wait 99ns\n  a: 3"),
        "{shown}"
    );
    assert!(History::default().report().unevenness().is_nan());
}

fn found(history: &History) -> Vec<String> {
    let found = history.violations(Until::Ended);
    let shown =
        |it: &Violation| format!("{}: {} and {}", it.promise, it.first.client, it.second.client);
    found.iter().map(shown).collect()
}

fn history(told: &[(&str, &str, Option<u64>, std::ops::Range<u64>)]) -> History {
    claims(told).into_iter().collect()
}

fn claims(told: &[(&str, &str, Option<u64>, std::ops::Range<u64>)]) -> Vec<Claim> {
    told.iter()
        .map(|(client, lock, fence, time)| claim(client, lock, *fence, time.clone()))
        .collect()
}

/// Every claim was asked for three nanoseconds before it began.
fn claim(client: &str, lock: &str, fence: Option<u64>, time: std::ops::Range<u64>) -> Claim {
    Claim {
        client: client.to_owned(),
        lock: lock.to_owned(),
        how: How::Alone,
        set: None,
        fence,
        asked_at: Moment(time.start.saturating_sub(3)),
        acquired_at: Moment(time.start),
        ended_at: Some(Moment(time.end)),
        valid_until: None,
    }
}

//! Only nodes that write everything to disk before they answer keep their vote after a restart.

use super::*;

/// Three nodes that vote and are known to be durable, and a client.
fn durable() -> (Fixture, View) {
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.is_durable = true;
    let opinions = fixture.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(votes), "{opinions:?}");
    (fixture, view)
}

#[test]
fn durable_node_votes_immediately_after_a_restart() {
    let (mut fixture, mut view) = durable();
    let before = fixture.info(1);
    fixture.stores[1].membership.set_run(7);
    let Opinion::Votes(mark) = fixture.call(&mut view, 1, 1) else { panic!("it votes") };
    assert_ne!(mark, before.mark, "sessions from before the restart end");
    assert_eq!(fixture.info(1), NodeInfo { mark, ..before });
}

#[test]
fn node_that_was_not_durable_before_is_quarantined_after_a_restart() {
    let (mut fixture, mut view) = Fixture::founded(3);
    fixture.is_durable = true;
    fixture.stores[1].membership.set_run(7);
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::OtherRun));
    fixture.stores[1].membership.set_run(8);
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::OtherRun), "nor in quarantine");
}

#[test]
fn node_that_is_not_durable_any_more_is_quarantined_after_a_restart() {
    let (mut fixture, mut view) = durable();
    fixture.is_durable = false;
    fixture.stores[1].membership.set_run(7);
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::OtherRun));

    let (mut fixture, mut view) = durable();
    fixture.is_durable = false;
    assert!(votes(&fixture.call(&mut view, 1, 1)), "the last handshake counts");
    fixture.is_durable = true;
    fixture.stores[1].membership.set_run(7);
    assert!(waits(&fixture.call(&mut view, 1, 1), Reason::OtherRun));
}

#[test]
fn restart_does_not_end_the_quarantine_of_a_durable_node() {
    let (mut fixture, mut view) = durable();
    fixture.stores[1].clear();
    fixture.call_all(&mut view, &[0, 1, 2]);
    assert!(!fixture.info(1).is_durable, "it has forgotten something");
    fixture.stores[1].membership.set_run(7);
    assert!(waits(&fixture.call_all(&mut view, &[0, 1, 2])[1], Reason::OtherRun));
    fixture.now_ms += QUARANTINE;
    assert!(votes(&fixture.call(&mut view, 1, 1)));
    assert!(fixture.info(1).is_durable, "from now on");
}

#[test]
fn durable_node_whose_clock_was_set_forward_is_quarantined_after_a_restart() {
    let (mut fixture, mut view) = durable();
    fixture.stores[1].membership.set_run(7);
    let step_ms = STEP_TOLERANCE_MS.max(WALL_TOLERANCE_MS) + 101;
    let wall_ms = fixture.now_ms;
    fixture.now_ms += step_ms;
    let handshake = Handshake { wall_ms, ..fixture.handshake() };
    let info = fixture.handshake_with(1, handshake);
    assert_eq!(
        (info.quarantine, info.is_enrolled),
        (Some(quarantine(Reason::ClockStepped)), false)
    );
    fixture.now_ms -= step_ms;
    assert!(!votes(&fixture.call(&mut view, 1, 1)));
}

#[test]
fn durable_server_with_the_record_of_another_node_does_not_vote() {
    let (mut fixture, _) = durable();
    fixture.stores[1] = fixture.stores[0].clone();
    fixture.stores[1].membership.set_run(7);
    // The node that the record belongs to cannot be reached.
    let mut view = Fixture::client(&[0, 1, 2]);
    fixture.call(&mut view, 2, 2);
    let opinion = fixture.call(&mut view, 1, 1);
    assert_eq!(opinion, Opinion::Differs(Disagreement::OtherPlace));
}

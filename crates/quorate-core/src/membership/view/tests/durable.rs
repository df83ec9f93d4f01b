//! Nodes that write everything to disk at once keep their vote over a restart, and no others do.

use super::*;

/// Three nodes that vote and are known to be durable, and a client.
fn durable() -> (Hall, View) {
    let (mut hall, mut view) = Hall::founded(3);
    hall.is_durable = true;
    let opinions = hall.call_all(&mut view, &[0, 1, 2]);
    assert!(opinions.iter().all(votes), "{opinions:?}");
    (hall, view)
}

#[test]
fn durable_node_votes_at_once_after_a_restart() {
    let (mut hall, mut view) = durable();
    let before = hall.info(1);
    hall.stores[1].membership.set_run(7);
    let Opinion::Votes(mark) = hall.call(&mut view, 1, 1) else { panic!("it votes") };
    assert_ne!(mark, before.mark, "sessions from before the restart end");
    assert_eq!(hall.info(1), NodeInfo { mark, ..before });
}

#[test]
fn node_that_was_not_durable_before_is_quarantined_after_a_restart() {
    let (mut hall, mut view) = Hall::founded(3);
    hall.is_durable = true;
    hall.stores[1].membership.set_run(7);
    assert!(waits(&hall.call(&mut view, 1, 1), Reason::OtherRun));
    hall.stores[1].membership.set_run(8);
    assert!(waits(&hall.call(&mut view, 1, 1), Reason::OtherRun), "nor in quarantine");
}

#[test]
fn node_that_is_not_durable_any_more_is_quarantined_after_a_restart() {
    let (mut hall, mut view) = durable();
    hall.is_durable = false;
    hall.stores[1].membership.set_run(7);
    assert!(waits(&hall.call(&mut view, 1, 1), Reason::OtherRun));

    let (mut hall, mut view) = durable();
    hall.is_durable = false;
    assert!(votes(&hall.call(&mut view, 1, 1)), "the last handshake counts");
    hall.is_durable = true;
    hall.stores[1].membership.set_run(7);
    assert!(waits(&hall.call(&mut view, 1, 1), Reason::OtherRun));
}

#[test]
fn restart_does_not_end_the_quarantine_of_a_durable_node() {
    let (mut hall, mut view) = durable();
    hall.stores[1].clear();
    hall.call_all(&mut view, &[0, 1, 2]);
    assert!(!hall.info(1).is_durable, "it has forgotten something");
    hall.stores[1].membership.set_run(7);
    assert!(waits(&hall.call_all(&mut view, &[0, 1, 2])[1], Reason::OtherRun));
    hall.now_ms += QUARANTINE;
    assert!(votes(&hall.call(&mut view, 1, 1)));
    assert!(hall.info(1).is_durable, "from now on");
}

#[test]
fn durable_node_whose_clock_was_set_forward_is_quarantined_after_a_restart() {
    let (mut hall, mut view) = durable();
    hall.stores[1].membership.set_run(7);
    let step_ms = STEP_TOLERANCE_MS.max(WALL_TOLERANCE_MS) + 101;
    let wall_ms = hall.now_ms;
    hall.now_ms += step_ms;
    let handshake = Handshake { wall_ms, ..hall.handshake() };
    let info = hall.shake(1, handshake);
    assert_eq!(
        (info.quarantine, info.is_enrolled),
        (Some(quarantine(Reason::ClockStepped)), false)
    );
    hall.now_ms -= step_ms;
    assert!(!votes(&hall.call(&mut view, 1, 1)));
}

#[test]
fn durable_server_with_the_record_of_another_node_does_not_vote() {
    let (mut hall, _) = durable();
    hall.stores[1] = hall.stores[0].clone();
    hall.stores[1].membership.set_run(7);
    // The node whose record it is cannot be reached.
    let mut view = Hall::client(&[0, 1, 2]);
    hall.call(&mut view, 2, 2);
    let opinion = hall.call(&mut view, 1, 1);
    assert_eq!(opinion, Opinion::Differs(Disagreement::OtherPlace));
}

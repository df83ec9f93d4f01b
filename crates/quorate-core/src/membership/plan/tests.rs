//! Which changes of a set are planned, and which are rejected.

use super::*;
use crate::membership::{Mark, Quarantine};

fn label(node: u8) -> Arc<str> {
    format!("node{node}").into()
}

fn id(node: u8) -> NodeId {
    NodeId::from_random(node.into())
}

fn members(nodes: &[u8]) -> Members {
    Members::new(nodes.iter().map(|node| Member { id: id(*node), label: label(*node) }))
}

fn config(change: u64, nodes: &[u8]) -> AgreedConfig {
    let founded = AgreedConfig::founded_by(members(&[0, 1, 2]), 500, 1_000).unwrap();
    AgreedConfig { change, members: members(nodes), ..founded }
}

const fn quarantine(reason: Reason, left_ms: u64) -> Quarantine {
    Quarantine { reason, left_ms }
}

fn report(node: u8, config: Option<&AgreedConfig>) -> NodeInfo {
    NodeInfo {
        time_us: 1,
        mark: Mark::from_random(node.into()),
        id: id(node),
        config: config.cloned(),
        is_enrolled: config.is_some(),
        quarantine: config.is_none().then_some(quarantine(Reason::Unknown, 1_000)),
        is_durable: false,
        keys: 0,
        changes_in_ms: 0,
        recovers_in_ms: 0,
    }
}

/// Plans for the wanted nodes. Each has not reported, or has reported no config or this one.
fn planned(wanted: &[(u8, Option<Option<&AgreedConfig>>)]) -> Result<AgreedConfig, PlanError> {
    let nodes: Vec<(Arc<str>, Option<NodeInfo>)> = wanted
        .iter()
        .map(|(node, info)| (label(*node), info.map(|config| report(*node, config))))
        .collect();
    plan(nodes.iter().map(|(label, info)| (label, info.as_ref())))
}

#[test]
fn lists_one_step_away_are_planned() {
    let one = config(1, &[0, 1, 2]);
    let by = Some(Some(&one));
    let fresh = Some(None);
    let swapped = planned(&[(0, by), (1, by), (3, fresh)]).unwrap();
    assert_eq!(swapped, AgreedConfig { newcomer: Some(id(3)), ..config(2, &[0, 1, 3]) });
    let grown = planned(&[(0, by), (1, by), (2, None), (3, fresh)]).unwrap();
    let before = Some(members(&[0, 1, 2]));
    let expected = config(2, &[0, 1, 2, 3]);
    assert_eq!(grown, AgreedConfig { before: before.clone(), newcomer: Some(id(3)), ..expected });
    let shrunk = planned(&[(0, by), (1, by)]).unwrap();
    assert_eq!(shrunk, AgreedConfig { before, ..config(2, &[0, 1]) });
    let two = planned(&[(0, by), (3, fresh), (4, fresh)]);
    assert!(matches!(two, Err(PlanError::Minority { .. })), "{two:?}");
    let two = planned(&[(0, by), (1, by), (2, by), (3, fresh), (4, fresh)]);
    assert_eq!(two, Err(PlanError::TooMany { added: 2, removed: 0 }));
    assert_eq!(planned(&[(0, by), (1, by), (2, None)]), Err(PlanError::Settled));
    assert_eq!(planned(&[(0, fresh), (1, None)]), Err(PlanError::Unfounded));
}

#[test]
fn a_change_must_be_completed_before_the_next() {
    let before = Some(members(&[0, 1, 2]));
    let open = AgreedConfig { before, newcomer: Some(id(3)), ..config(2, &[0, 1, 2, 3]) };
    let by = Some(Some(&open));
    let next = planned(&[(0, by), (1, by), (2, by)]);
    assert!(matches!(next, Err(PlanError::Open(_))), "{next:?}");
    let next = planned(&[(0, by), (1, by), (2, by), (4, Some(None))]);
    assert!(matches!(next, Err(PlanError::Open(_))), "{next:?}");
    let joining = AgreedConfig { newcomer: Some(id(3)), ..config(3, &[0, 1, 3]) };
    let with = Some(Some(&joining));
    let next = planned(&[(0, with), (1, with), (3, Some(None)), (4, Some(None))]);
    assert_eq!(next, Err(PlanError::Joining));
    let another = planned(&[(0, with), (1, with), (4, Some(None))]).unwrap();
    assert_eq!(another.newcomer, Some(id(4)), "it will never join");
    let next = planned(&[(0, by), (1, by), (2, by), (3, by), (4, Some(None))]);
    assert!(matches!(next, Err(PlanError::Open(_))), "{next:?}");
    let ended = planned(&[(0, by), (1, by), (2, by), (3, Some(None))]).unwrap();
    assert_eq!(ended, AgreedConfig { before: None, change: 3, ..open.clone() });
    let ended = planned(&[(0, by), (1, by), (2, None), (3, None)]);
    assert!(matches!(ended, Err(PlanError::Minority { count: 2, needed: 3, .. })), "{ended:?}");
}

#[test]
fn a_majority_must_have_the_last_change() {
    let (one, two) = (config(1, &[0, 1, 2]), config(2, &[0, 1, 3]));
    let (old, new) = (Some(Some(&one)), Some(Some(&two)));
    let next = planned(&[(0, new), (4, Some(None)), (3, None)]);
    assert!(matches!(next, Err(PlanError::Minority { count: 1, needed: 2, .. })), "{next:?}");
    let next = planned(&[(0, new), (1, old), (4, Some(None))]);
    let Err(PlanError::Minority { config, .. }) = next else { panic!("{next:?}") };
    assert_eq!(*config, two, "node 1 must receive it");
}

#[test]
fn nothing_is_planned_until_every_node_that_counts_accepts_a_change() {
    let one = config(1, &[0, 1, 2]);
    let waits = |node: u8, changes_in_ms| NodeInfo { changes_in_ms, ..report(node, Some(&one)) };
    let planned = |third: NodeInfo| {
        let nodes = [(label(0), waits(0, 0)), (label(1), waits(1, 0)), (label(2), third)];
        let fresh = [(label(3), report(3, None))];
        plan(nodes.iter().chain(&fresh).map(|(label, info)| (label, Some(info))))
    };
    assert!(planned(waits(2, 0)).is_ok());
    assert_eq!(planned(waits(2, 1)), Err(PlanError::TooSoon { left_ms: 1 }));
    let forgetful = NodeInfo {
        quarantine: Some(quarantine(Reason::OtherRun, 9)),
        is_enrolled: false,
        ..waits(2, 1)
    };
    assert!(planned(forgetful.clone()).is_ok(), "it does not count");
    let enrolled = NodeInfo { is_enrolled: true, ..forgetful };
    assert_eq!(planned(enrolled), Err(PlanError::TooSoon { left_ms: 1 }));
    // The longest time counts. A node that is to be removed does not count.
    let nodes = [(label(0), waits(0, 7)), (label(1), waits(1, 9))];
    let shrunk = plan(nodes.iter().map(|(label, info)| (label, Some(info))));
    assert_eq!(shrunk, Err(PlanError::TooSoon { left_ms: 9 }));
    // A node that missed the last change receives that first, however recent the change is.
    let two = config(2, &[0, 1, 3]);
    let nodes = [
        (label(0), NodeInfo { changes_in_ms: 5, ..report(0, Some(&two)) }),
        (label(1), waits(1, 0)),
        (label(3), report(3, None)),
    ];
    let next = plan(nodes.iter().map(|(label, info)| (label, Some(info))));
    assert!(matches!(next, Err(PlanError::Minority { .. })), "{next:?}");
}

#[test]
fn a_new_node_must_be_new() {
    let one = config(1, &[0, 1, 2]);
    let by = Some(Some(&one));
    let silent = PlanError::Silent(label(3));
    assert_eq!(planned(&[(0, by), (1, by), (3, None)]), Err(silent));
    let used = planned(&[(0, by), (1, by), (3, by)]);
    assert_eq!(used, Err(PlanError::NotFresh(label(3))));
    let holding = NodeInfo { keys: 1, ..report(3, None) };
    let known = NodeInfo { quarantine: Some(quarantine(Reason::OtherRun, 1)), ..report(3, None) };
    for third in [holding, known] {
        let nodes = [(label(0), report(0, Some(&one))), (label(1), report(1, Some(&one)))];
        let wanted = nodes.into_iter().chain([(label(3), third)]).collect::<Vec<_>>();
        let refused = plan(wanted.iter().map(|(label, info)| (label, Some(info))));
        assert_eq!(refused, Err(PlanError::NotFresh(label(3))));
    }
    let mut single = config(1, &[0]);
    single.members = members(&[0]);
    let by = Some(Some(&single));
    let none_stays = planned(&[(3, Some(None))]);
    assert_eq!(none_stays, Err(PlanError::Unfounded));
    assert!(planned(&[(0, by), (3, Some(None))]).is_ok());
    let twice = [(label(0), report(0, Some(&one))), (label(9), report(0, Some(&one)))];
    let twice = plan(twice.iter().map(|(label, info)| (label, Some(info))));
    assert_eq!(twice, Err(PlanError::SameNode(label(0))));
}

#[test]
fn one_of_two_rival_changes_is_chosen_if_the_other_has_lost() {
    let one = AgreedConfig { newcomer: Some(id(3)), ..config(2, &[0, 1, 3]) };
    let other = AgreedConfig { newcomer: Some(id(4)), ..config(2, &[0, 1, 4]) };
    let (left, right) = (Some(Some(&one)), Some(Some(&other)));
    let chosen = planned(&[(0, left), (1, right), (3, Some(None))]).unwrap();
    assert_eq!(chosen, AgreedConfig { change: 3, ..one.clone() });
    let chosen = planned(&[(0, left), (1, right), (4, Some(None))]).unwrap();
    assert_eq!(chosen, AgreedConfig { change: 3, ..other.clone() });
    let neither = planned(&[(0, left), (1, right), (2, None)]);
    assert!(matches!(neither, Err(PlanError::Split(_))), "{neither:?}");
    // With five nodes, those that do not answer may have agreed on the other change.
    let one = AgreedConfig { newcomer: Some(id(5)), ..config(2, &[0, 1, 2, 3, 5]) };
    let other = AgreedConfig { newcomer: Some(id(6)), ..config(2, &[0, 1, 2, 3, 6]) };
    let (left, right) = (Some(Some(&one)), Some(Some(&other)));
    let unsure = planned(&[(0, left), (1, right), (2, None), (3, None), (5, None)]);
    assert!(matches!(unsure, Err(PlanError::Split(_))), "{unsure:?}");
    let sure = planned(&[(0, left), (1, right), (2, left), (3, None), (5, None)]).unwrap();
    assert_eq!(sure, AgreedConfig { change: 3, ..one });
}

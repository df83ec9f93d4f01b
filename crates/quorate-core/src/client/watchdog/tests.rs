//! The watchdog: replies, silent nodes, deadlines and clocks.

use super::*;
use crate::{
    command::{ClientId, Owner},
    fence::Fence,
    name::Name,
    queue::{Extended, FencedLease},
    quorum::NodeSet,
    terms::Drift,
};

const NODES: usize = 3;
const WALL: Duration = Duration::from_secs(1_700_000_000);

fn at(ms: u64) -> Moment {
    Moment::ZERO.saturating_add(Duration::from_millis(ms))
}

fn patience(ttl: Duration) -> Duration {
    ttl / 10
}

fn terms(ttl_ms: u64) -> Terms {
    let none = Drift { ppm: 0, fixed: Duration::ZERO };
    Terms::new(Duration::from_millis(ttl_ms), Duration::from_millis(1), none).unwrap()
}

fn watchdog() -> Watchdog {
    let max_ttl = Duration::from_secs(60);
    let config = Config { client: client(), nodes: NODES, has_sessions: true, max_ttl };
    Watchdog::new(&config, Jitter::new(1))
}

fn client() -> ClientId {
    ClientId::from_random([7; 20])
}

/// A lease with this ttl that was granted at the start.
fn acquired(name: &str, ttl_ms: u64, renewal: Renewal) -> Acquired {
    Acquired {
        name: Name::parse(name, "").unwrap(),
        owner: Owner::new(&client(), ttl_ms, "me"),
        terms: terms(ttl_ms),
        fenced: Some(FencedLease::acquired(Fence::new(1))),
        untaken: NodeSet::EMPTY,
        renewal,
        valid_until: at(ttl_ms),
        hold_until: Moment::from_nanos(u64::MAX),
        granted_at: Moment::ZERO,
    }
}

fn events(watchdog: &mut Watchdog) -> Vec<Event> {
    std::iter::from_fn(|| watchdog.poll_event()).collect()
}

/// The reply of a node that has extended every entry of a command.
fn all_extended(command: &Command) -> Reply {
    let Command::Extend { entries, .. } = command else { panic!("{command:?} is no extension") };
    Reply::ExtendedLeases(entries.iter().map(|entry| Extended::Renewed(entry.fence)).collect())
}

/// Advances the time until the watchdog sends something.
fn next_batch(watchdog: &mut Watchdog) -> (BatchId, Command, Moment) {
    loop {
        let now = watchdog.poll_timeout().expect("something is due");
        watchdog.handle_timeout(WALL + Duration::from_nanos(now.as_nanos()), &patience, now);
        if let Some((batch, command)) = watchdog.poll_transmit() {
            return (batch, command, now);
        }
    }
}

#[test]
fn renewal_by_a_majority_extends_the_lease() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    let (batch, command, sent_at) = next_batch(&mut watchdog);
    assert!(sent_at <= at(1_000), "after a third of the ttl: {sent_at:?}");
    let reply = all_extended(&command);
    watchdog.handle_answer(batch, 0, Some(&reply), sent_at);
    assert_eq!(
        watchdog.lease(lease).unwrap().lease().valid_until(),
        at(3_000),
        "one node of three"
    );
    watchdog.handle_answer(batch, 2, Some(&reply), sent_at);
    let ends_at = sent_at.saturating_add(Duration::from_secs(3));
    assert_eq!(watchdog.lease(lease).unwrap().lease().valid_until(), ends_at);
    let last = events(&mut watchdog).pop();
    assert_eq!(last, Some(Event::Valid { lease, until: ends_at }));
}

#[test]
fn loss_is_reported_at_the_deadline_without_any_reply() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::Off), Moment::ZERO);
    assert_eq!(watchdog.poll_timeout(), Some(at(3_000)));
    watchdog.handle_timeout(WALL, &patience, at(2_999));
    assert_eq!(events(&mut watchdog), []);
    watchdog.handle_timeout(WALL, &patience, at(3_000));
    assert_eq!(events(&mut watchdog), [Event::Lost { lease, reason: LostReason::Expired }]);
    assert_eq!(watchdog.lose(lease, LostReason::Gone), LostReason::Expired);
    assert_eq!(events(&mut watchdog), [], "it is reported once");
    assert!(watchdog.remove_lease(lease).is_some(), "until its guard is dropped");
    assert_eq!(watchdog.poll_timeout(), None);
}

#[test]
fn lease_whose_renewal_is_stopped_ends() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    let (batch, command, sent_at) = next_batch(&mut watchdog);
    watchdog.set_hold(lease, Renewal::Off, Moment::from_nanos(u64::MAX));
    // An extension that was sent before still counts, and no other is sent.
    let reply = all_extended(&command);
    (0..NODES).for_each(|node| watchdog.handle_answer(batch, node, Some(&reply), sent_at));
    let ends_at = sent_at.saturating_add(Duration::from_secs(3));
    while let Some(now) = watchdog.poll_timeout() {
        assert!(now <= ends_at);
        watchdog.handle_timeout(WALL + Duration::from_nanos(now.as_nanos()), &patience, now);
        assert!(watchdog.poll_transmit().is_none());
    }
    let last = events(&mut watchdog).pop();
    assert_eq!(last, Some(Event::Lost { lease, reason: LostReason::Expired }));
}

#[test]
fn later_limit_ends_the_lease_and_is_never_extended() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    watchdog.set_hold(lease, Renewal::On, at(2_000));
    watchdog.set_hold(lease, Renewal::On, at(9_000));
    assert_eq!(watchdog.lease(lease).unwrap().lease().valid_until(), at(2_000));
    while let Some(now) = watchdog.poll_timeout() {
        watchdog.handle_timeout(WALL + Duration::from_nanos(now.as_nanos()), &patience, now);
        assert!(watchdog.poll_transmit().is_none(), "the limit stays");
    }
    let last = events(&mut watchdog).pop();
    assert_eq!(last, Some(Event::Lost { lease, reason: LostReason::MaxHold }));
    watchdog.set_hold(lease, Renewal::On, at(9_000));
    assert_eq!(watchdog.check(lease, at(1_000)), Err(LostReason::MaxHold), "lost stays lost");
    assert_eq!(watchdog.poll_timeout(), None);
}

#[test]
fn expired_lease_is_never_revived() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    let (batch, command, _) = next_batch(&mut watchdog);
    assert_eq!(watchdog.check(lease, at(3_000)), Err(LostReason::Expired));
    let reply = all_extended(&command);
    (0..NODES).for_each(|node| watchdog.handle_answer(batch, node, Some(&reply), at(2_000)));
    assert_eq!(watchdog.check(lease, at(2_000)), Err(LostReason::Expired));
}

#[test]
fn silent_nodes_are_retried_in_the_time_of_the_shortest_lease() {
    let mut watchdog = watchdog();
    let long = watchdog.keep(acquired("long", 60_000, Renewal::On), Moment::ZERO);
    let short = watchdog.keep(acquired("short", 100, Renewal::On), Moment::ZERO);
    watchdog.renew(&[long, short], &patience, at(1));
    let (batch, command) = watchdog.poll_transmit().unwrap();
    let Command::Extend { entries, .. } = &command else { panic!("{command:?}") };
    assert_eq!(entries.len(), 2, "they are sent together");
    assert_eq!(watchdog.poll_timeout(), Some(at(11)), "a tenth of the shorter ttl");
    watchdog.handle_answer(batch, 0, Some(&all_extended(&command)), at(2));
    events(&mut watchdog);
    watchdog.handle_timeout(WALL, &patience, at(11));
    let unsure = |event: &Event| matches!(event, Event::Renewed { outcome: Outcome::Unsure, .. });
    assert_eq!(events(&mut watchdog).iter().filter(|event| unsure(event)).count(), 2);
    assert!(watchdog.poll_timeout() <= Some(at(34)), "after a quarter of the time that is left");
}

/// Advances the time to this moment. Counts what is sent.
fn advance(watchdog: &mut Watchdog, until: Moment) -> usize {
    let mut sent = 0;
    while let Some(now) = watchdog.poll_timeout().filter(|due| *due <= until) {
        watchdog.handle_timeout(WALL + Duration::from_nanos(now.as_nanos()), &patience, now);
        sent += std::iter::from_fn(|| watchdog.poll_transmit()).count();
    }
    sent
}

#[test]
fn answer_after_the_vote_timeout_extends_the_lease_and_saves_the_retry() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 10_000, Renewal::On), Moment::ZERO);
    let (batch, command, sent_at) = next_batch(&mut watchdog);
    let late = sent_at.saturating_add(Duration::from_millis(1_500));
    assert_eq!(advance(&mut watchdog, late), 0, "the nodes are slow, and still have the request");
    let reply = all_extended(&command);
    (0..2).for_each(|node| watchdog.handle_answer(batch, node, Some(&reply), late));
    let ends_at = sent_at.saturating_add(Duration::from_secs(10));
    assert_eq!(watchdog.lease(lease).unwrap().lease().valid_until(), ends_at);
    assert!(!watchdog.lease(lease).unwrap().lease().is_at_risk());
    let outcomes = events(&mut watchdog).into_iter().filter_map(|event| match event {
        Event::Renewed { outcome, .. } => Some(outcome),
        _ => None,
    });
    let extended = Outcome::Extended { valid_until: ends_at };
    assert_eq!(outcomes.collect::<Vec<_>>(), [Outcome::Unsure, extended]);
    assert_eq!(advance(&mut watchdog, late.saturating_add(Duration::from_millis(600))), 0);
}

#[test]
fn answer_after_the_end_of_the_lease_does_not_revive_it() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 10_000, Renewal::On), Moment::ZERO);
    let (batch, command, _) = next_batch(&mut watchdog);
    advance(&mut watchdog, at(9_999));
    let reply = all_extended(&command);
    (0..NODES).for_each(|node| watchdog.handle_answer(batch, node, Some(&reply), at(10_000)));
    assert_eq!(watchdog.check(lease, at(10_000)), Err(LostReason::Expired));
    advance(&mut watchdog, at(12_000));
    let lost = Event::Lost { lease, reason: LostReason::Expired };
    assert_eq!(events(&mut watchdog).iter().filter(|event| **event == lost).count(), 1);
    assert_eq!(watchdog.poll_timeout(), None, "nothing of its renewals is left");
}

#[test]
fn slow_nodes_get_few_retries_and_the_last_ones_just_before_the_end() {
    let mut watchdog = watchdog();
    watchdog.keep(acquired("a", 10_000, Renewal::On), Moment::ZERO);
    let (_, _, sent_at) = next_batch(&mut watchdog);
    let half = at((10_000 + sent_at.as_nanos() / 1_000_000) / 2);
    let early = advance(&mut watchdog, half);
    let late = advance(&mut watchdog, at(9_999));
    assert!((1..=2).contains(&early), "{early} in the first half of the time");
    assert!((2..=9).contains(&late), "{late} in the second half");
}

#[test]
fn renewal_that_fails_is_retried_soon_even_after_the_vote_timeout() {
    for fails_after in [1_000, 1_500] {
        let mut watchdog = watchdog();
        watchdog.keep(acquired("a", 10_000, Renewal::On), Moment::ZERO);
        let (batch, _, sent_at) = next_batch(&mut watchdog);
        let failed_at = sent_at.saturating_add(Duration::from_millis(fails_after));
        advance(&mut watchdog, failed_at);
        (0..2).for_each(|node| watchdog.handle_answer(batch, node, None, failed_at));
        let soon = failed_at.saturating_add(Duration::from_millis(300));
        assert_eq!(advance(&mut watchdog, soon), 1, "both connections are gone");
    }
}

#[test]
fn batch_that_fails_in_part_loses_only_the_missing_leases() {
    let mut watchdog = watchdog();
    let a = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    let b = watchdog.keep(acquired("b", 3_000, Renewal::On), Moment::ZERO);
    watchdog.renew(&[a, b], &patience, at(1));
    let (batch, _) = watchdog.poll_transmit().unwrap();
    let fates = [Extended::Renewed(Fence::new(1)), Extended::Refused(Fence::new(2))];
    let reply = Reply::ExtendedLeases(fates.into());
    watchdog.handle_answer(batch, 0, Some(&reply), at(2));
    watchdog.handle_answer(batch, 1, Some(&reply), at(2));
    assert_eq!(watchdog.check(a, at(3_000)), Ok(()));
    assert_eq!(watchdog.check(b, at(3)), Err(LostReason::Gone));
    let lost = Event::Lost { lease: b, reason: LostReason::Gone };
    assert_eq!(events(&mut watchdog).iter().filter(|event| **event == lost).count(), 1);
}

#[test]
fn retired_lease_is_not_extended() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    assert!(!watchdog.retire_unextended(lease, at(2_000)), "less than half of it is left");
    assert!(watchdog.retire_unextended(lease, at(1)));
    watchdog.renew(&[lease], &patience, at(1));
    assert_eq!(watchdog.poll_transmit().map(|(_, command)| command), None);
    assert!(watchdog.begin_extension(lease, terms(5_000), at(1)).is_err());
    assert_eq!(watchdog.check(lease, at(1)), Ok(()), "it is held");
}

#[test]
fn shorter_extension_counts_when_it_is_sent() {
    let mut watchdog = watchdog();
    let lease = watchdog.keep(acquired("a", 3_000, Renewal::On), Moment::ZERO);
    let extending = watchdog.begin_extension(lease, terms(500), at(100)).unwrap();
    assert_eq!(extending.held_until, at(600));
    assert_eq!(events(&mut watchdog), [Event::Valid { lease, until: at(600) }]);
    assert!(watchdog.poll_timeout() <= Some(at(350)), "it is renewed in time");
}

#[test]
fn clock_jump_renews_every_lease_and_ends_none() {
    let mut watchdog = watchdog();
    let rare = watchdog.keep(acquired("rare", 60_000, Renewal::On), Moment::ZERO);
    let often = watchdog.keep(acquired("often", 3_000, Renewal::On), Moment::ZERO);
    let (batch, command, sent_at) = next_batch(&mut watchdog);
    let reply = all_extended(&command);
    (0..NODES).for_each(|node| watchdog.handle_answer(batch, node, Some(&reply), sent_at));
    events(&mut watchdog);
    let due = watchdog.poll_timeout().unwrap();
    let wall = WALL + Duration::from_nanos(due.as_nanos()) + Duration::from_secs(3_600);
    watchdog.handle_timeout(wall, &patience, due);
    let (_, command) = watchdog.poll_transmit().unwrap();
    let Command::Extend { entries, .. } = command else { panic!("no extension") };
    assert_eq!(entries.len(), 2);
    let at_risk = [Event::AtRisk { lease: rare }, Event::AtRisk { lease: often }];
    assert!(at_risk.iter().all(|it| events(&mut watchdog.clone()).contains(it)));
    assert_eq!(watchdog.check(rare, due), Ok(()));
}

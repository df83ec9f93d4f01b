//! What the watchdog does while servers cannot be reached.

use std::{cell::Cell, rc::Rc, time::Duration};

use quorate::{Client, Guard, error::LostReason};
use tokio::{join, time::sleep};

use crate::{
    dice::{Dice, for_seeds},
    fixture::{Fixture, Mode, Program, TICK},
    server::{Keeps, Manner, Node},
    trace::now,
    waiting::{all_attached, eventually},
};

#[test]
fn lease_is_renewed_while_any_minority_is_unreachable() {
    for_seeds(30, |seed| {
        let mut dice = Dice::new(seed, "renewals");
        let ttl = dice.ms(300..=1_500);
        let mut fixture = Fixture::new(seed, 3, dice.ms(2..=10));
        fixture.program("holder", move |program| async move {
            let client = program.client("").ttl(ttl).build().expect("valid");
            let rival = program.client(" rival").ttl(ttl).build().expect("valid");
            all_attached(&client).await;
            let guard = hold_everywhere(&program, &client).await;
            let is_over = Cell::new(false);
            let faults = async {
                let mut dice = program.dice("faults");
                // Always the same one: it has lost the key, and no renewal restores it.
                let struck = dice.below(program.nodes.len());
                for _ in 0..5 {
                    strike(&program, struck, &mut dice).await;
                    all_attached(&client).await;
                }
                is_over.set(true);
            };
            let holding = hold(&guard, &is_over);
            join!(faults, holding, try_in_vain(&rival, &is_over));
            guard.verify().await.expect("it is still ours");
            guard.release().await.expect("it was ours");
        });
        fixture.run(Duration::from_secs(60), |_| {});
    });
}

#[test]
fn loss_is_reported_before_the_keys_expire_when_a_majority_is_cut_off() {
    for_seeds(60, |seed| lose_before(seed, Ending::Cut));
}

#[test]
fn end_of_a_fixed_lease_is_reported_before_the_keys_expire() {
    for_seeds(40, |seed| lose_before(seed, Ending::Fixed));
}

#[test]
fn lease_outlives_a_shorter_silence_of_all_servers() {
    for_seeds(20, |seed| {
        let mut dice = Dice::new(seed, "silence");
        let ttl = dice.ms(500..=2_500);
        let mut fixture = Fixture::new(seed, 3, dice.ms(2..=10));
        fixture.program("holder", move |program| async move {
            let client = program.client("").ttl(ttl).build().expect("valid");
            all_attached(&client).await;
            let guard = client.mutex(LOCK).lock().await.expect("every server answers");
            let is_over = Cell::new(false);
            let silences = async {
                let (mut dice, third) = (program.dice("silence"), u64::try_from(ttl.as_millis()));
                for _ in 0..5 {
                    sleep(dice.ms(50..=1_000)).await;
                    program.nodes.iter().for_each(|node| node.set(Manner::Hang));
                    sleep(dice.ms(1..=third.expect("short") / 3)).await;
                    program.nodes.iter().for_each(|node| node.set(Manner::Answer));
                    sleep(ttl / 2).await;
                }
                is_over.set(true);
            };
            join!(silences, hold(&guard, &is_over));
            guard.release().await.expect("it was ours");
        });
        fixture.run(Duration::from_secs(60), |_| {});
    });
}

#[test]
fn server_that_forgets_does_not_end_a_lease() {
    for_seeds(20, |seed| {
        let mut dice = Dice::new(seed, "forgets");
        let ttl = dice.ms(500..=1_500);
        let mut fixture = Fixture::new(seed, 3, dice.ms(2..=10));
        let struck = dice.below(3);
        fixture.nodes[struck].set_keeps(Keeps::Nothing);
        let is_back = Rc::new(Cell::new(false));
        let returned = is_back.clone();
        fixture.program("holder", move |program| {
            let returned = returned.clone();
            async move {
                let client = program.client("").ttl(ttl).build().expect("valid");
                let rival = program.client(" rival").ttl(ttl).build().expect("valid");
                all_attached(&client).await;
                let guard = hold_everywhere(&program, &client).await;
                join!(hold(&guard, &returned), try_in_vain(&rival, &returned));
                all_attached(&rival).await;
                assert!(rival.mutex(LOCK).try_lock().await.expect("all answer").is_none());
                // With a queue the node may have granted it to us again before the rival.
                if program.mode == Mode::Classic {
                    eventually(ttl, "an extension creates no key", || {
                        !program.nodes[struck].has(LOCK, now())
                    })
                    .await;
                }
                guard.release().await.expect("it was ours");
            }
        });
        let (crash_at, bounce_at) = (dice.ms(300..=2_000), dice.ms(2_050..=3_000));
        let host = Node::host(struck);
        fixture.run(Duration::from_secs(60), |fixture| match fixture.now() {
            now if now == crash_at => fixture.sim.crash(host.as_str()),
            now if now == bounce_at => fixture.sim.bounce(host.as_str()),
            now if now == bounce_at + 3 * ttl => is_back.set(true),
            _ => {}
        });
    });
}

/// Takes the lock and waits until every server has the key: a contender could take the last one
/// otherwise, and no server could be spared.
async fn hold_everywhere(program: &Program, client: &Client) -> Guard {
    let guard = client.mutex(LOCK).lock().await.expect("every server answers");
    eventually(Duration::from_millis(50), "all have the key", || {
        program.nodes.iter().all(|node| node.has(LOCK, now()))
    })
    .await;
    guard
}

/// A server is away for a while, in one way or another.
async fn strike(program: &Program, number: usize, dice: &mut Dice) {
    let (me, node) = (program.host.clone(), Node::host(number));
    let (me, node) = (me.as_str(), node.as_str());
    let time = dice.ms(10..=2_000);
    match dice.below(5) {
        0 => {
            turmoil::partition(me, node);
            sleep(time).await;
            turmoil::repair(me, node);
        }
        1 => {
            turmoil::partition_oneway(node, me);
            sleep(time).await;
            turmoil::repair(me, node);
        }
        2 => {
            turmoil::hold(me, node);
            sleep(time).await;
            turmoil::release(me, node);
        }
        3 => {
            program.nodes[number].set(Manner::Hang);
            sleep(time).await;
            program.nodes[number].set(Manner::Answer);
        }
        _ => {
            program.nodes[number].set(Manner::HangUp);
            sleep(time).await;
            program.nodes[number].set(Manner::Answer);
        }
    }
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// It is renewed until no majority can be reached any more.
    Cut,
    /// It was never to be renewed.
    Fixed,
}

/// One client holds a lock and loses it; another waits for it, on a faster network.
fn lose_before(seed: u64, ending: Ending) {
    let mut dice = Dice::new(seed, "losses");
    let ttl = dice.ms(200..=2_000);
    let mut fixture = Fixture::new(seed, 3, Duration::from_millis(2));
    fixture.program("holder", move |program| lose(program, ttl, ending));
    fixture.program("next", move |program| async move {
        let client = program.client("").ttl(ttl).build().expect("valid");
        all_attached(&client).await;
        // The holder is there first.
        eventually(4 * ttl, "the lock is held", || program.claims.len() > 0).await;
        let guard = client.mutex(LOCK).lock_timeout(20 * ttl).await.expect("it is lost");
        let _claim = program.claims.open(&program.host, LOCK);
        guard.release().await.expect("it was ours");
    });
    // Answers may take longer than the allowance for drift: a lease that counted from them would
    // outlive its keys. If they do not, one that forgot about drift would.
    let slowest = u64::try_from(ttl.as_millis()).expect("short") / 10;
    let slowest = if dice.chance(50) { slowest } else { 1 };
    for number in 0..3 {
        fixture.sim.set_link_latency("holder", Node::host(number), dice.ms(1..=slowest));
    }
    fixture.run(Duration::from_secs(60), |_| {});
    assert_eq!(fixture.claims.len(), 2, "one after the other");
}

async fn lose(program: Program, ttl: Duration, ending: Ending) {
    let mut dice = program.dice("cut");
    let client = program.client("").ttl(ttl).build().expect("valid");
    all_attached(&client).await;
    let mutex = client.mutex(LOCK);
    let mutex = match ending {
        Ending::Cut => mutex,
        Ending::Fixed => mutex.no_renew(),
    };
    let guard = mutex.lock().await.expect("every server answers");
    let claim = program.claims.open(&program.host, LOCK);
    if let Ending::Cut = ending {
        // At any moment of the watchdog's work.
        sleep(dice.ms(0..=3_000)).await;
        guard.check().expect("it is renewed");
        cut_majority(&program, &mut dice);
    }
    let (cut_at, at_cut) = (now(), guard.remaining());
    let lost = guard.lost().await;
    drop(claim);
    assert_eq!(lost.reason, LostReason::Expired);
    let told_after = now() - cut_at;
    // An extension that was under way may have been confirmed by then.
    assert!(
        told_after >= at_cut && told_after <= ttl,
        "reported after {told_after:?} of {at_cut:?}"
    );
    guard.check().expect_err("the report is true");
    let keys = program.nodes.iter().filter(|node| node.has(LOCK, now())).count();
    assert!(keys >= 2, "only {keys} nodes still have the key");
    // The keys stay as long as the guard: they give its holder time to stop.
    eventually(2 * ttl, "the keys are gone", || {
        program.nodes.iter().filter(|node| node.has(LOCK, now())).count() < 2
    })
    .await;
}

/// Two of three servers cannot be reached any more, or their replies are lost.
fn cut_majority(program: &Program, dice: &mut Dice) {
    let (whole, is_one_way) = (dice.below(3), dice.chance(30));
    for number in (0..3).filter(|number| *number != whole) {
        let node = Node::host(number);
        if is_one_way {
            turmoil::partition_oneway(node.as_str(), program.host.as_str());
        } else {
            turmoil::partition(node.as_str(), program.host.as_str());
        }
    }
}

/// Checks at every tick whether the lock is held.
async fn hold(guard: &Guard, is_over: &Cell<bool>) {
    while !is_over.get() {
        guard.check().expect("a majority can be reached");
        sleep(TICK).await;
    }
}

/// Asks for the lock again and again.
async fn try_in_vain(rival: &Client, is_over: &Cell<bool>) {
    while !is_over.get() {
        let tried = rival.mutex(LOCK).try_lock().await;
        assert!(!matches!(tried, Ok(Some(_))), "two holders");
        sleep(7 * TICK).await;
    }
}

const LOCK: &str = "lock";

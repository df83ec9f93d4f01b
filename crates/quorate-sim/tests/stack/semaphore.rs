//! Four programs share two permits, while servers, links and programs fail.

use std::{cell::Cell, rc::Rc, time::Duration};

use quorate::{Client, Guard, Permit, Permits, Semaphore};
use tokio::time::sleep;

use crate::{
    chaos::{Chaos, program_host},
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    trace::now,
};

#[test]
fn two_permits_never_have_three_holders_and_all_continue_after_the_faults() {
    for_seeds(60, |seed| run(seed, 1));
}

/// A program that holds one permit and waits for the other one is the only one that does.
#[test]
fn callers_that_want_both_permits_never_deadlock() {
    for_seeds(60, |seed| run(seed, PERMITS));
}

fn run(seed: u64, most: u32) {
    let mut dice = Dice::new(seed, "semaphore");
    let story = Story {
        most,
        ttl: dice.ms(150..=1_000),
        chaos_until: dice.ms(2_000..=4_000),
        working: Rc::default(),
    };
    let (latency_max, nodes) = (dice.ms(2..=20), 1 + 2 * dice.below(3));
    let mut fixture = Fixture::new(seed, nodes, latency_max);
    let programs = 4;
    for number in 0..programs {
        let story = story.clone();
        fixture.program(&program_host(number), move |program| story.clone().play(program));
    }
    let mut chaos = Chaos::new(&fixture, programs, story.chaos_until);
    fixture.run(story.chaos_until + 2 * WAIT_MAX, |fixture| chaos.step(fixture));

    assert!(fixture.claims.len() >= 2 * programs, "all had permits after the end of the chaos");
    fixture.assert_nothing_left(story.ttl);
}

#[derive(Clone)]
struct Story {
    /// How many permits a program wants at most.
    most: u32,
    ttl: Duration,
    chaos_until: Duration,
    working: Rc<Cell<u32>>,
}

impl Story {
    async fn play(self, program: Program) {
        let client = program.client("").ttl(self.ttl).build().expect("valid");
        let mut dice = program.dice("rounds");
        while now() < self.chaos_until {
            self.round(&program, &client, &mut dice).await;
            sleep(dice.ms(0..=100)).await;
        }
        for _ in 0..2 {
            if self.most > 1 {
                let count = self.most;
                let all = permits(&client).acquire_many_timeout(count, WAIT_MAX).await;
                let all = all.unwrap_or_else(|error| panic!("{}: {error}", program.host));
                self.work_with_all(&program, all, &mut dice).await;
            }
            let guard = permits(&client).acquire_timeout(WAIT_MAX).await;
            let guard = guard.unwrap_or_else(|error| panic!("{}: {error}", program.host));
            self.work_and_release(&program, guard, &mut dice).await;
        }
        assert!(
            client.shutdown(WAIT_MAX).await.is_clean,
            "{} has released everything",
            program.host
        );
    }

    /// Takes a permit in one way or another, if one is free.
    async fn round(&self, program: &Program, client: &Client, dice: &mut Dice) {
        let semaphore = permits(client);
        let semaphore = if dice.chance(20) { semaphore.no_renew() } else { semaphore };
        if self.most > 1 && dice.chance(60) {
            if let Some(all) = several(&semaphore, self.most, dice).await {
                self.work_with_all(program, all, dice).await;
            }
            return;
        }
        let got = match dice.below(4) {
            0 => semaphore.acquire().await.ok(),
            1 => semaphore.try_acquire().await.ok().flatten(),
            2 => {
                // Dropped before its end, sometimes with a permit in it.
                let limit = dice.ms(0..=200);
                tokio::time::timeout(limit, semaphore.acquire()).await.ok().and_then(Result::ok)
            }
            _ => semaphore.acquire_timeout(dice.ms(0..=2_000)).await.ok(),
        };
        if let Some(guard) = got {
            self.work_and_release(program, guard, dice).await;
        }
    }

    async fn work_and_release(&self, program: &Program, guard: Permit, dice: &mut Dice) {
        assert!(["jobs#1", "jobs#2"].contains(&guard.name()), "{}", guard.name());
        // The claims of each permit are checked in the end: never two at once.
        let claim = program.claims.open(&program.host, guard.name());
        let work = self.work_time(dice);
        // A loss ends the work; only the release remains.
        let _ = guard.run(self.work(work, 1)).await;
        drop(claim);
        if dice.chance(50) {
            let _ = guard.release().await;
        }
    }

    async fn work_with_all(&self, program: &Program, all: Permits, dice: &mut Dice) {
        let open = |guard: &Guard| program.claims.open(&program.host, guard.name());
        let claims: Vec<_> = all.guards().iter().map(open).collect();
        let count = u32::try_from(claims.len()).expect("few");
        let work = self.work_time(dice);
        let _ = all.run(self.work(work, count)).await;
        drop(claims);
        if dice.chance(50) {
            let _ = all.release().await;
        }
    }

    /// Three at once would see each other.
    async fn work(&self, work: Duration, permits: u32) {
        let _working = Working::start(&self.working, permits);
        sleep(work).await;
    }

    /// Mostly short; sometimes so long that only renewals keep the permit.
    fn work_time(&self, dice: &mut Dice) -> Duration {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).expect("short");
        let longest = if dice.chance(30) { 3 * ttl_ms } else { ttl_ms / 3 };
        dice.ms(0..=longest)
    }
}

/// Several permits in one way or another, if they are free.
async fn several(semaphore: &Semaphore, most: u32, dice: &mut Dice) -> Option<Permits> {
    let count = 1 + u32::try_from(dice.below(most as usize)).expect("few");
    match dice.below(4) {
        0 => semaphore.acquire_many(count).await.ok(),
        1 => semaphore.try_acquire_many(count).await.ok().flatten(),
        2 => {
            // Dropped before its end, sometimes with some of the permits in it.
            let limit = dice.ms(0..=200);
            let acquired = tokio::time::timeout(limit, semaphore.acquire_many(count)).await;
            acquired.ok().and_then(Result::ok)
        }
        _ => semaphore.acquire_many_timeout(count, dice.ms(0..=2_000)).await.ok(),
    }
}

/// A program that works with permits, until it is done, stopped or killed.
struct Working<'a>(&'a Cell<u32>, u32);

impl<'a> Working<'a> {
    fn start(working: &'a Cell<u32>, permits: u32) -> Self {
        working.set(working.get() + permits);
        assert!(working.get() <= PERMITS, "{} are used at once", working.get());
        Self(working, permits)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

fn permits(client: &Client) -> Semaphore {
    client.semaphore("jobs", PERMITS)
}

const PERMITS: u32 = 2;

/// How long a call may take after the faults.
const WAIT_MAX: Duration = Duration::from_secs(20);

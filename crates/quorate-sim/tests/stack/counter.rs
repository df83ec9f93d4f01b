//! Three programs increment one counter under one lock, while servers, links and programs fail.

use std::{cell::Cell, rc::Rc, time::Duration};

use quorate::{
    Client, Guard, Mutex,
    error::{LostReason, ReleaseError},
};
use tokio::time::sleep;

use crate::{
    chaos::{Chaos, program_host},
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    trace::now,
};

#[test]
fn two_programs_never_hold_the_lock_at_once_and_all_continue_after_the_faults() {
    for_seeds(100, |seed| {
        run(seed);
    });
}

/// Runs the whole story and returns its trace.
pub(crate) fn run(seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed, "counter");
    let story = Story {
        ttl: dice.ms(150..=1_000),
        chaos_until: dice.ms(2_000..=5_000),
        counter: Rc::default(),
        increments: Rc::default(),
    };
    let (latency_max, nodes) = (dice.ms(2..=30), 3 + dice.below(3));
    let mut fixture = Fixture::new(seed, nodes, latency_max);
    let programs = 3;
    for number in 0..programs {
        let story = story.clone();
        fixture.program(&program_host(number), move |program| story.clone().play(program));
    }
    let mut chaos = Chaos::new(&fixture, programs, story.chaos_until);
    fixture.run(story.chaos_until + 2 * WAIT_MAX, |fixture| chaos.step(fixture));

    assert_eq!(story.counter.get(), story.increments.get(), "an increment was lost");
    assert!(fixture.claims.len() >= 2 * programs, "all held the lock after the end of the chaos");
    fixture.assert_nothing_left(story.ttl);
    fixture.trace.lines()
}

#[derive(Clone)]
struct Story {
    ttl: Duration,
    chaos_until: Duration,
    counter: Rc<Cell<u32>>,
    increments: Rc<Cell<u32>>,
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
            let guard = client.mutex(LOCK).lock_timeout(WAIT_MAX).await;
            let guard = guard.unwrap_or_else(|error| panic!("{}: {error}", program.host));
            self.increment_and_release(&program, guard, &mut dice).await;
        }
        assert!(
            client.shutdown(WAIT_MAX).await.is_clean,
            "{} has released everything",
            program.host
        );
    }

    /// Takes the lock in one way or another, if one is free.
    async fn round(&self, program: &Program, client: &Client, dice: &mut Dice) {
        let mutex: Mutex = client.mutex(LOCK);
        let mutex = if dice.chance(20) { mutex.no_renew() } else { mutex };
        match dice.below(4) {
            0 => {
                let work = self.work_time(dice);
                // The trace shows whether it failed or was lost; the next round tries again.
                let _ = mutex
                    .with(async |guard| {
                        let _claim = program.claims.open(&program.host, LOCK);
                        self.increment(guard, work).await;
                    })
                    .await;
            }
            1 => {
                if let Ok(guard) = mutex.lock().await {
                    self.increment_and_release(program, guard, dice).await;
                }
            }
            2 => {
                if let Ok(Some(guard)) = mutex.try_lock().await {
                    self.increment_and_release(program, guard, dice).await;
                }
            }
            _ => {
                let wait = dice.ms(0..=2_000);
                if let Ok(guard) = mutex.lock_timeout(wait).await {
                    self.increment_and_release(program, guard, dice).await;
                }
            }
        }
    }

    async fn increment_and_release(&self, program: &Program, guard: Guard, dice: &mut Dice) {
        let claim = program.claims.open(&program.host, LOCK);
        let work = self.work_time(dice);
        // A loss ends the work; only the release remains.
        let _ = guard.run(self.increment(&guard, work)).await;
        drop(claim);
        if dice.chance(50) {
            // Every server keeps its data, so that a lock can only end by itself.
            if let Err(ReleaseError::Lost(lost)) = guard.release().await {
                assert_ne!(lost.reason, LostReason::Gone, "it was taken away");
            }
        }
    }

    /// Reads, works, and writes: two at once would lose an increment.
    async fn increment(&self, guard: &Guard, work: Duration) {
        let read = self.counter.get();
        sleep(work).await;
        guard.check().expect("work is dropped when the lock is lost");
        self.counter.set(read + 1);
        self.increments.set(self.increments.get() + 1);
    }

    /// Mostly short; sometimes so long that only renewals keep the lock.
    fn work_time(&self, dice: &mut Dice) -> Duration {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).expect("short");
        let longest = if dice.chance(30) { 3 * ttl_ms } else { ttl_ms / 3 };
        dice.ms(0..=longest)
    }
}

const LOCK: &str = "counter";

/// How long a call may take after the faults.
const WAIT_MAX: Duration = Duration::from_secs(20);

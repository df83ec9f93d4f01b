//! Four programs read and write under one lock, while servers, links and programs fail.

use std::{cell::Cell, rc::Rc, time::Duration};

use quorate::{Client, Guard, RwLock};
use tokio::time::sleep;

use crate::{
    chaos::{Chaos, program_host},
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    trace::now,
};

#[test]
fn writer_excludes_all_others_and_all_continue_after_the_faults() {
    let all = Cell::new(Seen::default());
    for_seeds(80, |seed| {
        let (seen, before) = (run(seed), all.get());
        let together = before.together + seen.together;
        all.set(Seen { together, downgrades: before.downgrades + seen.downgrades, ..before });
    });
    assert!(all.get().together > 0, "readers were never together");
    assert!(all.get().downgrades > 0, "no writer became a reader");
}

fn run(seed: u64) -> Seen {
    let mut dice = Dice::new(seed, "rwlock");
    let story = Story {
        ttl: dice.ms(150..=1_000),
        chaos_until: dice.ms(2_000..=4_000),
        inside: Rc::default(),
        seen: Rc::default(),
    };
    let (latency_max, nodes) = (dice.ms(2..=20), 1 + 2 * dice.below(3));
    let mut fixture = Fixture::new(seed, nodes, latency_max).in_default_mode();
    let programs = 4;
    for number in 0..programs {
        let story = story.clone();
        fixture.program(&program_host(number), move |program| story.clone().play(program));
    }
    let mut chaos = Chaos::new(&fixture, programs, story.chaos_until);
    fixture.run(story.chaos_until + 2 * WAIT_MAX, |fixture| chaos.step(fixture));

    let Seen { reads, writes, .. } = story.seen.get();
    let programs = u32::try_from(programs).expect("few");
    assert!(reads >= programs && writes >= programs, "every program held the lock after the chaos");
    fixture.assert_nothing_left(story.ttl);
    story.seen.get()
}

#[derive(Clone)]
struct Story {
    ttl: Duration,
    chaos_until: Duration,
    /// Readers count up, a writer goes below zero.
    inside: Rc<Cell<i32>>,
    seen: Rc<Cell<Seen>>,
}

/// What has happened.
#[derive(Clone, Copy, Default)]
struct Seen {
    reads: u32,
    writes: u32,
    /// How often a reader was not alone.
    together: u32,
    /// How often a writer became a reader.
    downgrades: u32,
}

impl Story {
    async fn play(self, program: Program) {
        let client = program.client("").ttl(self.ttl).build().expect("valid");
        let mut dice = program.dice("rounds");
        while now() < self.chaos_until {
            self.round(&client, &mut dice).await;
            sleep(dice.ms(0..=100)).await;
        }
        for is_writer in [true, false] {
            let got = match is_writer {
                true => prices(&client).write_timeout(WAIT_MAX).await.map(Guard::from),
                false => prices(&client).read_timeout(WAIT_MAX).await.map(Guard::from),
            };
            let guard = got.unwrap_or_else(|error| panic!("{}: {error}", program.host));
            self.work_and_release(guard, &mut dice).await;
        }
        assert!(
            client.shutdown(WAIT_MAX).await.is_clean,
            "{} has released everything",
            program.host
        );
    }

    /// Reads or writes in one way or another, if it can.
    async fn round(&self, client: &Client, dice: &mut Dice) {
        let lock = prices(client);
        let lock = if dice.chance(20) { lock.no_renew() } else { lock };
        let limit = dice.ms(0..=1_000);
        let got = match dice.below(10) {
            0 => lock.write().await.ok().map(Guard::from),
            1 => lock.try_write().await.ok().flatten().map(Guard::from),
            2 => lock.write_timeout(limit).await.ok().map(Guard::from),
            3 => lock.read().await.ok().map(Guard::from),
            4 => lock.try_read().await.ok().flatten().map(Guard::from),
            // Dropped before its end, sometimes with the lock in it.
            5 => {
                let reader = tokio::time::timeout(limit, lock.read()).await;
                reader.ok().and_then(Result::ok).map(Guard::from)
            }
            6 | 7 => self.write_and_go_on(&lock, limit, dice).await,
            _ => lock.read_timeout(limit).await.ok().map(Guard::from),
        };
        let Some(guard) = got else { return };
        match dice.chance(10) {
            true => {
                let Ok(lease) = guard.detach().await else { return };
                if let Ok(guard) = client.adopt(&lease).await {
                    self.work_and_release(guard, dice).await;
                }
            }
            false => self.work_and_release(guard, dice).await,
        }
    }

    /// Writes, and becomes a reader: no other program writes in between.
    async fn write_and_go_on(
        &self,
        lock: &RwLock,
        limit: Duration,
        dice: &mut Dice,
    ) -> Option<Guard> {
        let writer = lock.write_timeout(limit).await.ok()?;
        writer.run(self.work(true, self.work_time(dice))).await.ok()?;
        let writes = self.seen.get().writes;
        let reader = match dice.chance(20) {
            // Dropped before its end, sometimes with the lock in it.
            true => tokio::time::timeout(dice.ms(0..=50), writer.downgrade()).await.ok()?,
            false => writer.downgrade().await,
        };
        let reader = reader.ok()?;
        let mut seen = self.seen.get();
        assert_eq!(seen.writes, writes, "another writer wrote in between");
        seen.downgrades += 1;
        self.seen.set(seen);
        Some(reader.into_guard())
    }

    async fn work_and_release(&self, guard: Guard, dice: &mut Dice) {
        let is_writer = guard.fence().is_some();
        let work = self.work_time(dice);
        // A loss ends the work; only the release remains.
        let _ = guard.run(self.work(is_writer, work)).await;
        if dice.chance(50) {
            let _ = guard.release().await;
        }
    }

    /// A writer and any other program would see each other.
    async fn work(&self, is_writer: bool, work: Duration) {
        let inside = Inside::enter(&self.inside, is_writer);
        let mut seen = self.seen.get();
        seen.writes += u32::from(is_writer);
        seen.reads += u32::from(!is_writer);
        seen.together += u32::from(inside.at.get() > 1);
        self.seen.set(seen);
        sleep(work).await;
    }

    /// Mostly short; sometimes so long that only renewals keep the lock.
    fn work_time(&self, dice: &mut Dice) -> Duration {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).expect("short");
        let longest = if dice.chance(30) { 3 * ttl_ms } else { ttl_ms / 3 };
        dice.ms(0..=longest)
    }
}

/// A program that works under the lock, until it is done, stopped or killed.
struct Inside<'a> {
    at: &'a Cell<i32>,
    step: i32,
}

impl<'a> Inside<'a> {
    fn enter(at: &'a Cell<i32>, is_writer: bool) -> Self {
        let step = if is_writer { -1_000 } else { 1 };
        at.set(at.get() + step);
        let is_right = if is_writer { at.get() == step } else { at.get() > 0 };
        assert!(is_right, "a writer holds the lock beside another program: {}", at.get());
        Self { at, step }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.at.set(self.at.get() - self.step);
    }
}

fn prices(client: &Client) -> RwLock {
    client.rwlock("prices")
}

/// How long a call may take after the faults.
const WAIT_MAX: Duration = Duration::from_secs(20);

//! What the programs of the mix do with their locks.

use std::{rc::Rc, time::Duration};

use quorate::{Client, Guard, Mutex, RwLock, error::LockError, fence::Fence};
use tokio::time::sleep;

use super::{
    leases::{Letter, Mailbox},
    settings::Settings,
};
use crate::{
    claims::Claim,
    dice::Dice,
    fixture::{Mode, Program},
    trace::now,
};

/// One program.
#[derive(Clone)]
pub(super) struct User {
    pub(super) settings: Settings,
    pub(super) mailbox: Rc<Mailbox>,
    pub(super) program: Program,
}

impl User {
    pub(super) async fn play(self) {
        let Settings { ttl, is_durable, .. } = self.settings;
        let client = self.program.client("").ttl(ttl).durable_nodes(is_durable);
        let client = client.build().expect("valid");
        tokio::join!(self.rounds(&client, "one"), self.rounds(&client, "other"));
        assert!(
            client.shutdown(WAIT_MAX).await.is_clean,
            "{} has released everything",
            self.program.host
        );
    }

    /// Uses locks at random until the end of the chaos, and then acquires every lock once more.
    async fn rounds(&self, client: &Client, name: &str) {
        let mut dice = self.program.dice(name);
        while now() < self.settings.chaos_until {
            self.round(client, &mut dice).await;
            sleep(dice.ms(0..=150)).await;
        }
        for lock in MUTEXES {
            let guard = client.mutex(lock).lock_timeout(WAIT_MAX).await;
            self.keep(self.awaited(lock, guard), &mut dice).await;
        }
        if self.program.mode == Mode::Queue {
            let shared = client.rwlock(SHARED);
            let writer = shared.write_timeout(WAIT_MAX).await.map(Guard::from);
            let guard = self.awaited(SHARED, writer);
            self.keep(guard, &mut dice).await;
            let reader = shared.read_timeout(WAIT_MAX).await.map(Guard::from);
            let guard = self.awaited(SHARED, reader);
            self.keep(guard, &mut dice).await;
        }
    }

    fn awaited(&self, lock: &str, got: Result<Guard, LockError>) -> Guard {
        got.unwrap_or_else(|error| {
            panic!("{} waited for {lock} in vain: {error}", self.program.host)
        })
    }

    async fn round(&self, client: &Client, dice: &mut Dice) {
        if dice.chance(25) {
            self.go_on(client, dice).await;
        } else if self.program.mode == Mode::Queue && dice.chance(35) {
            self.share(client.rwlock(SHARED), dice).await;
        } else {
            self.lock(client.mutex(MUTEXES[dice.below(MUTEXES.len())]), dice).await;
        }
    }

    /// Acquires a mutex in a random way, and uses it.
    async fn lock(&self, mutex: Mutex, dice: &mut Dice) {
        let mutex = if dice.chance(15) { mutex.no_renew() } else { mutex };
        let max_hold = dice.chance(15).then(|| dice.ms(200..=3_000));
        let mutex = match max_hold {
            Some(max_hold) => mutex.max_hold(max_hold),
            None => mutex,
        };
        let got = match dice.below(4) {
            0 => mutex.try_lock().await,
            1 => mutex.lock().await.map(Some),
            _ => mutex.lock_timeout(dice.ms(100..=6_000)).await.map(Some),
        };
        // A failure is in the trace; the next round tries again.
        if let Ok(Some(guard)) = got {
            let claim = self.program.claim(&guard);
            let guard = self.work(guard, &claim, dice).await;
            let is_over = max_hold.is_some_and(|max_hold| claim.age() > max_hold + LATE_MAX);
            assert!(!is_over, "held for {:?}, and {max_hold:?} was the limit", claim.age());
            self.end(guard, claim, dice).await;
        }
    }

    async fn share(&self, lock: RwLock, dice: &mut Dice) {
        let wait = dice.ms(100..=6_000);
        let got = match dice.below(6) {
            0 => lock.try_read().await.map(|reader| reader.map(Guard::from)),
            1 => lock.try_write().await.map(|writer| writer.map(Guard::from)),
            2 => lock.write_timeout(wait).await.map(|writer| Some(writer.into_guard())),
            _ => lock.read_timeout(wait).await.map(|reader| Some(reader.into_guard())),
        };
        if let Ok(Some(guard)) = got {
            self.keep(guard, dice).await;
        }
    }

    /// Holds a lock for some time, and gives it up in a random way.
    async fn keep(&self, guard: Guard, dice: &mut Dice) {
        let claim = self.program.claim(&guard);
        let guard = self.work(guard, &claim, dice).await;
        self.end(guard, claim, dice).await;
    }

    /// Works until it is done. Returns no guard if the lock was lost meanwhile.
    async fn work(&self, guard: Guard, claim: &Claim, dice: &mut Dice) -> Option<Guard> {
        let is_extended = dice.chance(20);
        let (first, then) = (self.work_time(dice), self.work_time(dice));
        let longest_ms = u64::try_from(self.settings.max_ttl.as_millis()).expect("short");
        let ttl = dice.ms(longest_ms / 2..=longest_ms);
        let worked = guard
            .run(async {
                sleep(first).await;
                if is_extended {
                    // If it fails, the loss ends the work.
                    let _ = guard.extend(ttl).await;
                    sleep(then).await;
                }
            })
            .await;
        assert_eq!(number(guard.fence()), claim.hold().fence, "the fence changed");
        if worked.is_err() {
            guard.check().expect_err("a lost lock is not held");
        }
        worked.is_ok().then_some(guard)
    }

    async fn end(&self, guard: Option<Guard>, claim: Claim, dice: &mut Dice) {
        let Some(guard) = guard else { return };
        match dice.below(10) {
            0 => {
                drop(claim);
                guard.leave_to_expire();
            }
            1..=3 => self.detach(guard, claim).await,
            4..=6 => {
                drop(claim);
                // A loss is in the trace.
                let _ = guard.release().await;
            }
            _ => drop(claim),
        }
    }

    /// Hands the lease over to any other program.
    async fn detach(&self, guard: Guard, claim: Claim) {
        let hold = claim.hold();
        let lost = guard.lost();
        let mut handing = std::pin::pin!(guard.detach());
        let handed = tokio::select! {
            biased;
            handed = &mut handing => {
                drop(claim);
                handed
            }
            _ = lost => {
                drop(claim);
                handing.await
            }
        };
        if let Ok(lease) = handed {
            assert_eq!(number(lease.fence()), hold.fence, "the fence goes along");
            self.mailbox.post(&lease, hold);
        }
    }

    /// Renews, adopts or releases a lease that another program left.
    async fn go_on(&self, client: &Client, dice: &mut Dice) {
        let Some(letter) = self.mailbox.newest(self.settings.max_ttl).await else { return };
        if dice.chance(40) {
            self.renew(client, &letter).await;
            sleep(dice.ms(0..=500)).await;
        }
        if dice.chance(30) {
            self.touch(&letter);
            // Another program may have adopted it.
            let _ = client.release_lease(&letter.lease()).await;
            return;
        }
        self.touch(&letter);
        if let Ok(guard) = client.adopt(&letter.lease()).await {
            letter.note_adopted();
            self.program.note(format_args!("adopts a lease of {}", letter.lock));
            assert_eq!(number(guard.fence()), letter.hold.fence, "the fence goes along");
            let claim = self.program.claims.begin(&self.program.host, &letter.lock, letter.hold);
            let guard = self.work(guard, &claim, dice).await;
            self.end(guard, claim, dice).await;
        }
    }

    /// Renews a lease that another program left.
    async fn renew(&self, client: &Client, letter: &Letter) {
        if let Ok(left) = client.renew_lease(&letter.lease()).await
            && !letter.is_touched()
        {
            self.program.claims.left(&self.program.host, &letter.lock, letter.hold, left);
        }
    }

    fn touch(&self, letter: &Letter) {
        letter.touch();
        self.program.claims.end_left(letter.hold.lease.expect("every claim has one"));
    }

    /// Mostly short; sometimes so long that it needs renewals, or longer than a quarantine.
    fn work_time(&self, dice: &mut Dice) -> Duration {
        let ttl_ms = u64::try_from(self.settings.ttl.as_millis()).expect("short");
        let longest = match dice.below(20) {
            0 => 12_000,
            1..=4 => 3 * ttl_ms,
            _ => ttl_ms / 3,
        };
        dice.ms(0..=longest)
    }
}

fn number(fence: Option<Fence>) -> Option<u64> {
    fence.map(Fence::get)
}

const MUTEXES: [&str; 2] = ["orders", "video"];

const SHARED: &str = "prices";

/// How late a program may notice a loss.
const LATE_MAX: Duration = Duration::from_millis(10);

/// How long a call may take after the chaos.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(40);

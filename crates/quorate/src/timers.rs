//! One heap of deadlines for the whole client.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate_core::moment::Moment;
use tokio::sync::Notify;

use crate::clock::Clock;

/// Something that waits for a deadline.
pub(crate) trait Timed: Send + Sync {
    /// The deadline has passed. Late and superfluous calls are no-ops.
    fn handle_timeout(self: Arc<Self>, now: Moment);
}

/// The engine has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

/// The pending deadlines.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Mutex<Heap>,
    /// Notified when a deadline is added that is earlier than all others.
    earlier: Notify,
}

impl Timers {
    /// Calls `timed` at `at`, unless it was dropped before.
    ///
    /// An error means that the engine has ended. All deadlines have passed then, and `timed` is not
    /// called.
    pub(crate) fn add(&self, at: Moment, timed: Weak<dyn Timed>) -> Result<(), Stopped> {
        let mut heap = self.lock();
        if heap.is_stopped {
            return Err(Stopped);
        }
        heap.sweep();
        heap.added += 1;
        let entry = Entry { at, number: heap.added, timed };
        heap.entries.push(Reverse(entry));
        if heap.armed_at.is_none_or(|armed_at| at < armed_at) {
            heap.armed_at = Some(at);
            drop(heap);
            self.earlier.notify_one();
        }
        Ok(())
    }

    /// Waits for deadlines and calls their waiters, indefinitely.
    pub(crate) async fn run(self: Arc<Self>, clock: Clock) {
        loop {
            let now = clock.now();
            let next = self.fire(now);
            let earlier = self.earlier.notified();
            match next {
                None => earlier.await,
                Some(at) => {
                    // An error only means that the deadline came first.
                    let wait = at.saturating_since(now).min(SLEEP_MAX);
                    let _ = tokio::time::timeout(wait, earlier).await;
                }
            }
        }
    }

    /// Ends the engine: all deadlines have passed, including later ones.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.fire(FOREVER);
    }

    /// Calls everything that is due, and returns the next deadline that still has a waiter.
    fn fire(&self, now: Moment) -> Option<Moment> {
        loop {
            let mut heap = self.lock();
            heap.armed_at = None;
            let Reverse(first) = heap.entries.peek()?;
            let (at, timed) = (first.at, first.timed.upgrade());
            let is_ahead = timed.is_some() && now < at;
            if is_ahead {
                heap.armed_at = Some(at);
            } else {
                heap.entries.pop();
            }
            // Unlock first: this may be the last reference, and its drop may call this object.
            drop(heap);
            match timed {
                Some(_) if is_ahead => return Some(at),
                Some(timed) => timed.handle_timeout(now),
                None => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("waiting", &self.lock().entries.len()).finish()
    }
}

#[derive(Default)]
struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    added: u64,
    is_stopped: bool,
    armed_at: Option<Moment>,
    /// The number of entries after the last sweep.
    swept: usize,
}

impl Heap {
    /// Removes entries whose waiter was dropped, if these may be half of all. Most waits end long
    /// before their deadline, and would stay in the heap until then.
    fn sweep(&mut self) {
        if self.entries.len() >= self.swept.saturating_mul(2).max(SWEEP_MIN) {
            self.entries.retain(|Reverse(entry)| entry.timed.strong_count() > 0);
            self.swept = self.entries.len();
        }
    }
}

struct Entry {
    at: Moment,
    number: u64,
    timed: Weak<dyn Timed>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A future that is ready at a given moment, on any executor.
#[derive(Debug)]
pub(crate) struct Sleep {
    alarm: Arc<Alarm>,
}

impl Sleep {
    pub(crate) fn until(timers: &Timers, at: Moment) -> Self {
        let alarm = Arc::new(Alarm::default());
        let weak: Weak<Alarm> = Arc::downgrade(&alarm);
        if timers.add(at, weak).is_err() {
            alarm.clone().handle_timeout(FOREVER);
        }
        Self { alarm }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.alarm.lock();
        if state.has_rung {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[derive(Debug, Default)]
struct Alarm(Mutex<AlarmState>);

impl Alarm {
    fn lock(&self) -> MutexGuard<'_, AlarmState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct AlarmState {
    has_rung: bool,
    waker: Option<Waker>,
}

impl Timed for Alarm {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        let mut state = self.lock();
        state.has_rung = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Later than every deadline.
pub(crate) const FOREVER: Moment = Moment::from_nanos(u64::MAX);

/// Smaller heaps are not swept.
const SWEEP_MIN: usize = 1_024;

/// The runtime's timers stop while the machine is suspended, but the client's clock does not. A
/// deadline is noticed at most this long after the machine resumes.
const SLEEP_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn earlier_deadline_wakes_the_timer_early() {
        let ms = Duration::from_millis;
        let (timers, clock) = (Arc::new(Timers::default()), Clock::of_runtime());
        tokio::spawn(timers.clone().run(clock));
        let after = |time| Sleep::until(&timers, clock.now().saturating_add(time));
        let _far = after(ms(5_000));
        after(ms(700)).await;
        let started = Instant::now();
        after(ms(10)).await;
        assert!(started.elapsed() <= ms(11), "{:?}", started.elapsed());
    }

    #[test]
    fn dropped_waiters_are_swept() {
        let (timers, kept) = (Timers::default(), Arc::new(Alarm::default()));
        let add = |alarm: &Arc<Alarm>, at: u64| {
            let weak: Weak<Alarm> = Arc::downgrade(alarm);
            timers.add(Moment::from_nanos(at), weak).expect("it runs");
        };
        (0..2_000).for_each(|at| add(&kept, at));
        (0..100_000).for_each(|at| add(&Arc::new(Alarm::default()), 10_000 + at));
        let left = timers.lock().entries.len();
        assert!((2_000..=4_001).contains(&left), "{left}");
        assert_eq!(timers.fire(Moment::ZERO), Some(Moment::from_nanos(1)));
        timers.stop();
        assert_eq!(timers.lock().entries.len(), 0);
        assert!(kept.lock().has_rung);
    }
}

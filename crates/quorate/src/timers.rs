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
    /// The deadline has come. Late and needless calls are no-ops.
    fn handle_timeout(self: Arc<Self>, now: Moment);
}

/// The engine has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

/// The deadlines that are still ahead.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Mutex<Heap>,
    /// Told when a deadline comes before all others.
    earlier: Notify,
}

impl Timers {
    /// Calls `timed` at `at`, unless it is gone by then.
    ///
    /// An error says that the engine has ended: every deadline has come, and nobody will be called.
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

    /// Waits for deadlines and calls those who wait for them, for ever.
    pub(crate) async fn run(self: Arc<Self>, clock: Clock) {
        loop {
            let now = clock.now();
            let next = self.fire(now);
            let earlier = self.earlier.notified();
            match next {
                None => earlier.await,
                Some(at) => {
                    // An error only says that the deadline came first.
                    let wait = at.saturating_since(now).min(SLEEP_MAX);
                    let _ = tokio::time::timeout(wait, earlier).await;
                }
            }
        }
    }

    /// The engine ends: every deadline has come, and so has every later one.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.fire(FOREVER);
    }

    /// Calls everything that is due and returns the next deadline that anybody still waits for.
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
            // We may be the last who has it by now, and its end may run into us.
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
    /// How many were left when those whom nobody waits for any more were last thrown out.
    swept: usize,
}

impl Heap {
    /// Throws out what nobody waits for any more, if that may be half of all: most waits end long
    /// before their deadline, and would stay here until then.
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

/// A future that is ready at a moment, on any executor.
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

/// So few deadlines are not worth a look.
const SWEEP_MIN: usize = 1_024;

/// The runtime's timers stand still while the machine is suspended, and our clock does not: after
/// it wakes up, a deadline is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_comes_before_the_others_is_not_slept_through() {
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
    fn deadlines_that_nobody_waits_for_any_more_are_thrown_out() {
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

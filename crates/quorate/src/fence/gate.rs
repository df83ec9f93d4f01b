//! Checks in memory: one that only compares fences, and one that protects a value.

use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use thiserror::Error;

use super::Fence;

/// Stores the largest fence it has seen, and rejects smaller ones.
///
/// A later holder may come between `admit` and the work after it. If requests can overlap, use
/// [`Fenced`], which checks and works in one step. Use a gate for a resource that serves one
/// request at a time, or that passes the fence on to another check.
///
/// It ends with its process. A resource that outlives the process must store the fence with its
/// data, and begin with that fence: [`starting_at`](Self::starting_at).
///
/// # Examples
///
/// ```
/// use quorate::fence::{Fence, Gate};
///
/// let gate = Gate::new();
/// gate.admit(Fence::new(7))?;
/// gate.admit(Fence::new(7))?; // the same holder again
/// gate.admit(Fence::new(9))?; // the next holder
/// assert!(gate.admit(Fence::new(7)).is_err()); // the first one, too late
/// # Ok::<(), quorate::fence::Stale>(())
/// ```
#[derive(Debug)]
pub struct Gate {
    highest: AtomicU64,
}

impl Gate {
    /// A gate that has seen no fence.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Gate};
    ///
    /// static PRINTER: Gate = Gate::new();
    /// assert_eq!(PRINTER.highest(), Fence::ZERO);
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self::starting_at(Fence::ZERO)
    }

    /// A gate that has seen this fence, for use after a restart.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Gate};
    ///
    /// let gate = Gate::starting_at(Fence::new(9));
    /// assert!(gate.admit(Fence::new(8)).is_err());
    /// assert!(gate.admit(Fence::new(9)).is_ok());
    /// ```
    #[must_use]
    pub const fn starting_at(highest: Fence) -> Self {
        Self { highest: AtomicU64::new(highest.get()) }
    }

    /// Admits a holder unless a later one was seen, and stores its fence. Call it for reads and for
    /// writes.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a larger fence was seen before.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Gate};
    ///
    /// let gate = Gate::new();
    /// gate.admit(Fence::new(9))?;
    /// let stale = gate.admit(Fence::new(7)).unwrap_err();
    /// assert_eq!((stale.fence, stale.highest), (Fence::new(7), Fence::new(9)));
    /// # Ok::<(), quorate::fence::Stale>(())
    /// ```
    pub fn admit(&self, fence: Fence) -> Result<(), Stale> {
        // A holder that is admitted also sees what earlier holders did.
        let highest = Fence::new(self.highest.fetch_max(fence.get(), Ordering::AcqRel));
        judge(fence, highest)
    }

    /// The largest fence seen so far; [`Fence::ZERO`] if there was none.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Gate};
    ///
    /// let gate = Gate::new();
    /// gate.admit(Fence::new(9))?;
    /// assert_eq!(gate.highest(), Fence::new(9));
    /// # Ok::<(), quorate::fence::Stale>(())
    /// ```
    #[must_use]
    pub fn highest(&self) -> Fence {
        Fence::new(self.highest.load(Ordering::Acquire))
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A value that only the latest holder can access: check and access are one step.
///
/// # Examples
///
/// ```
/// use quorate::fence::{Fence, Fenced};
///
/// let stock = Fenced::new(vec!["apples"]);
/// stock.access(Fence::new(2), |stock| stock.push("pears"))?;
/// assert!(stock.access(Fence::new(1), |stock| stock.clear()).is_err());
/// assert_eq!(stock.into_inner(), ["apples", "pears"]);
/// # Ok::<(), quorate::fence::Stale>(())
/// ```
#[derive(Debug)]
pub struct Fenced<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    highest: Fence,
    value: T,
}

impl<T> Fenced<T> {
    /// A value that has seen no fence.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Fenced};
    ///
    /// static JOBS_DONE: Fenced<u64> = Fenced::new(0);
    /// JOBS_DONE.access(Fence::new(1), |done| *done += 1)?;
    /// # Ok::<(), quorate::fence::Stale>(())
    /// ```
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::starting_at(Fence::ZERO, value)
    }

    /// A value that was last used with this fence, for use after a restart.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Fenced};
    ///
    /// let balance = Fenced::starting_at(Fence::new(9), 100);
    /// assert!(balance.access(Fence::new(8), |balance| *balance).is_err());
    /// ```
    #[must_use]
    pub const fn starting_at(highest: Fence, value: T) -> Self {
        Self { state: Mutex::new(State { highest, value }) }
    }

    /// Passes the value to `work` unless a later holder was seen, and stores the fence. Call it for
    /// reads and for writes. No other call accesses the value meanwhile.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a larger fence was seen before; then `work` is not called.
    ///
    /// # Panics
    ///
    /// If `work` has panicked in an earlier call: it may have left the value half changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Fenced};
    ///
    /// let balance = Fenced::new(100);
    /// let seen = balance.access(Fence::new(2), |balance| *balance)?; // a read counts too
    /// assert!(balance.access(Fence::new(1), |balance| *balance = 0).is_err());
    /// assert_eq!(balance.access(Fence::new(2), |balance| *balance)?, seen);
    /// # Ok::<(), quorate::fence::Stale>(())
    /// ```
    pub fn access<R>(&self, fence: Fence, work: impl FnOnce(&mut T) -> R) -> Result<R, Stale> {
        let mut state = self.state();
        judge(fence, state.highest)?;
        state.highest = fence;
        Ok(work(&mut state.value))
    }

    /// The largest fence seen so far; [`Fence::ZERO`] if there was none.
    ///
    /// # Panics
    ///
    /// As [`access`](Self::access).
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::{Fence, Fenced};
    ///
    /// let balance = Fenced::new(100);
    /// balance.access(Fence::new(2), |balance| *balance)?;
    /// assert_eq!(balance.highest(), Fence::new(2));
    /// # Ok::<(), quorate::fence::Stale>(())
    /// ```
    #[must_use]
    pub fn highest(&self) -> Fence {
        self.state().highest
    }

    /// The value.
    ///
    /// # Panics
    ///
    /// As [`access`](Self::access).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(quorate::fence::Fenced::new(100).into_inner(), 100);
    /// ```
    #[must_use]
    pub fn into_inner(self) -> T {
        self.state.into_inner().expect(HALF_CHANGED).value
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect(HALF_CHANGED)
    }
}

/// A later holder of the lock was here before: this one has lost it and must stop.
///
/// # Examples
///
/// ```
/// use quorate::fence::{Fence, Gate};
///
/// let gate = Gate::starting_at(Fence::new(9));
/// let stale = gate.admit(Fence::new(7)).unwrap_err();
/// assert_eq!(stale.to_string(), "stale fence 7: a later holder with fence 9 was seen");
/// ```
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("stale fence {fence}: a later holder with fence {highest} was seen")]
#[non_exhaustive]
pub struct Stale {
    /// The fence that was rejected.
    pub fence: Fence,
    /// The largest fence that was seen.
    pub highest: Fence,
}

fn judge(fence: Fence, highest: Fence) -> Result<(), Stale> {
    if fence < highest { Err(Stale { fence, highest }) } else { Ok(()) }
}

const HALF_CHANGED: &str = "no earlier access has panicked";

#[cfg(test)]
mod tests;

//! The names of the locks that a semaphore consists of.

use std::fmt;

use super::Semaphore;

/// One of the locks that a [`Semaphore`] consists of.
///
/// # Examples
///
/// ```
/// use quorate::SemaphoreLock;
///
/// let (semaphore, lock) = SemaphoreLock::parse("jobs#2").expect("it is a permit");
/// assert_eq!((semaphore, lock), ("jobs", SemaphoreLock::Permit(2)));
/// assert_eq!(lock.name_in("jobs"), "jobs#2");
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum SemaphoreLock {
    /// The permit of this number, counted from 1.
    Permit(u32),
    /// The queue: its holder is the first waiter for a permit.
    Queue,
}

impl SemaphoreLock {
    /// The semaphore and its lock that this name stands for. `None` for other names.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::SemaphoreLock;
    ///
    /// assert_eq!(SemaphoreLock::parse("jobs"), None);
    /// assert_eq!(SemaphoreLock::parse("jobs#0"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<(&str, Self)> {
        let (semaphore, part) = name.rsplit_once('#')?;
        if part == QUEUE {
            return Some((semaphore, Self::Queue));
        }
        let is_plain = part.bytes().all(|byte| byte.is_ascii_digit()) && !part.starts_with('0');
        let number = part.parse().ok().filter(|_| is_plain)?;
        (1..=Semaphore::MAX_PERMITS).contains(&number).then_some((semaphore, Self::Permit(number)))
    }

    /// The name of this lock of a semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::SemaphoreLock;
    ///
    /// let queue = SemaphoreLock::Queue.name_in("jobs");
    /// assert_eq!(SemaphoreLock::parse(&queue), Some(("jobs", SemaphoreLock::Queue)));
    /// ```
    #[must_use]
    pub fn name_in(self, semaphore: &str) -> String {
        format!("{semaphore}#{self}")
    }
}

/// The part of the name after the `#`.
impl fmt::Display for SemaphoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permit(number) => number.fmt(f),
            Self::Queue => f.write_str(QUEUE),
        }
    }
}

const QUEUE: &str = "queue";

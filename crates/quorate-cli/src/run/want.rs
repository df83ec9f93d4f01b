//! What is wanted: a lock alone, a lock together with others, or one of several permits.

use std::{fmt, num::NonZeroU32};

use clap::Args;
use quorate::Semaphore;

/// How the lock is held.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// Holds the lock together with all others who hold it so. Who wants it alone waits for them,
    /// and those who come later wait behind that one. There is no fence.
    #[arg(short, long, overrides_with_all = ["shared", "exclusive"])]
    shared: bool,
    /// Holds the lock alone. That is the default; if --shared is given as well, the last of them
    /// counts.
    #[arg(short = 'x', long, visible_short_alias = 'e')]
    #[arg(overrides_with_all = ["shared", "exclusive"])]
    exclusive: bool,
    /// Takes one of so many permits, 1 to 1024, in place of a lock: no more than that hold one at
    /// once. All who use the same NAME give the same number.
    #[arg(long, value_name = "NUMBER", value_parser = permits)]
    #[arg(conflicts_with_all = ["shared", "exclusive"])]
    permits: Option<NonZeroU32>,
}

impl Kind {
    /// What is wanted under this name.
    pub(crate) const fn of<'a>(&self, name: &'a str) -> Want<'a> {
        match self.permits {
            Some(permits) => Want { name, how: How::Permit(permits) },
            None => self.besides(name),
        }
    }

    /// What is wanted under this name as well: there is one permit only.
    pub(crate) const fn besides<'a>(&self, name: &'a str) -> Want<'a> {
        Want { name, how: if self.shared { How::Shared } else { How::Alone } }
    }
}

/// Something to be held.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Want<'a> {
    pub(crate) name: &'a str,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum How {
    /// A lock that nobody else holds.
    Alone,
    /// A lock that others may hold as well, if they want it so.
    Shared,
    /// One of so many permits of a semaphore.
    Permit(NonZeroU32),
}

impl Want<'_> {
    /// The number of the permit that is the lock of this name.
    pub(crate) fn permit(&self, lock: &str) -> Option<u32> {
        let part = self.part(lock)?;
        let is_plain = part.bytes().all(|byte| byte.is_ascii_digit()) && !part.starts_with('0');
        part.parse().ok().filter(|_| is_plain)
    }

    /// True if the lock of this name is a part of the semaphore that is wanted.
    pub(crate) fn has_part(&self, lock: &str) -> bool {
        self.permit(lock).is_some() || self.part(lock) == Some(LINE)
    }

    /// The lock that the first in line for a permit holds.
    pub(crate) fn line(&self) -> String {
        format!("{}#{LINE}", self.name)
    }

    fn part<'a>(&self, lock: &'a str) -> Option<&'a str> {
        match self.how {
            How::Permit(_) => lock.strip_prefix(self.name)?.strip_prefix('#'),
            How::Alone | How::Shared => None,
        }
    }
}

/// As what is waited for.
impl fmt::Display for Want<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.how {
            How::Alone | How::Shared => write!(f, "{name:?}"),
            How::Permit(NonZeroU32::MIN) => write!(f, "the permit of {name:?}"),
            How::Permit(permits) => write!(f, "one of {permits} permits of {name:?}"),
        }
    }
}

fn permits(text: &str) -> Result<NonZeroU32, String> {
    let most = Semaphore::MAX_PERMITS;
    let permits = text.parse().ok().filter(|permits: &NonZeroU32| permits.get() <= most);
    permits.ok_or_else(|| format!("there can be 1 to {most} permits"))
}

/// What is behind the `#` of that lock.
const LINE: &str = "line";

#[cfg(test)]
mod tests {
    use super::*;

    const fn want(how: How) -> Want<'static> {
        Want { name: "jobs", how }
    }

    const THREE: How = How::Permit(NonZeroU32::new(3).unwrap());

    #[test]
    fn a_permit_is_known_by_its_number() {
        for (lock, number) in [
            ("jobs#1", Some(1)),
            // Of one who has said a larger number.
            ("jobs#1024", Some(1024)),
            ("jobs#line", None),
            ("jobs#01", None),
            ("jobs#+1", None),
            ("jobs#", None),
            ("jobs", None),
            ("jobs2#1", None),
            ("my-jobs#1", None),
        ] {
            assert_eq!(want(THREE).permit(lock), number, "{lock}");
            assert_eq!(want(THREE).has_part(lock), number.is_some() || lock == "jobs#line");
            assert!(!want(How::Alone).has_part(lock) && !want(How::Shared).has_part(lock));
        }
    }

    #[test]
    fn wants_are_sorted_by_their_names() {
        let other = Want { name: "other", how: How::Alone };
        let mut wants = [other, want(THREE), want(How::Alone)];
        wants.sort_unstable();
        assert_eq!(wants, [want(How::Alone), want(THREE), other]);
    }
}

//! What is wanted: a lock alone, a lock together with others, or one of several permits.

use std::{collections::BTreeSet, fmt, num::NonZeroU32};

use clap::Args;
use quorate::{ClientBuilder, Semaphore};

use crate::{exit::Failure, settings::text_of};

/// How the lock is held.
#[derive(Args, Clone, Debug, Default)]
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
    /// Lets others with the same identity hold the lock at the same time: a command that runs under
    /// the lock can acquire it again. Without it QUORATE_IDENTITY is read. An empty text means
    /// none. It has 1 to 128 bytes. Only for one exclusive lock: with --shared, with --permits and
    /// for several locks QUORATE_IDENTITY is ignored.
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
}

/// Which of the locks an identity holds together: what the flag or the environment says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Identity(Option<String>);

impl Identity {
    /// The same settings for a client of this identity.
    pub(crate) fn put_on(&self, builder: ClientBuilder) -> ClientBuilder {
        match &self.0 {
            Some(identity) => builder.identity(identity),
            None => builder,
        }
    }

    /// What the command finds in its environment.
    pub(crate) fn variable(&self) -> (&'static str, Option<String>) {
        (IDENTITY, self.0.clone())
    }

    /// How a lock is held that could be held alone.
    const fn how(&self) -> How {
        if self.0.is_some() { How::Reentrant } else { How::Alone }
    }
}

impl Kind {
    /// The identity in force. It can hold one exclusive lock: the flag is refused elsewhere.
    pub(crate) fn identity(&self, is_one_lock: bool) -> Result<Identity, Failure> {
        let Some(said) = &self.identity else { return text_of(IDENTITY).map(Identity) };
        let Some(said) = Some(said).filter(|said| !said.is_empty()) else {
            return Ok(Identity(None));
        };
        let why = match (self.shared, self.permits, is_one_lock) {
            (true, ..) => "--shared: a shared lock is not reentrant",
            (false, Some(_), _) => "--permits: a permit is not reentrant",
            (false, None, false) => {
                "--lock: several locks are acquired as one set, and a set is \
                                     not reentrant"
            }
            (false, None, true) => return Ok(Identity(Some(said.clone()))),
        };
        Err(Failure::usage(format!("--identity cannot be used with {why}")))
    }

    /// What is wanted under this name.
    pub(crate) const fn of<'a>(&self, name: &'a str) -> Want<'a> {
        match self.permits {
            Some(permits) => Want { name, how: How::Permit(permits) },
            None => self.besides(name),
        }
    }

    /// The same, with this many permits.
    pub(crate) fn taking<'a>(
        &self,
        take: Option<NonZeroU32>,
        want: Want<'a>,
    ) -> Result<Want<'a>, Failure> {
        match (want.how, take) {
            (How::Permit(of), Some(take)) if take > of => Err(Failure::usage(format!(
                "--take {take} with --permits {of}: it cannot be more than there are"
            ))),
            (How::Permit(of), Some(take)) if take > NonZeroU32::MIN => {
                Ok(Want { how: How::Permits { take, of }, ..want })
            }
            _ => Ok(want),
        }
    }

    /// What is wanted under this name, if nothing else is.
    pub(crate) const fn only<'a>(&self, name: &'a str, identity: &Identity) -> Want<'a> {
        match self.of(name) {
            Want { how: How::Alone, .. } => Want { name, how: identity.how() },
            want => want,
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
    /// A lock that nobody else holds but those of the client's identity.
    Reentrant,
    /// A lock that others may hold as well, if they want it so.
    Shared,
    /// One of so many permits of a semaphore.
    Permit(NonZeroU32),
    /// Several permits of a semaphore, all or none.
    Permits { take: NonZeroU32, of: NonZeroU32 },
}

/// All that must be held while a command runs.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) all: BTreeSet<Want<'a>>,
    /// The one of them that the command is told the fence of.
    pub(crate) main: Want<'a>,
    pub(crate) identity: Identity,
}

impl Want<'_> {
    pub(crate) const fn is_permit(&self) -> bool {
        matches!(self.how, How::Permit(_) | How::Permits { .. })
    }

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
            How::Permit(_) | How::Permits { .. } => lock.strip_prefix(self.name)?.strip_prefix('#'),
            How::Alone | How::Reentrant | How::Shared => None,
        }
    }
}

/// As what is waited for.
impl fmt::Display for Want<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.how {
            How::Alone | How::Reentrant | How::Shared => write!(f, "{name:?}"),
            How::Permit(NonZeroU32::MIN) => write!(f, "the permit of {name:?}"),
            How::Permit(permits) => write!(f, "one of {permits} permits of {name:?}"),
            How::Permits { take, of } => write!(f, "{take} of {of} permits of {name:?}"),
        }
    }
}

fn permits(text: &str) -> Result<NonZeroU32, String> {
    let most = Semaphore::MAX_PERMITS;
    let permits = text.parse().ok().filter(|permits: &NonZeroU32| permits.get() <= most);
    permits.ok_or_else(|| format!("there can be 1 to {most} permits"))
}

/// How many permits are acquired.
pub(crate) fn take(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "use a number of permits, 1 or more".to_owned())
}

/// Says of which identity a command is, and all that it starts.
const IDENTITY: &str = "QUORATE_IDENTITY";

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

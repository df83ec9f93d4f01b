//! The locks to acquire: exclusive, shared, reentrant, or permits.

use std::{collections::BTreeSet, fmt, num::NonZeroU32};

use clap::Args;
use quorate::{ClientBuilder, Semaphore, SemaphoreLock};

use crate::{exit::Failure, settings::text_of};

/// How the lock is held.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LockArgs {
    /// Share the lock with other shared holders. An exclusive waiter waits for them, and later
    /// requests wait behind it. Shared locks have no fence
    #[arg(short, long, overrides_with_all = ["shared", "exclusive"])]
    shared: bool,
    /// Hold the lock exclusively (default). If --shared is given too, the last of the two counts
    #[arg(short = 'x', long, visible_short_alias = 'e')]
    #[arg(overrides_with_all = ["shared", "exclusive"])]
    exclusive: bool,
    /// Acquire one of this many permits, 1 to 1024, instead of a lock: up to this many holders at
    /// the same time. All users of NAME must give the same number
    #[arg(long, value_name = "NUMBER", value_parser = permits)]
    #[arg(conflicts_with_all = ["shared", "exclusive"])]
    permits: Option<NonZeroU32>,
    /// Let others with the same identity hold the lock at the same time: a command under the lock
    /// can acquire it again. 1 to 128 bytes; an empty text means none. Without the option,
    /// QUORATE_IDENTITY is used. Only for one exclusive lock: with --shared, --permits or several
    /// locks, QUORATE_IDENTITY is ignored
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
}

/// The identity in force, from the flag or the environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Identity(Option<String>);

impl Identity {
    /// Adds the identity to the settings of a client.
    pub(crate) fn apply_to(&self, builder: ClientBuilder) -> ClientBuilder {
        match &self.0 {
            Some(identity) => builder.identity(identity),
            None => builder,
        }
    }

    /// The variable in the environment of the command.
    pub(crate) fn variable(&self) -> (&'static str, Option<String>) {
        (IDENTITY, self.0.clone())
    }

    /// The mode of a single exclusive lock.
    const fn mode(&self) -> Mode {
        if self.0.is_some() { Mode::Reentrant } else { Mode::Exclusive }
    }
}

impl LockArgs {
    /// The identity in force. It applies to one exclusive lock only; the flag is rejected
    /// elsewhere.
    pub(crate) fn identity(&self, is_one_lock: bool) -> Result<Identity, Failure> {
        let Some(given) = &self.identity else { return text_of(IDENTITY).map(Identity) };
        let Some(given) = Some(given).filter(|given| !given.is_empty()) else {
            return Ok(Identity(None));
        };
        let conflict = match (self.shared, self.permits, is_one_lock) {
            (true, ..) => "--shared: a shared lock is not reentrant",
            (false, Some(_), _) => "--permits: a permit is not reentrant",
            (false, None, false) => {
                "--lock: several locks are acquired as a set, and a set is not reentrant"
            }
            (false, None, true) => return Ok(Identity(Some(given.clone()))),
        };
        Err(Failure::usage(format!("--identity cannot be used with {conflict}")))
    }

    /// The request for the main name.
    pub(crate) const fn request<'a>(&self, name: &'a str) -> Request<'a> {
        match self.permits {
            Some(permits) => Request { name, mode: Mode::Permit(permits) },
            None => self.additional_request(name),
        }
    }

    /// The same request, for this many permits.
    pub(crate) fn with_take<'a>(
        &self,
        take: Option<NonZeroU32>,
        request: Request<'a>,
    ) -> Result<Request<'a>, Failure> {
        match (request.mode, take) {
            (Mode::Permit(of), Some(take)) if take > of => Err(Failure::usage(format!(
                "--take {take} is more than --permits {of}: take at most {of}"
            ))),
            (Mode::Permit(of), Some(take)) if take > NonZeroU32::MIN => {
                Ok(Request { mode: Mode::Permits { take, of }, ..request })
            }
            _ => Ok(request),
        }
    }

    /// The request for the main name if it is the only lock: an identity applies to it.
    pub(crate) const fn single_request<'a>(
        &self,
        name: &'a str,
        identity: &Identity,
    ) -> Request<'a> {
        match self.request(name) {
            Request { mode: Mode::Exclusive, .. } => Request { name, mode: identity.mode() },
            request => request,
        }
    }

    /// The request for another name: permits apply to the main name only.
    pub(crate) const fn additional_request<'a>(&self, name: &'a str) -> Request<'a> {
        Request { name, mode: if self.shared { Mode::Shared } else { Mode::Exclusive } }
    }
}

/// A lock or permits to acquire.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Request<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Mode {
    /// An exclusive lock.
    Exclusive,
    /// An exclusive lock that the client's identity can hold several times.
    Reentrant,
    /// A lock shared with other shared holders.
    Shared,
    /// One permit of a semaphore with this many permits.
    Permit(NonZeroU32),
    /// Several permits of a semaphore, all or none.
    Permits { take: NonZeroU32, of: NonZeroU32 },
}

/// All locks that must be held while a command runs.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    pub(crate) all: BTreeSet<Request<'a>>,
    /// The request whose fence and owner the command gets.
    pub(crate) main: Request<'a>,
    pub(crate) identity: Identity,
}

impl Request<'_> {
    pub(crate) const fn is_permit(&self) -> bool {
        matches!(self.mode, Mode::Permit(_) | Mode::Permits { .. })
    }

    /// The number of the permit that is the lock of this name.
    pub(crate) fn permit_number(&self, lock: &str) -> Option<u32> {
        match self.part(lock)? {
            SemaphoreLock::Permit(number) => Some(number),
            SemaphoreLock::Queue => None,
        }
    }

    /// Whether the lock of this name is part of the requested semaphore.
    pub(crate) fn includes(&self, lock: &str) -> bool {
        self.part(lock).is_some()
    }

    /// The lock that the first waiter for a permit holds.
    pub(crate) fn queue_lock(&self) -> String {
        SemaphoreLock::Queue.name_in(self.name)
    }

    fn part(&self, lock: &str) -> Option<SemaphoreLock> {
        match self.mode {
            Mode::Permit(_) | Mode::Permits { .. } => {
                let (semaphore, part) = SemaphoreLock::parse(lock)?;
                (semaphore == self.name).then_some(part)
            }
            Mode::Exclusive | Mode::Reentrant | Mode::Shared => None,
        }
    }
}

/// The request as it appears in messages about waiting.
impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.mode {
            Mode::Exclusive | Mode::Reentrant | Mode::Shared => write!(f, "{name:?}"),
            Mode::Permit(NonZeroU32::MIN) => write!(f, "the permit of {name:?}"),
            Mode::Permit(permits) => write!(f, "one of {permits} permits of {name:?}"),
            Mode::Permits { take, of } => write!(f, "{take} of {of} permits of {name:?}"),
        }
    }
}

fn permits(text: &str) -> Result<NonZeroU32, String> {
    let most = Semaphore::MAX_PERMITS;
    let permits = text.parse().ok().filter(|permits: &NonZeroU32| permits.get() <= most);
    permits.ok_or_else(|| format!("invalid number of permits {text:?}: use 1 to {most}"))
}

/// Parses how many permits to acquire.
pub(crate) fn take(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| format!("invalid number of permits {text:?}: use 1 or more"))
}

/// The variable with the identity of a command and of all its descendants.
const IDENTITY: &str = "QUORATE_IDENTITY";

#[cfg(test)]
mod tests {
    use super::*;

    const fn request(mode: Mode) -> Request<'static> {
        Request { name: "jobs", mode }
    }

    const THREE: Mode = Mode::Permit(NonZeroU32::new(3).unwrap());

    #[test]
    fn permits_are_recognized_by_number() {
        for (lock, number) in [
            ("jobs#1", Some(1)),
            // From a client with a larger `--permits`.
            ("jobs#1024", Some(1024)),
            ("jobs#queue", None),
            ("jobs#01", None),
            ("jobs#+1", None),
            ("jobs#", None),
            ("jobs", None),
            ("jobs2#1", None),
            ("my-jobs#1", None),
        ] {
            assert_eq!(request(THREE).permit_number(lock), number, "{lock}");
            assert_eq!(request(THREE).includes(lock), number.is_some() || lock == "jobs#queue");
            assert!(
                !request(Mode::Exclusive).includes(lock) && !request(Mode::Shared).includes(lock)
            );
        }
    }

    #[test]
    fn requests_are_sorted_by_name() {
        let other = Request { name: "other", mode: Mode::Exclusive };
        let mut requests = [other, request(THREE), request(Mode::Exclusive)];
        requests.sort_unstable();
        assert_eq!(requests, [request(Mode::Exclusive), request(THREE), other]);
    }
}

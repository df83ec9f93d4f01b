//! The watchdog of a client whose nodes do not answer.

use std::time::Duration;

use quorate_core::{
    backoff::Jitter,
    client::watchdog::{Renewal, Watchdog, Won},
    command::ClientId,
    line::{Session, Speaker},
    moment::Moment,
    quorum::NodeSet,
};

use super::{at, name, owner, terms};

/// The nodes are silent while a lease is renewed.
///
/// # Errors
///
/// If the watchdog does not try again while the lease is held.
pub fn renewal_without_an_answer_is_tried_again() -> Result<(), String> {
    let speaker = Speaker { client: ClientId::from_random([0; 20]), session: Session::UNSET };
    let mut watchdog = Watchdog::new(3, speaker, false, Jitter::new(1));
    let won = Won {
        name: name(),
        owner: owner(),
        terms: terms(1_000),
        fenced: None,
        untaken: NodeSet::EMPTY,
        renewal: Renewal::On,
        valid_until: at(1_000),
        hold_until: Moment::from_nanos(u64::MAX),
        granted_at: at(0),
    };
    watchdog.keep(won, at(0));
    let mut sent = 0;
    while let Some(due) = watchdog.poll_timeout().filter(|due| *due < at(1_000)) {
        watchdog.handle_timeout(Duration::from_nanos(due.as_nanos()), &|ttl| ttl / 10, due);
        sent += std::iter::from_fn(|| watchdog.poll_transmit()).count();
    }
    match sent {
        0 | 1 => Err(format!("{sent} renewals were sent in the whole ttl")),
        _ => Ok(()),
    }
}

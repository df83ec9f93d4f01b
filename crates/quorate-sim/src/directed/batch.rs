//! A batch of which a node executes only some entries.

use std::time::Duration;

use quorate_core::{
    acquire::Wait,
    backoff::Jitter,
    client::{
        self, Config, Hold, Transmit,
        waiter::Want,
        watchdog::{LeaseId, Renewal},
    },
    command::{ClientId, Command, Reply},
    dialect::Dialect,
    fence::Fence,
    moment::Moment,
    mutant::Mutant,
    name::Name,
};

use super::{Schedule, at, terms};
use crate::client::Names;

pub(super) const SCHEDULES: &[(Mutant, Schedule)] =
    &[(Mutant::FailedEntryDropped, a_release_that_fails_in_a_batch_is_sent_again)];

type Client = client::Client<Names>;

/// A client releases two locks in one batch. The node executes the first release and answers the
/// second one with an error.
///
/// Fails if the client does not send the second release again.
fn a_release_that_fails_in_a_batch_is_sent_again() -> Result<(), String> {
    let mut client = connected();
    let leases = [hold(&mut client, "a")?, hold(&mut client, "b")?];
    for lease in leases {
        let call = client.release(lease, &|ttl| ttl / 10, at(10)).ok_or("no lease to release")?;
        client.close_call(call);
    }
    let batch = client.poll_transmit(0, |_, _| true).ok_or("the client sends no release")?;
    if !matches!(&batch.command, Command::Batch(entries) if entries.len() == 2) {
        return Err(format!("the releases do not leave in one batch: {:?}", batch.command));
    }
    let reply = Reply::Batch([Some(Reply::Released { is_ours: true }), None].into());
    client.handle_answer(0, (&batch.about, &batch.command), Some(&reply), at(11));
    match client.owes(0, at(12)) {
        true => Ok(()),
        false => Err("the client forgot a release that failed in a batch".to_owned()),
    }
}

/// A client of one node, which is up and has reported its time.
fn connected() -> Client {
    let id = ClientId::from_random([7; 20]);
    let config =
        Config { client: id, nodes: 1, has_sessions: true, max_ttl: Duration::from_secs(60) };
    let mut client = Client::new(config, Names::new(0, id, false), Jitter::new(1));
    client.handle_time(0, 1_000_000, at(0));
    client.handle_up(0, at(0));
    client
}

fn hold(client: &mut Client, name: &str) -> Result<LeaseId, String> {
    let want = Want {
        name: Name::parse(name, "").expect("a valid name"),
        terms: terms(1_000),
        kind: None,
        wait: Wait::Patiently(Duration::from_secs(1)),
        dialect: Dialect::Queue,
        adopts: None,
    };
    let call = client.acquire(want, at(0));
    let granted = Reply::Granted { fence: Fence::new(1), is_earlier: false };
    while let Some(Transmit { about, command }) = client.poll_transmit(0, |_, _| false) {
        client.handle_answer(0, (&about, &command), Some(&granted), at(1));
    }
    client.take_outcome(call).ok_or("a granted lock is not held")?;
    let hold = Hold { renewal: Renewal::Off, until: Moment::from_nanos(u64::MAX) };
    let lease = client.keep(call, hold, at(1)).ok_or("a granted lock is not held")?;
    client.close_call(call);
    Ok(lease)
}

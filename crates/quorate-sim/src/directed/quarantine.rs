//! Schedules for nodes with quarantine.

use quorate_core::{
    acquire::Outcome,
    command::{Command, KeyExtension, Owner},
    membership::Reason,
    mutant::Mutant,
    renew::{self, Renew},
    store::Store,
};

use super::{
    Schedule, Try, at,
    fixture::{ALL, Fixture, QUARANTINE_MS, TTL_MS, TestClient},
    name, terms,
};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::QuarantineByNodeClock, the_nodes_clock_alone_does_not_end_a_quarantine),
    (Mutant::HealInQuarantine, a_quarantined_node_restores_no_lost_key),
    (Mutant::AnyMark, a_session_ends_when_the_node_changes),
    (Mutant::LateSession, a_node_whose_clock_is_set_after_the_handshake_gives_no_session),
    (Mutant::ExtendWithoutSession, a_node_that_was_a_replica_extends_nothing),
    (Mutant::AnyPush, a_node_that_was_a_replica_hands_nothing_off),
    (Mutant::AdoptWithoutSession, stale_session_cannot_adopt),
    (Mutant::NewlyDurable, node_that_was_not_durable_is_quarantined_after_a_restart),
    (Mutant::OnceDurable, node_that_is_no_longer_durable_is_quarantined_after_a_restart),
    (Mutant::DurableInQuarantine, restart_does_not_end_the_quarantine_of_a_durable_node),
    (Mutant::DurableAnyClock, durable_node_with_a_wrong_clock_is_quarantined_after_a_restart),
];

/// A holds three nodes of five, and B has asked the two others. One of those restarts empty. A
/// extends where it can. On the node that it cannot reach its key expires, and B gets that node.
///
/// Fails if the extension of A counts the node that had voted for B and forgot its vote.
fn a_quarantined_node_restores_no_lost_key() -> Result<(), String> {
    let mut fixture = Fixture::founded(5);
    let mut a = TestClient::come(&mut fixture, 1, 0);
    a.exchange(&mut fixture, &[0, 1, 3], 1);
    let fence = a.held()?;

    let mut b = TestClient::come(&mut fixture, 2, 60);
    b.exchange(&mut fixture, &[0, 1, 2, 3, 4], 61);
    fixture.stores[2] = Store::new();
    fixture.stores[2].membership.set_run(99);
    b.machine.handle_down(2);
    fixture.enrol(2, 62);

    let mut machine = Renew::start(terms(TTL_MS), 5, terms(TTL_MS).valid_until(at(0)), at(80));
    for node in [0, 2, 3] {
        machine.handle_vote(node, a.extend(&mut fixture, node, &a.lease(fence), 81), at(82));
    }
    b.time_out(110);
    b.win(&mut fixture, &[1], 110)?;
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => {
            Err("a node that forgot its vote extends the lease of another client".to_owned())
        }
        _ => Ok(()),
    }
}

/// The set grows from three nodes to five. A has sessions with two of them, and is not notified:
/// its sessions name the old config.
///
/// Fails if A has a majority of three and B one of five.
fn a_session_ends_when_the_node_changes() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    let mut a = TestClient::come(&mut fixture, 1, 0);
    let mut now = 0;
    for change in 2..=3 {
        fixture.grow(change, now);
        for _ in 0..3 * QUARANTINE_MS / PING_MS {
            now += PING_MS;
            a.ping(&mut fixture, now);
        }
    }
    a.time_out(now);
    let granted = |fixture: &mut Fixture, client: &mut TestClient, nodes: &[usize]| {
        client.exchange(fixture, nodes, now + 1);
        nodes.iter().filter(|node| fixture.has(**node, &client.owner(), now + 2)).count()
    };
    let of_a = granted(&mut fixture, &mut a, &[0, 1]);
    let mut b = TestClient::come(&mut fixture, 2, now);
    let of_b = granted(&mut fixture, &mut b, &[2, 3, 4]);
    match (of_a, of_b) {
        (2, 3) => {
            Err("one client has a majority of three nodes, another one a majority of five"
                .to_owned())
        }
        (_, 3) => Ok(()),
        _ => {
            Err(format!("only {of_b} of three nodes grant the lock to a client with the new list"))
        }
    }
}

/// A holds two nodes of three, B has the third, and C waits there. One of A's nodes is made a
/// replica of the third, and a master again. Then B releases.
///
/// Fails if the node, which has forgotten A, hands the lock off to C.
fn a_node_that_was_a_replica_hands_nothing_off() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    let mut a = TestClient::come(&mut fixture, 1, 0);
    a.exchange(&mut fixture, &[0, 2], 1);
    a.held()?;
    let [b, mut c] = [2, 3].map(|number| {
        let mut client = TestClient::come(&mut fixture, number, number.into());
        client.exchange(&mut fixture, &ALL, number.into());
        client
    });
    fixture.copy(1, 0);
    for node in 0..2 {
        fixture.release(&[node], &b.owner(), 5);
        _ = c.listen(&mut fixture, node, 6);
    }
    match c.held() {
        Ok(_) => Err("a node that forgot its vote hands the lock off to another client".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A holds two nodes of three. After B's handshake with the first of them the node's clock is set
/// forward, and A's key there expires. Then B begins its session, and asks.
///
/// Fails if the node votes for B, or if the session hides the step from the handshake of the next
/// client.
fn a_node_whose_clock_is_set_after_the_handshake_gives_no_session() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    let mut a = TestClient::come(&mut fixture, 1, 0);
    a.exchange(&mut fixture, &[0, 1], 1);
    a.held()?;
    let mut b = TestClient::unattached(&mut fixture, 2, 10);
    fixture.ahead_ms[0] = STEP_MS;
    b.attach(&mut fixture, 11);
    b.exchange(&mut fixture, &ALL, 12);
    if b.held().is_ok() {
        return Err("a node whose clock was set votes for another client".to_owned());
    }
    match fixture.handshake(0, 13).and_then(|info| info.reason()) {
        Some(Reason::ClockStepped) => Ok(()),
        other => Err(format!("a node whose clock was set is quarantined for {other:?}")),
    }
}

/// A node's clock is set forward during its quarantine, by less than a step that would be noticed.
///
/// Fails if that ends the quarantine.
fn the_nodes_clock_alone_does_not_end_a_quarantine() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    fixture.stores[0] = Store::new();
    fixture.enrol(0, 10);
    let info = fixture.handshake_at(0, 20 + QUARANTINE_MS, 20);
    match info.and_then(|info| info.reason()) {
        Some(_) => Ok(()),
        None => Err("a node whose clock was set votes before its quarantine has ended".to_owned()),
    }
}

/// A holds three nodes of five, and B is granted the two others. One of those is made a replica of
/// a node of A's, and a master again: it has A's key, and has forgotten B. A renews where it can.
/// On the node that it cannot reach its key expires, and B gets that node.
///
/// Fails if the renewal of A counts the node that had voted for B and forgot its vote.
fn a_node_that_was_a_replica_extends_nothing() -> Result<(), String> {
    let mut fixture = Fixture::founded(5);
    let [a, b] = [1, 2].map(|number| TestClient::come(&mut fixture, number, 0));
    let mut taking = Try::start(terms(TTL_MS), 5, 0);
    (0..3).for_each(|node| a.take(&mut fixture, &mut taking, node, 1));
    let Some(Outcome::Held { valid_until, .. }) = taking.outcome() else {
        return Err(format!("an attempt ended as {:?}, not with the lock", taking.outcome()));
    };

    let mut taking = Try::start(terms(TTL_MS), 5, 85);
    (3..5).for_each(|node| b.take(&mut fixture, &mut taking, node, 86));
    fixture.copy(0, 3);
    let mut renewal = Renew::start(terms(TTL_MS), 5, valid_until, at(88));
    for node in [0, 1, 3] {
        let entry = KeyExtension { name: name(), owner: a.classic_owner(), ttl_ms: TTL_MS };
        let sender = Some(a.sender(node));
        let extension = Command::ExtendKeys { entries: [entry].into(), sender };
        renewal.handle_vote(node, fixture.vote(node, 89, &extension), at(90));
    }
    b.take(&mut fixture, &mut taking, 2, 102);
    match (renewal.outcome(), taking.outcome()) {
        (Some(renew::Outcome::Extended { .. }), Some(Outcome::Held { .. })) => {
            Err("a node that forgot its vote extends the lease of another client".to_owned())
        }
        (_, Some(Outcome::Held { .. })) => Ok(()),
        (_, other) => Err(format!("a client with three of five nodes ended as {other:?}")),
    }
}

/// A holds a node that writes its data to disk later. The node restarts without that grant, and
/// writes everything at once from then on.
///
/// Fails if the node votes for B.
fn node_that_was_not_durable_is_quarantined_after_a_restart() -> Result<(), String> {
    restart_without_the_last_grant(false, true)
}

/// A node writes everything to disk at once at the handshake, and not any more when it grants the
/// lock to A. It restarts without that grant.
///
/// Fails if the node votes for B.
fn node_that_is_no_longer_durable_is_quarantined_after_a_restart() -> Result<(), String> {
    restart_without_the_last_grant(true, false)
}

fn restart_without_the_last_grant(was_durable: bool, is_durable: bool) -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    fixture.is_durable = was_durable;
    let a = TestClient::come(&mut fixture, 1, 0);
    let on_disk = fixture.stores[0].clone();
    a.hold_two(&mut fixture)?;
    fixture.stores[0] = on_disk;
    fixture.is_durable = is_durable;
    restarted_node_does_not_vote(&mut fixture)
}

/// A holds a node that writes everything to disk. The node is flushed, and restarts during its
/// quarantine.
///
/// Fails if the node votes for B.
fn restart_does_not_end_the_quarantine_of_a_durable_node() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    fixture.is_durable = true;
    TestClient::come(&mut fixture, 1, 0).hold_two(&mut fixture)?;
    fixture.stores[0].clear();
    fixture.enrol(0, 5);
    restarted_node_does_not_vote(&mut fixture)
}

/// A holds a node that writes everything to disk. The node restarts with a clock that was set
/// forward: A's key has expired.
///
/// Fails if the node votes for B.
fn durable_node_with_a_wrong_clock_is_quarantined_after_a_restart() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    fixture.is_durable = true;
    TestClient::come(&mut fixture, 1, 0).hold_two(&mut fixture)?;
    fixture.ahead_ms[0] = STEP_MS;
    restarted_node_does_not_vote(&mut fixture)
}

/// The first of three nodes is another run from now on. B asks it, and the node that A does not
/// hold.
fn restarted_node_does_not_vote(fixture: &mut Fixture) -> Result<(), String> {
    fixture.stores[0].membership.set_run(99);
    let mut b = TestClient::come(fixture, 2, 10);
    b.exchange(fixture, &[0, 2], 11);
    match b.held() {
        Ok(_) => Err("a node that forgot its vote votes again".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A lease was left on two nodes of three. On one of them it has expired, and B holds the lock by
/// that one and the third. The third is made a replica of the one that still has the lease, and a
/// master again. Then C adopts the lease.
///
/// Fails if C also holds the lock.
fn stale_session_cannot_adopt() -> Result<(), String> {
    let mut fixture = Fixture::founded(3);
    let mut a = TestClient::come(&mut fixture, 1, 0);
    a.exchange(&mut fixture, &[1, 2], 1);
    a.held()?;
    let left = a.place.owner(99);
    for (node, ms) in [(2, 60), (1, 90)] {
        a.adopt(&mut fixture, node, (&a.owner(), &left), ms);
    }
    let mut b = TestClient::come(&mut fixture, 2, 100);
    b.exchange(&mut fixture, &ALL, 101);
    b.time_out(170);
    b.exchange(&mut fixture, &[0, 2, 0], 170);
    b.held()?;

    let c = TestClient::come(&mut fixture, 3, 171);
    fixture.copy(1, 0);
    let mut taking = Try::start(terms(TTL_MS), 3, 172);
    for node in ALL {
        let vote = c.adopt(&mut fixture, node, (&left, &c.owner()), 172);
        taking.vote(node, vote, 172);
    }
    match taking.outcome() {
        Some(Outcome::Held { .. }) => {
            Err("a node that forgot its vote gives away a lease".to_owned())
        }
        _ => Ok(()),
    }
}

impl TestClient {
    /// Asks one node, in time.
    fn take(&self, fixture: &mut Fixture, taking: &mut Try, node: usize, ms: u64) {
        let (owner, sender) = (self.classic_owner(), Some(self.sender(node)));
        let set = Command::SetKey { name: name(), owner, ttl_ms: TTL_MS, sender };
        taking.vote(node, fixture.vote(node, ms, &set), ms);
    }

    fn classic_owner(&self) -> Owner {
        Owner::new(&self.place.client, 1, "classic")
    }

    /// Wins the lock by the first two nodes of three.
    fn hold_two(mut self, fixture: &mut Fixture) -> Result<(), String> {
        self.exchange(fixture, &[0, 1], 1);
        self.held().map(drop)
    }
}

const PING_MS: u64 = 50;

/// More than the largest error of a clock.
const STEP_MS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A node's clock is set back by ten seconds, and right again without a request in between. Its
    /// grants from the meantime have expired. Then a client comes that does not know the node.
    ///
    /// Fails if the node votes at once.
    #[test]
    fn node_whose_clock_is_set_right_again_is_quarantined() -> Result<(), String> {
        let mut fixture = Fixture::founded(3);
        let a = TestClient::come(&mut fixture, 1, 20_000);
        let (sender, terms) = (a.sender(0), a.terms(0, 20_050));
        fixture.apply(0, 10_050, &Command::Ping { sender, terms });
        match fixture.handshake(0, 20_100).and_then(|info| info.reason()) {
            Some(Reason::ClockStepped) => Ok(()),
            other => {
                Err(format!("a node whose keys expired by its clock is quarantined for {other:?}"))
            }
        }
    }
}

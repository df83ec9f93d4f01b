//! Errors report each node as it is when the error is made, not as it was when the call began.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use quorate::{
    Client, ClientBuilder, DetachedLease, Guard, Semaphore,
    error::{
        ConnectError, LeaseError, LockError, NodeAnswer, NodeError, NodeReport, ReleaseError,
        VerifyError,
    },
    observe::{Event, Observer},
};
use quorate_testkit::{eventually, redis::cmd};

use super::{
    fixture::{PATIENCE, ProxyFixture, connect_to_all, node_error},
    ways_down::WayDown,
};
use crate::{links::executor::block_on, mode::Mode};

in_both_modes! {
    healthy_node_is_not_blamed_for_two_killed_ones,
    healthy_node_is_not_blamed_for_two_stopped_ones,
    healthy_node_is_not_blamed_for_two_black_holed_ones,
    errors_of_leases_report_the_healthy_node,
    nodes_that_change_during_a_wait_are_reported_as_they_are_at_its_end,
    error_reply_of_a_server_is_reported_while_it_is_current,
    first_try_of_a_new_client_waits_for_its_connections,
}

fn healthy_node_is_not_blamed_for_two_killed_ones(mode: Mode) {
    healthy_node_is_not_blamed(mode, WayDown::Killed);
}

fn healthy_node_is_not_blamed_for_two_stopped_ones(mode: Mode) {
    healthy_node_is_not_blamed(mode, WayDown::Stopped);
}

fn healthy_node_is_not_blamed_for_two_black_holed_ones(mode: Mode) {
    healthy_node_is_not_blamed(mode, WayDown::BlackHoled);
}

/// Each call is made by a client that was built after the nodes went down.
fn healthy_node_is_not_blamed(mode: Mode, way: WayDown) {
    let fixture = ProxyFixture::start_in(mode, 3);
    way.take_down(&fixture, &DOWN);
    let calls: &[(&str, Call)] = match mode {
        Mode::Queue => &[CALLS, CALLS_OF_READERS].concat(),
        Mode::Classic => CALLS,
    };
    at_once(calls, |call| {
        let witness = Witness::default();
        check(way, &call(patient(way.settings(&fixture), &witness)), &witness);
    });
    way.bring_back(&fixture, &DOWN);
}

type Call = fn(ClientBuilder) -> Box<[NodeReport]>;

const CALLS: &[(&str, Call)] = &[
    ("connect", |settings| match block_on(settings.connect_timeout(WAIT).connect()) {
        Err(ConnectError::NoQuorum { nodes }) => nodes,
        other => panic!("{other:?}"),
    }),
    ("lock_timeout", |settings| no_quorum(block_on(build(settings).mutex("a").lock_timeout(WAIT)))),
    ("try_lock", |settings| no_quorum(block_on(build(settings).mutex("a").try_lock()))),
    ("acquire_timeout", |settings| {
        no_quorum(block_on(semaphore(&build(settings)).acquire_timeout(WAIT)))
    }),
    ("try_acquire", |settings| no_quorum(block_on(semaphore(&build(settings)).try_acquire()))),
];

const CALLS_OF_READERS: &[(&str, Call)] = &[
    ("read_timeout", |settings| {
        no_quorum(block_on(build(settings).rwlock("a").read_timeout(WAIT)))
    }),
    ("try_read", |settings| no_quorum(block_on(build(settings).rwlock("a").try_read()))),
    ("try_write", |settings| no_quorum(block_on(build(settings).rwlock("a").try_write()))),
];

fn errors_of_leases_report_the_healthy_node(mode: Mode) {
    for way in [WayDown::Killed, WayDown::Stopped] {
        let (fixture, witness) = (ProxyFixture::start_in(mode, 3), Witness::default());
        let holder = connect_to_all(patient(way.settings(&fixture), &witness));
        let hold = |name: &str| block_on(holder.mutex(name).lock()).expect("all nodes vote");
        let guards: [Guard; 2] = ["verify", "release"].map(hold);
        let leave = |name: &str| block_on(hold(name).detach()).expect("all nodes answer");
        let leases: [DetachedLease; 3] = ["adopt", "renew", "end"].map(leave);
        way.take_down(&fixture, &DOWN);

        let [verified, released] = guards;
        let verified = match block_on(verified.verify()) {
            Err(VerifyError::NoQuorum { nodes, .. }) => nodes,
            other => panic!("{other:?}"),
        };
        check(way, &verified, &witness);
        let released = match block_on(released.release()) {
            Err(ReleaseError::NoQuorum { nodes, .. }) => nodes,
            other => panic!("{other:?}"),
        };
        check(way, &released, &witness);
        let client = || build(patient(way.settings(&fixture), &witness));
        let [adopted, renewed, ended] = &leases;
        check(way, &too_few(block_on(client().adopt(adopted))), &witness);
        check(way, &too_few(block_on(client().renew_lease(renewed))), &witness);
        check(way, &too_few(block_on(client().release_lease(ended))), &witness);
        way.bring_back(&fixture, &DOWN);
    }
}

/// Two of five vote at first, and two at the end: one goes down, and another comes up.
fn nodes_that_change_during_a_wait_are_reported_as_they_are_at_its_end(mode: Mode) {
    let (fixture, witness) = (ProxyFixture::start_in(mode, 5), Witness::default());
    let way = WayDown::Killed;
    way.take_down(&fixture, &[2, 3, 4]);
    let client = build(patient(fixture.direct(), &witness));
    let waiting = {
        let mutex = client.mutex("a");
        thread::spawn(move || no_quorum(block_on(mutex.lock_timeout(LONG_WAIT))))
    };
    let wait_for = |what: &str, up: &[usize]| {
        eventually(what, PATIENCE, || {
            let nodes = client.node_status();
            (0..5).all(|node| match up.contains(&node) {
                true => nodes[node].answer == NodeAnswer::Attached,
                false => node_error(&nodes[node]) == Some(&NodeError::ConnectionRefused),
            })
        });
    };
    wait_for("two are up", &[0, 1]);
    way.take_down(&fixture, &[1]);
    way.bring_back(&fixture, &[2]);
    wait_for("one node is up and one is down", &[0, 2]);
    assert!(!waiting.is_finished(), "the changes came during the wait");
    let nodes = waiting.join().expect("it has an error");
    for (node, report) in nodes.iter().enumerate() {
        match [0, 2].contains(&node) {
            true => assert!(witness.agrees(report), "node {node} of {nodes:?}"),
            false => {
                assert_eq!(node_error(report), Some(&NodeError::ConnectionRefused), "{nodes:?}");
            }
        }
    }
}

fn error_reply_of_a_server_is_reported_while_it_is_current(mode: Mode) {
    let (fixture, witness) = (ProxyFixture::start_in(mode, 3), Witness::default());
    let client = connect_to_all(patient(fixture.direct(), &witness));
    // A busy machine may not have answered the last question when the time has passed.
    let is_sound = |report: &NodeReport| {
        witness.agrees(report) || node_error(report) == Some(&NodeError::TimedOut)
    };
    for server in &fixture.servers[1..] {
        set_memory_limit(server, 1);
    }
    let nodes = no_quorum(block_on(client.mutex("a").lock_timeout(SHORT_WAIT)));
    assert!(is_sound(&nodes[0]), "{nodes:?}");
    for report in &nodes[1..] {
        assert_eq!(node_error(report), Some(&NodeError::OutOfMemory), "{nodes:?}");
    }
    // A server that is gone is not full any more.
    fixture.servers[2].kill();
    eventually("the client has noticed", PATIENCE, || {
        node_error(&client.node_status()[2]) == Some(&NodeError::ConnectionRefused)
    });
    let nodes = no_quorum(block_on(client.mutex("a").lock_timeout(SHORT_WAIT)));
    assert!(is_sound(&nodes[0]), "{nodes:?}");
    assert_eq!(node_error(&nodes[1]), Some(&NodeError::OutOfMemory), "{nodes:?}");
    assert_eq!(node_error(&nodes[2]), Some(&NodeError::ConnectionRefused), "{nodes:?}");
}

fn first_try_of_a_new_client_waits_for_its_connections(mode: Mode) {
    let fixture = ProxyFixture::start_in(mode, 3);
    let client = build(fixture.direct());
    let guard = block_on(client.mutex("a").try_lock()).expect("all nodes vote");
    assert!(guard.is_some(), "it is free");
    let permit = block_on(semaphore(&build(fixture.direct())).try_acquire());
    assert!(permit.expect("all nodes vote").is_some(), "a permit is free");
    if mode == Mode::Queue {
        let share = block_on(build(fixture.direct()).rwlock("b").try_read());
        assert!(share.expect("all nodes vote").is_some(), "there is no writer");
    }
}

/// Runs all calls at the same time, since each of them waits most of the time.
fn at_once(calls: &[(&str, Call)], run: impl Fn(Call) + Sync) {
    thread::scope(|scope| {
        let run = &run;
        let running = calls.iter().map(|(name, call)| (*name, scope.spawn(move || run(*call))));
        let running: Vec<_> = running.collect();
        let ended = running.into_iter().map(|(name, it)| (name, it.join()));
        let failed: Vec<_> = ended.filter(|(_, it)| it.is_err()).map(|(name, _)| name).collect();
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[track_caller]
fn check(way: WayDown, nodes: &[NodeReport], witness: &Witness) {
    assert!(witness.agrees(&nodes[0]), "node 0 is healthy: {nodes:?}");
    for report in &nodes[1..] {
        let told = node_error(report);
        // An established connection is lost first, and refused when it is made again.
        let is_lost = matches!(told, Some(NodeError::ConnectionLost(_)));
        let is_told = told == Some(&way.node_error());
        assert!(is_told || is_lost && matches!(way, WayDown::Killed), "{way:?}: {nodes:?}");
    }
}

/// Knows which nodes the client has lost. On a machine that stands still for a second that may be
/// one which is healthy.
#[derive(Clone, Debug, Default)]
struct Witness(Arc<Mutex<HashSet<String>>>);

impl Witness {
    /// Whether the node is reported as healthy, or the client has lost it.
    fn agrees(&self, report: &NodeReport) -> bool {
        let (attached, granted) = (NodeAnswer::Attached, NodeAnswer::Granted);
        [attached, granted, NodeAnswer::NotAwaited].contains(&report.answer)
            || self.0.lock().expect("nobody panicked").contains(&report.node)
    }
}

impl Observer for Witness {
    fn observe(&self, event: &Event<'_>) {
        let mut down = self.0.lock().expect("nobody panicked");
        match event {
            // A shutdown of the client is no fault of a node.
            Event::NodeDown { node_error: NodeError::ShutDown, .. } => {}
            Event::NodeDown { node, .. } => drop(down.insert((*node).to_owned())),
            Event::NodeUp { node } => drop(down.remove(*node)),
            _ => {}
        }
    }
}

/// A client that gives up no node before its link does.
fn patient(settings: ClientBuilder, witness: &Witness) -> ClientBuilder {
    settings.vote_timeout(PATIENCE).observer(witness.clone())
}

fn no_quorum<T: std::fmt::Debug>(result: Result<T, LockError>) -> Box<[NodeReport]> {
    match result {
        Err(LockError::NoQuorum { nodes, .. }) => nodes,
        other => panic!("expected no majority, got {other:?}"),
    }
}

fn too_few<T: std::fmt::Debug>(result: Result<T, LeaseError>) -> Box<[NodeReport]> {
    match result {
        Err(LeaseError::NoQuorum { nodes, .. }) => nodes,
        other => panic!("expected no majority, got {other:?}"),
    }
}

fn set_memory_limit(server: &quorate_testkit::Server, bytes: u64) {
    let mut limit = cmd("CONFIG");
    limit.arg("SET").arg("maxmemory").arg(bytes);
    limit.exec(&mut server.connection()).expect("the server answers");
}

fn build(settings: ClientBuilder) -> Client {
    settings.build().expect("the settings are valid")
}

fn semaphore(client: &Client) -> Semaphore {
    client.semaphore("permits", 2.try_into().expect("not zero"))
}

const DOWN: [usize; 2] = [1, 2];

/// Longer than the second after which a silent node counts as down.
const WAIT: Duration = Duration::from_secs(4);
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Long enough for nodes to come and go, even on a busy machine.
const LONG_WAIT: Duration = Duration::from_secs(12);

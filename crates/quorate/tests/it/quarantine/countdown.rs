//! Errors report how long a node remains quarantined, and that it is down if it is down now.

use std::time::Duration;

use quorate::{
    Client, Guard,
    error::{ConnectError, LockError, NodeError, NodeReport},
};
use quorate_testkit::{Server, eventually};

use super::fixture::{quarantined, settings, wait_until};
use crate::mode::Mode;

#[tokio::test(flavor = "multi_thread")]
async fn countdown_in_an_error_is_the_one_of_now() {
    for mode in [Mode::Queue, Mode::Classic] {
        let (_servers, client) = quarantined_client(mode);
        let before = left(&client.node_status());
        let mut seen = before;
        // The same client waits again and again.
        for wait in ["lock_timeout", "read_timeout", "acquire_timeout", "lock_timeout"] {
            let error = match (wait, mode) {
                ("read_timeout", Mode::Queue) => {
                    client.rwlock("a").read_timeout(WAIT).await.map(Guard::from)
                }
                ("acquire_timeout", _) => {
                    let permits = 2.try_into().expect("not zero");
                    client.semaphore("b", permits).acquire_timeout(WAIT).await.map(Guard::from)
                }
                _ => client.mutex("a").lock_timeout(WAIT).await,
            };
            let Err(LockError::NoQuorum { nodes, .. }) = error else { panic!("{error:?}") };
            let told = left(&nodes);
            let expected = seen.saturating_sub(WAIT) + ROUNDING;
            assert!(told <= expected, "{mode:?} {wait}: {told:?} left after {seen:?}");
            let now = left(&client.node_status());
            assert!(now <= told + ROUNDING, "{mode:?} {wait}: {told:?} told, {now:?} is true");
            seen = told;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantined_node_that_is_killed_is_reported_as_down() {
    for mode in [Mode::Queue, Mode::Classic] {
        let (servers, client) = quarantined_client(mode);
        servers[2].kill();
        // Far less than the time after which a quarantined node is asked again.
        eventually("the client notices", NOTICED_WITHIN, || is_refused(&client.node_status()[2]));
        let error = client.mutex("a").lock_timeout(WAIT).await;
        let Err(LockError::NoQuorum { nodes, .. }) = error else { panic!("{error:?}") };
        assert!(is_refused(&nodes[2]), "{nodes:?}");
        assert!(nodes[..2].iter().all(|node| quarantined(node).is_some()), "{nodes:?}");
        let connected = {
            let urls = servers.iter().map(Server::url);
            mode.of(settings(urls).max_ttl(MAX_TTL)).connect_timeout(WAIT).connect().await
        };
        let Err(ConnectError::NoQuorum { nodes }) = connected else { panic!("{connected:?}") };
        assert!(is_refused(&nodes[2]), "{nodes:?}");
    }
}

/// A client of three new servers in quarantine.
fn quarantined_client(mode: Mode) -> (Vec<Server>, Client) {
    let servers = Server::start_many(3);
    let settings = mode.of(settings(servers.iter().map(Server::url)).max_ttl(MAX_TTL));
    let client = settings.build().expect("the settings are valid");
    wait_until(&client, "all have their places", |nodes| {
        let is_counting = |node: &NodeReport| {
            quarantined(node).is_some_and(|(_, why)| why == "it knows nothing of earlier locks")
        };
        nodes.iter().all(is_counting)
    });
    (servers, client)
}

/// The longest remaining quarantine of any node.
fn left(nodes: &[NodeReport]) -> Duration {
    let left = |node: &NodeReport| quarantined(node).expect("it is quarantined").0;
    nodes.iter().map(left).max().expect("there are nodes")
}

fn is_refused(report: &NodeReport) -> bool {
    report.answer == quorate::error::NodeAnswer::NodeError(NodeError::ConnectionRefused)
}

const WAIT: Duration = Duration::from_secs(2);

/// Nodes are asked again in between, and their answers are up to a second old: for this time an
/// answer is waited for.
const ROUNDING: Duration = Duration::from_secs(1);

/// The default: a quarantine of 68.2 s, so that a node is asked again after up to 17 s.
const MAX_TTL: Duration = Duration::from_secs(60);
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

//! A lease goes from one process to another.

mod late;
mod leaving;
mod queue;
mod rivals;

use std::{net::TcpListener, time::Duration};

use quorate::{
    Client, DetachedLease, ParseLeaseError,
    error::{LeaseError, LostReason, NodeAnswer, NodeError, TtlError},
    memory::Behaviour::{Answer, Fail, Hang},
};
use quorate_testkit::{Server, eventually};

use crate::{
    faults::fixture::PATIENCE,
    links::executor::block_on,
    watchdog::{
        fixture::{NAME, PausedFixture, TICK, TTL, build, is_taken, loss, pass, settings, take},
        journal::Journal,
    },
};

#[test]
fn lease_moves_from_one_client_to_another_on_a_server() {
    let server = Server::start();
    let first = block_on(Client::connect([server.url()])).unwrap();
    let guard = block_on(first.mutex(NAME).ttl(SHORT).lock()).unwrap();
    let text = block_on(guard.detach()).unwrap().expose_secret();
    // As if the process had ended: only the text remains.
    assert!(block_on(first.shutdown(PATIENCE)).is_clean);

    let journal = Journal::default();
    let settings =
        Client::builder().quarantine(false).nodes([server.url()]).vote_timeout(SHORT / 2);
    let second = block_on(settings.observer(journal.clone()).connect()).unwrap();
    let guard = block_on(second.adopt(&text.parse().unwrap())).unwrap();
    assert_eq!(guard.name(), NAME);
    let value = server.get(NAME);
    eventually("it is renewed for three ttls", PATIENCE, || {
        guard.check().unwrap();
        assert!(value.is_some() && server.get(NAME) == value, "it is held all the time");
        journal.count("renewed orders:42 done") > 12
    });
    block_on(guard.release()).unwrap();
    assert!(server.lock_keys().is_empty());
}

/// A new client does not know yet that the third node never answers, and the lease expires before
/// it learns that.
#[test]
fn silent_node_does_not_cost_a_short_lease() {
    let servers = Server::start_many(2);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    let client = || {
        let urls = servers.iter().map(Server::url).chain([silent.clone()]);
        let settings = Client::builder().quarantine(false).nodes(urls);
        block_on(settings.ttl(Duration::from_millis(900)).connect()).unwrap()
    };
    let (first, second, third, fourth) = (client(), client(), client(), client());
    let lease = block_on(block_on(first.mutex(NAME).lock()).unwrap().detach()).unwrap();
    block_on(second.renew_lease(&lease)).unwrap();
    let lease = block_on(block_on(third.adopt(&lease)).unwrap().detach()).unwrap();
    block_on(fourth.release_lease(&lease)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn guard_left_to_expire_neither_renews_nor_releases() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    let wanted = fixture.other().mutex(NAME);
    pass(TTL - TTL / 100).await;
    assert!(is_taken(&wanted).await, "it is not released");
    pass(TTL / 50).await;
    assert!(!is_taken(&wanted).await, "it is not renewed");
    assert_eq!(fixture.journal.count("renewed") + fixture.journal.count("release"), 0);
    assert_eq!((lease.name(), lease.ttl()), (NAME, TTL));
}

#[tokio::test(start_paused = true)]
async fn lease_survives_conversion_to_text() {
    let fixture = PausedFixture::new(3);
    for name in [NAME, "a:b c:d", "Ümläute und 日本語", "quotes '\" and \\"] {
        let guard = take(&fixture.client.mutex(name).ttl(TTL / 3)).await;
        let lease = guard.detach().await.unwrap();
        let read: DetachedLease = lease.expose_secret().parse().unwrap();
        assert_eq!(read, lease);
        assert_eq!((read.name(), read.ttl()), (name, lease.ttl()));
        let adopted = fixture.client.adopt(&read).await.unwrap();
        adopted.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn debug_output_and_errors_of_a_lease_hide_the_owner() {
    let lease = PausedFixture::new(1).hold().await.detach().await.unwrap();
    let text = lease.expose_secret();
    let owner = text.split(':').nth(2).unwrap();
    assert!(!format!("{lease:?}").contains(owner));
    assert_eq!("something else".parse::<DetachedLease>(), Err(ParseLeaseError::Malformed));
}

#[tokio::test(start_paused = true)]
async fn extended_ttl_is_handed_over_with_the_lease() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    guard.extend(4 * TTL).await.unwrap();
    let lease = guard.detach().await.unwrap();
    assert_eq!(lease.ttl(), 4 * TTL);
    pass(3 * TTL).await;
    let guard = fixture.other().adopt(&lease).await.unwrap();
    assert!(guard.remaining() > 3 * TTL);
}

#[tokio::test(start_paused = true)]
async fn adopted_lease_is_renewed_and_held_like_any_other() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.other().mutex(NAME).lock().await.unwrap().detach().await.unwrap();
    let guard = fixture.client.adopt(&lease).await.unwrap();
    pass(20 * TTL).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    assert!(fixture.journal.count("renewed orders:42 done") > 50);
    fixture.behave(&[Hang; 3]);
    assert_eq!(loss(&guard).await.0.reason, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn adopted_lease_has_the_max_hold_of_its_new_client() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    let client = build(settings(&fixture.nodes).max_hold(Some(2 * TTL)));
    let guard = client.adopt(&lease).await.unwrap();
    assert_eq!(loss(&guard).await.0.reason, LostReason::MaxHold);
}

#[tokio::test(start_paused = true)]
async fn expired_lease_cannot_be_adopted() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    pass(TTL + TICK).await;
    assert_eq!(lost_reason(fixture.client.adopt(&lease).await), LostReason::Gone);

    // Not even if another owner holds the lock now: its lease must not change.
    let guard = fixture.other().mutex(NAME).no_renew().lock().await.unwrap();
    let left = guard.remaining();
    assert_eq!(lost_reason(fixture.client.adopt(&lease).await), LostReason::Gone);
    guard.verify().await.unwrap();
    assert_eq!(guard.remaining(), left);
}

#[tokio::test(start_paused = true)]
async fn released_lease_cannot_be_adopted() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    fixture.client.adopt(&lease).await.unwrap().release().await.unwrap();
    assert_eq!(lost_reason(fixture.client.adopt(&lease).await), LostReason::Gone);
}

#[tokio::test(start_paused = true)]
async fn lease_cannot_be_adopted_without_a_majority() {
    for behaviour in [Fail, Hang] {
        let fixture = PausedFixture::new(3);
        let lease = fixture.hold().await.detach().await.unwrap();
        fixture.behave(&[behaviour, behaviour, Answer]);
        let adopted = fixture.client.adopt(&lease).await;
        let Err(LeaseError::NoQuorum { nodes, .. }) = adopted else {
            panic!("{behaviour:?}: {adopted:?}");
        };
        // Two errors settle it before the third node has answered, and silence does not.
        let (expected, third) = match behaviour {
            Fail => (NodeError::ConnectionRefused, NodeAnswer::NotAwaited),
            _ => (NodeError::TimedOut, NodeAnswer::Granted),
        };
        let expected = NodeAnswer::NodeError(expected);
        let answers = nodes.iter().map(|report| report.answer.clone()).collect::<Vec<_>>();
        assert_eq!(answers, [expected.clone(), expected, third]);

        fixture.behave(&[Answer; 3]);
        let again = fixture.client.adopt(&lease).await;
        if behaviour == Fail {
            // Two nodes do not know the lease.
            again.unwrap().verify().await.unwrap();
        } else {
            // Two nodes stored it and deleted it later.
            assert_eq!(lost_reason(again), LostReason::Gone);
        }
        assert_eq!(fixture.holding(), 0, "{behaviour:?}: whatever was taken over was released");
    }
}

#[tokio::test(start_paused = true)]
async fn only_one_of_several_adopters_succeeds() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    let (first, second) = (fixture.other(), fixture.other());
    let (first, second) = tokio::join!(first.adopt(&lease), second.adopt(&lease));
    let guard = first.unwrap();
    assert_eq!(lost_reason(second), LostReason::Gone);
    guard.verify().await.unwrap();
    pass(3 * TTL).await;
    guard.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_minority_does_not_prevent_an_adoption() {
    let fixture = PausedFixture::new(5);
    let lease = fixture.hold().await.detach().await.unwrap();
    fixture.behave(&[Fail, Hang, Answer, Answer, Answer]);
    fixture.client.adopt(&lease).await.unwrap().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn ttl_above_the_new_clients_limit_is_refused() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    let max = TTL / 2;
    let client = build(settings(&fixture.nodes).ttl(max).max_ttl(max));
    let expected = LeaseError::InvalidTtl(TtlError::AboveMax { ttl: TTL, max });
    assert_eq!(client.adopt(&lease).await.unwrap_err(), expected);
    fixture.client.adopt(&lease).await.unwrap().verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_that_was_shut_down_adopts_nothing() {
    let fixture = PausedFixture::new(3);
    let lease = fixture.hold().await.detach().await.unwrap();
    let client = fixture.other();
    let _ = client.clone().shutdown(TTL).await;
    assert_eq!(client.adopt(&lease).await.unwrap_err(), LeaseError::ShutDown);
    fixture.client.adopt(&lease).await.unwrap().verify().await.unwrap();
}

fn lost_reason(adopted: Result<quorate::Guard, LeaseError>) -> LostReason {
    match adopted {
        Err(LeaseError::Lost(lost)) => lost.reason,
        other => panic!("expected a lost lease, got {other:?}"),
    }
}

const SHORT: Duration = Duration::from_millis(500);

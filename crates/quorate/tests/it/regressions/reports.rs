//! What callers were told, and what a server said.

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError},
    memory::Behaviour,
};
use quorate_testkit::eventually;

use crate::{
    faults::cluster::{PATIENCE, wait_until_attached},
    links::{
        executor::block_on,
        strangers::peer::{Peer, fake_redis, is_attempt},
    },
    mode::Mode,
    watchdog::fixture::{NAME, PausedFixture, build, settings},
};

in_both_modes! {
    a_reply_of_the_wrong_kind_ends_the_connection_and_the_link_heals,
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_waited_for_is_not_said_to_have_timed_out() {
    // Two failures settled it at once, and the third node was blamed all the same.
    use Behaviour::{Fail, Hang};
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Fail, Fail, Hang]);
    let Err(LockError::NoQuorum { nodes }) = fixture.mutex().try_lock().await else {
        panic!("two of three nodes fail");
    };
    let answers: Vec<_> = nodes.iter().map(|report| report.answer.clone()).collect();
    let refused = NodeAnswer::NodeError(NodeError::ConnectionRefused);
    assert_eq!(answers, [refused.clone(), refused, NodeAnswer::NotAwaited]);
    let text = LockError::NoQuorum { nodes }.to_string();
    assert!(text.contains("memory:2: not waited for"), "{text}");
    assert!(!text.contains("timed out"), "{text}");
}

fn a_reply_of_the_wrong_kind_ends_the_connection_and_the_link_heals(mode: Mode) {
    // The connection went on, although replies and requests no longer belonged to each other.
    let peer = Peer::start(fake_redis(|words, connection| {
        (is_attempt(words) && connection == 0).then(|| ":1\r\n".into())
    }));
    let settings =
        mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).vote_timeout(PATIENCE);
    let client = block_on(settings.connect()).unwrap();
    let called = block_on(client.mutex(NAME).try_lock());
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    eventually("a new connection is made", PATIENCE, || peer.accepted() == 2);
    wait_until_attached(&client);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    assert_eq!(peer.accepted(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_holds_a_lock_is_shown_as_it_was_given() {
    // Quotes and backslashes came out escaped.
    let who = r#"it's "me" \o/"#;
    let fixture = PausedFixture::new(1);
    let holder = build(settings(&fixture.nodes).who(who));
    let guard = holder.mutex(NAME).lock().await.unwrap();
    let refused = fixture.mutex().lock_timeout(std::time::Duration::ZERO).await;
    let Err(LockError::Timeout { holder: Some(holder), .. }) = refused else {
        panic!("it is held, and yet: {refused:?}");
    };
    assert_eq!(holder.who, who);
    drop(guard);
}

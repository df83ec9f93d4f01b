//! Clients that end: what is won meanwhile, what others share with them, and nodes that are dead.

use std::{
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard, Mutex,
    error::{ConfigError, LockError},
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
};

use crate::{
    cancellation::fixture::poll,
    faults::cluster::{Cluster, PATIENCE, node_error, wait_until_attached},
    links::executor::block_on,
    watchdog::fixture::{NAME, PausedFixture, TICK, build, is_taken, settings, take},
};

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_undone_by_a_shutdown_is_not_handed_out() {
    // The majority was there, the caller had not run yet, and the last vote undid it everywhere.
    for start in [try_lock, lock] {
        for comes_back in [Back::BeforeThePoll, Back::AfterThePoll] {
            let fixture = PausedFixture::new(3);
            let mutex = fixture.mutex();
            fixture.behave(&[Answer, Hang, Hang]);
            let mut call = start(&mutex);
            assert!(poll(call.as_mut()).is_pending());
            fixture.nodes.set(1, Answer);
            let mut ending = Box::pin(fixture.client.clone().shutdown(PATIENCE));
            assert!(poll(ending.as_mut()).is_pending());
            if matches!(comes_back, Back::BeforeThePoll) {
                fixture.nodes.set(2, Answer);
            }
            let called = poll(call.as_mut());
            assert!(matches!(called, Poll::Ready(Err(LockError::ShutDown))), "{called:?}");
            fixture.nodes.set(2, Answer);
            assert!(ending.await.is_clean);
            assert_eq!(fixture.holding(), 0);
            assert!(!is_taken(&fixture.other().mutex(NAME)).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_won_before_the_end_is_not_handed_out_after_it() {
    // The guard came from a client whose engine was gone: nobody would have told of its loss.
    for start in [try_lock, lock] {
        let fixture = PausedFixture::new(1);
        let mutex = fixture.mutex();
        fixture.nodes.set(0, Hang);
        let mut call = start(&mutex);
        assert!(poll(call.as_mut()).is_pending());
        fixture.nodes.set(0, Answer);
        fixture.client.clone().shutdown(20 * TICK).await;
        let called = poll(call.as_mut());
        assert!(matches!(called, Poll::Ready(Err(LockError::ShutDown))), "{called:?}");
        assert_eq!(fixture.holding(), 0);
        assert!(!is_taken(&fixture.other().mutex(NAME)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_client_leaves_the_locks_of_others_on_shared_nodes() {
    // Its last orders ran at the end of time, at which every key had expired.
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.other().mutex("another's")).await;
    fixture.behave(&[Mute; 3]);
    let mutex = fixture.mutex();
    let mut call = Box::pin(mutex.try_lock());
    assert!(poll(call.as_mut()).is_pending());
    fixture.client.clone().shutdown(10 * TICK).await;
    fixture.behave(&[Answer; 3]);
    assert!(is_taken(&fixture.other().mutex("another's")).await);
    guard.check().unwrap();
    guard.verify().await.unwrap();
}

#[tokio::test]
async fn clients_with_different_clocks_do_not_share_nodes_in_memory() {
    // The keys of one had expired by the clock of the other.
    let refuses = |built: Result<Client, ConfigError>| match built {
        Err(ConfigError::InvalidSetting { setting, .. }) => setting == "memory",
        Ok(_) | Err(_) => false,
    };
    let nodes = MemoryNodes::new(3);
    let _first = Client::builder().memory(&nodes).build().unwrap();
    assert!(refuses(settings(&nodes).build()));
    let _second = Client::builder().memory(&nodes).build().unwrap();

    let nodes = MemoryNodes::new(3);
    let _first = build(settings(&nodes));
    assert!(refuses(Client::builder().memory(&nodes).build()));
    let _second = build(settings(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_nodes_to_which_nothing_was_sent() {
    // Each release was owed to the dead node until the ttl was over.
    let fixture = PausedFixture::new(3);
    fixture.nodes.set(2, Fail);
    fixture.hold().await.release().await.unwrap();
    drop(fixture.hold().await);
    let called_at = tokio::time::Instant::now();
    assert!(fixture.client.clone().shutdown(PATIENCE).await.is_clean);
    assert!(called_at.elapsed() < 100 * TICK, "{:?}", called_at.elapsed());
}

#[test]
fn a_shutdown_with_a_dead_server_of_three_is_clean() {
    // As above, on servers: the whole grace was waited for.
    let cluster = Cluster::start(3);
    let client = block_on(cluster.direct().connect()).unwrap();
    wait_until_attached(&client);
    cluster.servers[2].kill();
    let is_missed = || node_error(&client.node_status()[2]).is_some();
    quorate_testkit::eventually("the dead one is missed", PATIENCE, is_missed);
    block_on(block_on(client.mutex(NAME).lock()).unwrap().release()).unwrap();
    assert!(block_on(client.shutdown(PATIENCE)).is_clean);
}

#[test]
fn the_drop_of_a_client_does_not_wait_for_nodes_to_which_nothing_was_sent() {
    // Each one blocked its thread for the whole grace of a drop.
    let drop_time = |_| {
        let nodes = MemoryNodes::new(3);
        nodes.set(2, Fail);
        let client = Client::builder().memory(&nodes).build().expect("the settings are valid");
        drop(block_on(client.mutex(NAME).lock()).expect("two nodes are well"));
        let called_at = Instant::now();
        drop(client);
        called_at.elapsed()
    };
    // The shortest of some: on a busy machine one of them may take any time.
    let shortest = (0..5).map(drop_time).min().unwrap();
    assert!(shortest < DROP_GRACE, "{shortest:?}");
}

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Option<Guard>, LockError>> + 'a>>;

fn try_lock(mutex: &Mutex) -> Calling<'_> {
    Box::pin(mutex.try_lock())
}

fn lock(mutex: &Mutex) -> Calling<'_> {
    Box::pin(async { mutex.lock().await.map(Some) })
}

/// When the last node answers.
enum Back {
    BeforeThePoll,
    AfterThePoll,
}

/// For so long the drop of the last handle waits for releases.
const DROP_GRACE: Duration = Duration::from_millis(100);

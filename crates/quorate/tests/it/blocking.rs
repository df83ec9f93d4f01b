//! The blocking API: on any thread, with or without a runtime.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use quorate::{
    LeaseTag,
    blocking::{Client, Guard, Permit, Semaphore},
    error::{ExtendError, LockError, LostReason, ReleaseError, VerifyError, WithError},
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::{Server, eventually};

use crate::faults::fixture::{PATIENCE, wait_until_attached};

#[test]
fn every_call_works_without_a_runtime() {
    let servers = Server::start_many(3);
    use_everything(&servers);
}

#[test]
fn every_call_works_inside_of_a_runtime() {
    let servers = Server::start_many(3);
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    single.block_on(async { use_everything(&servers) });
    let multi = tokio::runtime::Runtime::new().unwrap();
    multi.block_on(async { use_everything(&servers) });
    let task = multi.spawn_blocking(move || use_everything(&servers));
    multi.block_on(task).unwrap();
}

#[test]
fn builder_has_the_settings_of_the_async_client() {
    let nodes = MemoryNodes::new(3);
    let settings = Client::builder().memory(&nodes).who("billing").identity("invoice 42");
    let client = settings.clone().build().unwrap();
    assert_eq!(client.identity(), "invoice 42");
    let guard = client.mutex(NAME).lock().unwrap();
    let holder = client.inspect(NAME).unwrap().holder.expect("the lock is held");
    assert_eq!(holder.who, "billing");
    drop(guard);
    assert!(settings.ttl(Duration::ZERO).build().is_err());
    let server = Server::start();
    let settings = Client::builder().node(server.url()).max_ttl(2 * PATIENCE);
    let client = settings.connect().unwrap();
    client.mutex(NAME).ttl(2 * PATIENCE).lock().unwrap().release().unwrap();
    assert!(client.shutdown(PATIENCE).is_clean);
}

#[test]
fn threads_exclude_each_other() {
    let servers = Server::start_many(3);
    let counter = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            let client = connect(&servers);
            for _ in 0..THREADS {
                let (client, counter) = (client.clone(), &counter);
                scope.spawn(move || {
                    for _ in 0..INCREMENTS {
                        let guard = client.mutex(NAME).lock().unwrap();
                        // Read and written back: without the lock, some of it would be lost.
                        let old = counter.load(Ordering::Relaxed);
                        thread::yield_now();
                        counter.store(old + 1, Ordering::Relaxed);
                        guard.release().unwrap();
                    }
                });
            }
        }
    });
    assert_eq!(counter.into_inner(), 2 * THREADS * INCREMENTS);
    eventually("no key is left", PATIENCE, || servers.iter().all(|it| it.lock_keys().is_empty()));
}

#[test]
fn client_that_would_wait_for_itself_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let built = runtime.block_on(async {
        let settings = quorate::Client::builder().memory(&MemoryNodes::new(1));
        settings.danger_engine_on_this_runtime().build().unwrap()
    });
    let refused = Client::try_from(built).unwrap_err().to_string();
    for part in ["would never end", "danger_engine_on_this_runtime"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn all_settings_are_those_of_the_async_client() {
    let settings = quorate::Client::builder().memory(&MemoryNodes::new(3)).ttl(SHORT).max_ttl(LONG);
    let client = Client::try_from(settings.build().unwrap()).unwrap();
    let guard = client.mutex(NAME).lock().unwrap();
    assert!(guard.remaining() <= SHORT);
    assert!(matches!(guard.extend(2 * LONG), Err(ExtendError::InvalidTtl(_))));
}

#[test]
fn work_that_panics_releases_the_lock() {
    let client = Client::memory();
    let mutex = client.mutex(NAME);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        mutex.with(|guard| {
            guard.check().expect("it is held");
            panic!("the work goes wrong");
        })
    }));
    assert!(panicked.is_err());
    mutex.try_lock().unwrap().expect("it is free again").release().unwrap();
    assert_eq!(mutex.with(|guard| guard.name().len()).unwrap(), NAME.len());
}

#[test]
fn thread_that_waits_for_the_loss_is_woken() {
    let nodes = MemoryNodes::new(3);
    let client = quorate::Client::builder().memory(&nodes).ttl(SHORT).build().unwrap();
    let client = Client::try_from(client).unwrap();
    let guard = client.mutex(NAME).lock().unwrap();
    let flag = guard.loss_token();
    assert!(!flag.is_lost());
    (0..3).for_each(|node| nodes.set(node, Behaviour::Hang));
    let reason = thread::scope(|scope| {
        scope.spawn(|| guard.wait_until_lost().reason).join().expect("the thread ends")
    });
    assert_eq!(reason, LostReason::Expired);
    assert!(flag.is_lost());
    let lost = guard.check().unwrap_err();
    assert_eq!(guard.verify(), Err(VerifyError::Lost(lost.clone())));
    assert_eq!(guard.release(), Err(ReleaseError::Lost(lost)));
}

#[test]
fn work_that_outlives_its_lock_is_rejected() {
    let client = Client::memory();
    let worked = client.mutex(NAME).max_hold(SHORT).with(|guard| guard.wait_until_lost());
    let Err(WithError::Lost(lost)) = worked else {
        panic!("the work has outlived its lock: {worked:?}");
    };
    assert_eq!(lost.reason, LostReason::MaxHold);
    client.mutex(NAME).try_lock().unwrap().expect("it is free again").release().unwrap();
}

#[test]
fn tagged_lease_is_found_by_its_tag() {
    let client = Client::memory();
    let lease = client.mutex(NAME).lock().unwrap().detach().unwrap();
    let tag = LeaseTag::new([7; LeaseTag::LEN]);
    let lease = client.tag_lease(&lease, tag).unwrap();
    let found = client.tagged_leases([NAME]).unwrap();
    assert_eq!(found.iter().map(|it| (it.tag, &it.lease)).collect::<Vec<_>>(), [(tag, &lease)]);
    client.release_lease(&lease).unwrap();
    assert!(client.tagged_leases([NAME]).unwrap().is_empty());
}

#[test]
fn semaphore_has_at_most_max_permits() {
    let client = Client::memory();
    assert_eq!(Semaphore::MAX_PERMITS, quorate::Semaphore::MAX_PERMITS);
    let acquire = |permits| client.semaphore(NAME, permits).try_acquire();
    assert!(acquire(Semaphore::MAX_PERMITS).unwrap().is_some());
    assert!(acquire(Semaphore::MAX_PERMITS + 1).is_err());
}

#[test]
fn writers_and_permits_have_the_methods_of_the_guard_that_they_wrap() {
    fn name_of(guard: &impl AsRef<Guard>) -> &str {
        guard.as_ref().name()
    }
    let client = Client::memory();
    let writer = client.rwlock(NAME).write().unwrap();
    assert_eq!((writer.name(), writer.check()), (name_of(&writer), Ok(())));
    assert_eq!(Guard::from(writer).release(), Ok(()));
    let permit = client.semaphore(NAME, 1).acquire().unwrap();
    assert_eq!((permit.name(), permit.number()), (name_of(&permit), 1));
    assert!(permit.fence().is_some() && permit.verify().is_ok());
    drop(permit);
    let permits = client.semaphore(NAME, 2).acquire_many(2).unwrap();
    assert_eq!(permits.fence(&format!("{NAME}#3")), None);
    assert!(permits.extend(LONG).is_ok() && permits.remaining() > LONG / 2);
    let permits = permits.into_permits();
    assert_eq!(permits.iter().map(Permit::number).collect::<Vec<_>>(), [1, 2]);
}

/// A client that is patient with a busy machine.
fn connect(servers: &[Server]) -> Client {
    let settings =
        quorate::Client::builder().quarantine(false).nodes(servers.iter().map(Server::url));
    let client = settings.vote_timeout(PATIENCE).build().expect("the settings are valid");
    wait_until_attached(&client);
    Client::try_from(client).expect("it has a thread of its own")
}

fn use_everything(servers: &[Server]) {
    let client = connect(servers);
    assert_eq!(client.node_status().len(), servers.len());
    assert!(client.shutdown(PATIENCE).is_clean);

    let client = connect(servers);
    let mutex = client.mutex(NAME).ttl(LONG);
    let guard = mutex.lock().expect("it is free");
    assert_eq!(guard.name(), NAME);
    guard.check().expect("it is held");
    guard.verify().expect("a majority stores it");
    guard.extend(2 * LONG).expect("a majority stores it");
    assert!(guard.remaining() > LONG && !guard.loss_token().is_lost());

    assert!(mutex.try_lock().expect("a majority answers").is_none());
    // On a busy machine the nodes may not even have the time to report the holder.
    assert!(mutex.lock_timeout(Duration::from_millis(20)).is_err());
    assert!(client.inspect(NAME).expect("a majority answers").is_held());
    assert_eq!(client.locks("").all().expect("a majority answers").locks[0].name, NAME);
    let lease = guard.detach().unwrap();
    client.adopt(&lease).expect("the lease is detached").release().expect("it was held");

    let fixed = mutex.clone().no_renew().max_hold(LONG).lock_timeout(PATIENCE);
    drop(fixed.expect("it is free"));
    assert_eq!(mutex.with(|_| 42).expect("it is free soon"), 42);
    assert!(client.shutdown(PATIENCE).is_clean);
    assert!(matches!(mutex.lock().map(drop), Err(LockError::ShutDown)));
    assert!(servers.iter().all(|server| server.lock_keys().is_empty()));
}

const NAME: &str = "orders:42";
const THREADS: u64 = 4;
const INCREMENTS: u64 = 25;
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

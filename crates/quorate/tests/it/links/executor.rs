//! The smallest executor there is: what the library needs of its caller.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake},
    thread::{self, Thread},
    time::Duration,
};

use quorate::{
    Client, ClientBuilder, Guard, Mutex,
    error::{ConnectError, LockError},
    memory::MemoryNodes,
};
use quorate_testkit::Server;

/// Runs a future on this thread, without any runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn every_future_of_the_library_runs_without_a_runtime() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let mutex = client.mutex("orders:42");
    let guard = block_on(mutex.try_lock()).unwrap().unwrap();
    assert!(block_on(mutex.try_lock()).unwrap().is_none());
    assert!(block_on(mutex.lock_timeout(Duration::from_millis(20))).is_err());
    block_on(guard.verify()).unwrap();
    block_on(guard.extend(Duration::from_secs(20))).unwrap();
    block_on(guard.release()).unwrap();
    drop(block_on(mutex.lock()).unwrap());
    assert_eq!(block_on(mutex.with(async |_| 42)).unwrap(), 42);
    assert!(block_on(client.shutdown(Duration::from_secs(20))).is_clean);
    assert!(server.lock_keys().is_empty());
}

#[test]
fn everything_can_be_sent_to_and_shared_with_other_threads() {
    fn is_free<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(value: T) -> T {
        value
    }

    is_free::<ClientBuilder>();
    is_free::<Client>();
    is_free::<Mutex>();
    is_free::<Guard>();
    is_free::<LockError>();
    is_free::<ConnectError>();
    is_free::<MemoryNodes>();

    drop(is_send(Client::connect(["redis://127.0.0.1:1"])));
    let client = Client::memory();
    let mutex = client.mutex("orders:42");
    drop(is_send(mutex.try_lock()));
    drop(is_send(mutex.lock_timeout(Duration::ZERO)));
    drop(is_send(mutex.with(async |_| ())));
    let guard = block_on(is_send(mutex.lock())).unwrap();
    drop(is_send(guard.verify()));
    drop(is_send(guard.extend(Duration::ZERO)));
    block_on(is_send(guard.release())).unwrap();
    let _ = block_on(is_send(client.shutdown(Duration::ZERO)));
}

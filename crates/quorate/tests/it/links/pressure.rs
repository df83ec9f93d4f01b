//! More requests than the sockets hold: those that could not be written at once are sent later,
//! whole and in its order.

use std::{
    collections::HashSet,
    io::{BufReader, Write},
    net::TcpStream,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use quorate::Client;
use quorate_testkit::eventually;

use super::{
    executor::block_on,
    monitor::Call,
    strangers::peer::{Peer, plain_reply, read_command},
};
use crate::mode::Mode;

in_both_modes! {
    requests_that_do_not_fit_into_the_socket_keep_their_order,
}

fn requests_that_do_not_fit_into_the_socket_keep_their_order(mode: Mode) {
    let reader = Arc::new(SlowReader::default());
    let serving = reader.clone();
    let peer = Peer::start(move |stream| serving.serve(&stream));
    let client =
        mode.of(Client::builder().quarantine(false)).nodes([peer.url()]).vote_timeout(PATIENCE);
    let client = block_on(client.ttl(5 * PATIENCE).max_ttl(5 * PATIENCE).connect()).unwrap();
    for number in 0..CALLS {
        let mutex = client.mutex(name(number));
        drop(Box::pin(mutex.try_lock()).as_mut().poll(&mut Context::from_waker(Waker::noop())));
    }
    reader.go_on();

    eventually("every attempt is undone", PATIENCE, || reader.count(Kind::Undo) == CALLS);
    let commands = reader.state();
    let mut taken = HashSet::new();
    for (kind, name) in &commands.seen {
        match kind {
            Kind::Attempt => assert!(taken.insert(name), "an attempt is sent once"),
            Kind::Undo => assert!(taken.contains(name), "undone before it was made"),
        }
    }
    let attempts = commands.seen.iter().filter(|(kind, _)| *kind == Kind::Attempt);
    assert!(attempts.map(|(_, name)| name).eq(&(0..CALLS).map(name).collect::<Vec<_>>()));
    assert_eq!(peer.accepted(), 1, "on one connection");
}

/// A server that reads nothing after the attach until the test allows it.
#[derive(Default)]
struct SlowReader {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    may_read: bool,
    /// The kinds and names of all commands about locks.
    seen: Vec<(Kind, String)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Attempt,
    Undo,
}

impl SlowReader {
    fn serve(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(words) = read_command(&mut reader) {
            let call = Call::of(&words);
            let acquired = call.as_ref().map(Call::acquires).unwrap_or_default();
            let released = call.as_ref().map(Call::releases).unwrap_or_default();
            if words[0] == "SET" || !acquired.is_empty() {
                self.wait(stream);
            }
            if words[0] == "SET" {
                self.see(Kind::Attempt, &words[1]);
            }
            acquired.iter().for_each(|(name, _)| self.see(Kind::Attempt, name));
            released.iter().for_each(|(name, _)| self.see(Kind::Undo, name));
            if stream.write_all(plain_reply(&words).as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Sends something now and then, so that the link is not considered silent.
    fn wait(&self, mut stream: &TcpStream) {
        let mut state = self.state();
        while !state.may_read {
            stream.write_all(b">1\r\n+wait\r\n").expect("the client reads");
            let waited = self.changed.wait_timeout(state, BETWEEN_SIGNS);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn go_on(&self) {
        self.state().may_read = true;
        self.changed.notify_all();
    }

    fn see(&self, kind: Kind, name: &str) {
        self.state().seen.push((kind, name.to_owned()));
    }

    fn count(&self, kind: Kind) -> usize {
        self.state().seen.iter().filter(|(seen, _)| *seen == kind).count()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As long as a name can be, to fill the sockets with few calls.
fn name(number: usize) -> String {
    format!("{number:0>1024}")
}

/// Twice what a pair of sockets holds on a system with large buffers.
const CALLS: usize = 8_000;

const BETWEEN_SIGNS: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);

//! Requests are sent in the order in which they were made, and none is withdrawn.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::mpsc,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use quorate::Client;
use quorate_testkit::Server;

use super::executor::block_on;
use crate::mode::Mode;

in_both_modes! {
    dropped_calls_are_sent_in_order_and_none_is_lost,
    releases_follow_their_attempts_from_many_threads_at_a_time,
}

fn dropped_calls_are_sent_in_order_and_none_is_lost(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let monitor = Monitor::start(&server);
    for number in 0..CALLS {
        drop_after_first_poll(&client, &format!("lock:{number}"));
    }
    let seen = monitor.read_until_freed(CALLS);
    let expected: Vec<String> = (0..CALLS).map(|number| format!("lock:{number}")).collect();
    assert_eq!(seen.taken(), expected, "each attempt once, and in order");
    seen.assert_each_is_taken_before_it_is_freed();
    assert!(server.lock_keys().is_empty());
}

fn releases_follow_their_attempts_from_many_threads_at_a_time(mode: Mode) {
    let server = Server::start();
    let client =
        block_on(mode.of(Client::builder().quarantine(false)).nodes([server.url()]).connect())
            .unwrap();
    let monitor = Monitor::start(&server);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for number in 0..CALLS / THREADS {
                    let name = format!("lock:{thread}:{number}");
                    match number % 3 {
                        0 => drop_after_first_poll(client, &name),
                        1 => drop(block_on(client.mutex(&name).lock()).expect("it is free")),
                        _ => {
                            let guard = block_on(client.mutex(&name).lock()).expect("it is free");
                            block_on(guard.release()).expect("it is ours");
                        }
                    }
                }
            });
        }
    });
    let calls = CALLS / THREADS * THREADS;
    let seen = monitor.read_until_freed(calls);
    assert_eq!(seen.taken().len(), calls);
    seen.assert_each_is_taken_before_it_is_freed();
    assert!(server.lock_keys().is_empty());
}

fn drop_after_first_poll(client: &Client, name: &str) {
    let mutex = client.mutex(name);
    let mut call = Box::pin(mutex.try_lock());
    drop(call.as_mut().poll(&mut Context::from_waker(Waker::noop())));
}

/// A connection on which the server prints every command that it runs.
struct Monitor {
    lines: mpsc::Receiver<String>,
}

impl Monitor {
    fn start(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("the server is up");
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let (sender, lines) = mpsc::channel();
        let mut reader = BufReader::new(stream);
        let mut answer = String::new();
        reader.read_line(&mut answer).expect("the server answers");
        assert_eq!(answer.trim_end(), "+OK");
        // Ends with the server, or when the receiver is dropped.
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Reads until this many undos or releases have run.
    fn read_until_freed(self, calls: usize) -> Seen {
        let mut steps = Vec::new();
        let mut freed = 0;
        while freed < calls {
            let line = self.lines.recv_timeout(PATIENCE).expect("every attempt is freed");
            // The commands of scripts are printed as well, with "lua" as their source.
            if line.contains(" lua] ") {
                continue;
            }
            let words: Vec<String> =
                line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            let step = Step::of(&words);
            freed += usize::from(matches!(step, Some(Step::Free { .. })));
            steps.extend(step);
        }
        Seen { steps }
    }
}

/// A command about a lock.
enum Step {
    Take { name: String, owner: String },
    Free { name: String, owner: String },
}

impl Step {
    /// `None` for a command about the client itself: its ping.
    fn of(words: &[String]) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, owner, is_taken) = match words[..] {
            // In the default mode with the keys of the fence, of the queue and, for an acquire, of
            // the session.
            ["SET", name, owner, "NX", ..] | ["EVALSHA", _, "4", name, _, _, _, owner, ..] => {
                (name, owner, true)
            }
            ["EVALSHA", _, "1", name, owner] | ["EVALSHA", _, "3", name, _, _, owner] => {
                (name, owner, false)
            }
            ["EVALSHA", _, "1", session, _, _] if session.starts_with("quorate:s:") => return None,
            ref other => panic!("no other client uses this server: {other:?}"),
        };
        let (name, owner) = (name.to_owned(), owner.to_owned());
        Some(if is_taken { Self::Take { name, owner } } else { Self::Free { name, owner } })
    }
}

/// The commands that the server ran, in their order.
struct Seen {
    steps: Vec<Step>,
}

impl Seen {
    /// The names of all attempts.
    fn taken(&self) -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Take { name, .. } => Some(name.clone()),
            Step::Free { .. } => None,
        };
        self.steps.iter().filter_map(name).collect()
    }

    /// For each owner: one attempt, then one undo or release, of the same name.
    fn assert_each_is_taken_before_it_is_freed(&self) {
        let mut taken = HashMap::new();
        for step in &self.steps {
            match step {
                Step::Take { name, owner } => {
                    assert!(taken.insert(owner, name).is_none(), "an owner is used once");
                }
                Step::Free { name, owner } => {
                    assert_eq!(taken.remove(owner), Some(name), "freed before it was taken");
                }
            }
        }
        assert!(taken.is_empty(), "taken and not freed: {taken:?}");
    }
}

const CALLS: usize = 300;
const THREADS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

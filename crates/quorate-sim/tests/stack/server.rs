//! A server of the simulation: the core's store behind the bytes that the library's links speak.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use quorate_core::{command::ClientId, moment::NodeTime, store::Store};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
    task::spawn_local,
    time::sleep,
};
use turmoil::net::{TcpListener, TcpStream};

use crate::{
    language::{Script, Words, encode, next_request, take, text},
    line::{introduction, listener, message, subscribed},
    trace::{Trace, now},
};

/// One server. It outlives its process, as a disk does.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    store: RefCell<Store>,
    /// The scripts that the running process knows.
    scripts: RefCell<Vec<Script>>,
    manner: Cell<Manner>,
    manner_changed: Notify,
    /// Whether the store survives a restart of the process.
    is_durable: Cell<bool>,
    /// How much faster than true time this server's clock runs, in parts per million.
    fast_ppm: i64,
    runs: Cell<u32>,
    accepted: Cell<u32>,
    refused: Cell<u32>,
    /// Those who listen, and on which connection.
    listeners: RefCell<Vec<(ClientId, Rc<Outlet>)>>,
    trace: Trace,
}

/// What is to be written on one connection.
#[derive(Debug, Default)]
struct Outlet {
    text: RefCell<String>,
    told: Notify,
}

/// What a server does with requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Runs and answers them.
    Answer,
    /// Runs them, and answers so much later.
    Late(Duration),
    /// Takes connections and bytes in, and runs nothing until it goes on: a stopped process.
    Hang,
    /// Runs them and hangs up instead of answering.
    HangUp,
}

impl Node {
    pub(crate) fn new(number: usize, fast_ppm: i64, trace: &Trace) -> Rc<Self> {
        Rc::new(Self {
            number,
            store: RefCell::default(),
            scripts: RefCell::default(),
            manner: Cell::new(Manner::Answer),
            manner_changed: Notify::new(),
            is_durable: Cell::new(true),
            fast_ppm,
            runs: Cell::new(0),
            accepted: Cell::new(0),
            refused: Cell::new(0),
            listeners: RefCell::default(),
            trace: trace.clone(),
        })
    }

    pub(crate) fn host(number: usize) -> String {
        format!("node-{number}")
    }

    pub(crate) fn set(&self, manner: Manner) {
        self.manner.set(manner);
        self.manner_changed.notify_waiters();
    }

    /// Lets the store go with the next end of the process.
    pub(crate) fn forget_at_restart(&self) {
        self.is_durable.set(false);
    }

    /// Lets the process forget the scripts that were loaded.
    pub(crate) fn forget_scripts(&self) {
        self.scripts.borrow_mut().clear();
    }

    /// The names that are locked there at true time `at`.
    pub(crate) fn names(&self, at: Duration) -> Vec<String> {
        let names = self.store.borrow_mut().names(self.time(at));
        names.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn has(&self, name: &str, at: Duration) -> bool {
        self.names(at).iter().any(|known| known == name)
    }

    /// How many connections were accepted so far.
    pub(crate) fn accepted(&self) -> u32 {
        self.accepted.get()
    }

    /// How many requests were answered with an error that only a wrong client can cause.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.get()
    }

    /// The process: runs until the host crashes.
    pub(crate) async fn run(self: Rc<Self>) -> turmoil::Result {
        self.runs.set(self.runs.get() + 1);
        self.scripts.borrow_mut().clear();
        self.listeners.borrow_mut().clear();
        self.store.borrow_mut().hang_up_all();
        if !self.is_durable.get() {
            self.store.borrow_mut().clear();
        }
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            self.accepted.set(self.accepted.get() + 1);
            spawn_local(self.clone().serve(stream));
        }
    }

    /// Serves one connection until it breaks.
    async fn serve(self: Rc<Self>, mut stream: TcpStream) {
        let outlet = Rc::new(Outlet::default());
        let mut bytes = Vec::new();
        loop {
            tokio::select! {
                biased;
                read = stream.read_buf(&mut bytes) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                },
                () = outlet.told.notified() => {}
            }
            while self.manner.get() == Manner::Hang {
                self.manner_changed.notified().await;
            }
            while let Some((words, len)) = next_request(&bytes).expect("a client speaks RESP") {
                bytes.drain(..len);
                let reply = self.answer(&words, &outlet);
                outlet.text.borrow_mut().push_str(&reply);
            }
            match self.manner.get() {
                Manner::Answer | Manner::Hang => {}
                Manner::Late(delay) => sleep(delay).await,
                Manner::HangUp => break,
            }
            let text = outlet.text.take();
            if stream.write_all(text.as_bytes()).await.is_err() {
                break;
            }
        }
        self.close(&outlet);
    }

    /// Nobody listens on this connection any more.
    fn close(&self, outlet: &Rc<Outlet>) {
        let mut listeners = self.listeners.borrow_mut();
        let closed = listeners.extract_if(.., |(_, it)| Rc::ptr_eq(it, outlet)).collect::<Vec<_>>();
        for (client, _) in closed {
            if !listeners.iter().any(|(other, _)| *other == client) {
                self.store.borrow_mut().hang_up(client);
            }
        }
    }

    fn answer(&self, words: &Words, outlet: &Rc<Outlet>) -> String {
        let (verb, rest) = words.split_first().expect("a request has a verb");
        match (verb.to_ascii_uppercase().as_slice(), rest) {
            (b"HELLO", [version, ..]) if version == b"3" => "%1\r\n+proto\r\n:3\r\n".into(),
            (b"INFO", [section]) if section == b"server" => {
                text(&format!("# Server\r\nrun_id:{:020}{:020}\r\n", self.number, self.runs.get()))
            }
            (b"INFO", [section]) if section == b"replication" => {
                text("# Replication\r\nrole:master\r\n")
            }
            (b"INFO", [section]) if section == b"memory" => text("# Memory\r\nmaxmemory:0\r\n"),
            (b"TIME", []) => {
                // What is asked later must be later, also where no time passes.
                let micros = self.time(now()).as_micros() - 1;
                let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
                format!("*2\r\n{}{}", text(&seconds.to_string()), text(&micros.to_string()))
            }
            (b"PUBLISH", [_, _]) => ":1\r\n".into(),
            // Nodes are not guarded here, so that there is no record.
            (b"HMGET", [_, field]) if field == b"change" => "*1\r\n_\r\n".into(),
            (b"SCRIPT", [load, script]) if load == b"LOAD" => match Script::by_text(script) {
                Some(script) => {
                    self.learn(script);
                    text(&script.digest())
                }
                None => self.refuse(words),
            },
            (b"EVALSHA", [digest, rest @ ..]) => match Script::by_digest(digest) {
                Some(script) if self.scripts.borrow().contains(&script) => {
                    self.run_script(script, words, rest)
                }
                Some(_) | None => "-NOSCRIPT No matching script.\r\n".into(),
            },
            (b"EVAL", [script, rest @ ..]) => match Script::by_text(script) {
                Some(script) => {
                    self.learn(script);
                    self.run_script(script, words, rest)
                }
                None => self.refuse(words),
            },
            (b"SUBSCRIBE", [channel]) => match listener(channel) {
                Some(client) => {
                    self.listeners.borrow_mut().push((client, outlet.clone()));
                    self.store.borrow_mut().listen(client);
                    subscribed(channel)
                }
                None => self.refuse(words),
            },
            (b"SET" | b"GET", rest) => match take(rest).or_else(|| introduction(words)) {
                Some(command) => self.apply("plain", &command, rest),
                None => self.refuse(words),
            },
            _ => self.refuse(words),
        }
    }

    fn run_script(&self, script: Script, words: &Words, rest: &[Vec<u8>]) -> String {
        match script.command(rest) {
            Some(command) => self.apply(&format!("{script:?}"), &command, rest),
            None => self.refuse(words),
        }
    }

    fn apply(
        &self,
        verb: &str,
        command: &quorate_core::command::Command,
        rest: &[Vec<u8>],
    ) -> String {
        let reply = self.store.borrow_mut().apply(self.time(now()), command);
        let words: Vec<_> = rest.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let (number, words) = (self.number, words.join(" "));
        self.trace.add(format_args!("node-{number} {verb} {words} -> {reply:?}"));
        for push in self.store.borrow_mut().take_pushes() {
            self.trace.add(format_args!("node-{number} tells {push:?}"));
            let listeners = self.listeners.borrow();
            for (_, outlet) in listeners.iter().filter(|(client, _)| *client == push.client) {
                outlet.text.borrow_mut().push_str(&message(&push));
                outlet.told.notify_one();
            }
        }
        encode(command, &reply)
    }

    fn learn(&self, script: Script) {
        let mut scripts = self.scripts.borrow_mut();
        if !scripts.contains(&script) {
            scripts.push(script);
        }
    }

    fn refuse(&self, words: &Words) -> String {
        self.refused.set(self.refused.get() + 1);
        let verb = String::from_utf8_lossy(&words[0]);
        self.trace.add(format_args!("node-{} does not know {verb}", self.number));
        format!("-ERR unknown command '{verb}'\r\n")
    }

    /// This server's clock at true time `at`.
    fn time(&self, at: Duration) -> NodeTime {
        let true_us = i64::try_from(at.as_micros()).expect("simulations are short");
        let skew_us = true_us * self.fast_ppm / 1_000_000;
        NodeTime::from_micros(EPOCH_US + (true_us + skew_us).cast_unsigned())
    }
}

/// Where every server listens.
pub(crate) const PORT: u16 = 6379;

/// A server's clock shows the date, and not the age of the simulation.
const EPOCH_US: u64 = 1_700_000_000_000_000;

//! A server of the simulation: the core's store behind the bytes that the library's links speak.

mod memory;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Command},
    moment::NodeTime,
    name::Name,
    store::Store,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
    task::spawn_local,
    time::sleep,
};
use turmoil::net::{TcpListener, TcpStream};

pub(crate) use self::memory::Keeps;
use self::memory::Memory;
use crate::{
    language::{Script, Words, encode, name, next_request, take, text},
    network::{Pipe, Wires},
    queue::{listener, message, subscribed, who},
    trace::{Trace, now},
};

/// One server. It outlives its process, as a disk does.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    store: RefCell<Store>,
    memory: Memory,
    /// The scripts that the running process knows.
    scripts: RefCell<Vec<Script>>,
    manner: Cell<Manner>,
    manner_changed: Notify,
    /// How much faster than true time this server's clock runs, in parts per million.
    fast_ppm: i64,
    /// How far its clock is ahead of true time.
    ahead_us: Cell<i64>,
    accepted: Cell<u32>,
    refused: Cell<u32>,
    /// The listeners, and their connections.
    listeners: RefCell<Vec<(ClientId, Rc<Outlet>)>>,
    wires: Wires,
    trace: Trace,
}

/// The bytes that must be written to one connection.
#[derive(Debug, Default)]
struct Outlet {
    text: RefCell<String>,
    written: Notify,
}

/// What a server does with requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Runs and answers them.
    Answer,
    /// Runs them, and answers this much later.
    Late(Duration),
    /// Accepts connections and bytes, and runs nothing until it continues: a stopped process.
    Hang,
    /// Runs them and hangs up instead of answering.
    HangUp,
    /// Runs none of them, and answers each with an error.
    Busy,
}

impl Node {
    pub(crate) fn new(number: usize, fast_ppm: i64, wires: &Wires, trace: &Trace) -> Rc<Self> {
        Rc::new(Self {
            number,
            store: RefCell::default(),
            memory: Memory::default(),
            scripts: RefCell::default(),
            manner: Cell::new(Manner::Answer),
            manner_changed: Notify::new(),
            fast_ppm,
            ahead_us: Cell::new(0),
            accepted: Cell::new(0),
            refused: Cell::new(0),
            listeners: RefCell::default(),
            wires: wires.clone(),
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

    /// The server is full from now on, or is not any more.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.store.borrow_mut().set_full(is_full);
    }

    /// Lets the process forget the scripts that were loaded.
    pub(crate) fn forget_scripts(&self) {
        self.scripts.borrow_mut().clear();
    }

    /// Lets the process forget the scripts that acquire a lock, and no other.
    pub(crate) fn forget_how_to_acquire(&self) {
        let acquires = |script: &Script| matches!(script, Script::Acquire | Script::SetKey);
        self.scripts.borrow_mut().retain(|script| !acquires(script));
    }

    /// The names that are locked there at true time `at`.
    pub(crate) fn names(&self, at: Duration) -> Vec<String> {
        let names = self.store.borrow_mut().names(self.time(at));
        names.iter().map(ToString::to_string).collect()
    }

    /// The names of locks with waiters there at true time `at`.
    pub(crate) fn queues(&self, at: Duration) -> Vec<String> {
        let names = self.store.borrow_mut().queued_names(self.time(at));
        names.iter().map(ToString::to_string).collect()
    }

    /// How many wait for the lock there.
    pub(crate) fn waiters(&self, lock: &str) -> usize {
        let name = name(lock.as_bytes()).expect("a valid name");
        self.store.borrow().lock_state(&name).queue.map_or(0, |queue| queue.value.len())
    }

    pub(crate) fn has(&self, name: &str, at: Duration) -> bool {
        self.names(at).iter().any(|known| known == name)
    }

    /// How many wait for a lock there at true time `at`.
    pub(crate) fn waits_for(&self, name: &str, at: Duration) -> usize {
        let name = Name::parse(name, "").expect("a name");
        self.store.borrow_mut().details(self.time(at), &name).waiting.len()
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
        self.scripts.borrow_mut().clear();
        self.listeners.borrow_mut().clear();
        self.recall();
        self.store.borrow_mut().unsubscribe_all();
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
        let mut pipe: Option<Arc<Pipe>> = None;
        loop {
            let is_broken = async {
                match &pipe {
                    Some(pipe) => pipe.broken().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = is_broken => {
                    self.run_stragglers(pipe.as_deref().expect("it is broken"), &outlet).await;
                    break;
                }
                read = stream.read_buf(&mut bytes) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                },
                () = outlet.written.notified() => {}
            }
            self.awake().await;
            if pipe.is_none() {
                pipe = stream.peer_addr().ok().and_then(|peer| self.wires.from(peer));
            }
            if pipe.as_ref().is_some_and(|pipe| pipe.is_broken()) {
                continue;
            }
            let len = self.run_requests(&bytes, &outlet);
            bytes.drain(..len);
            pipe.iter().for_each(|pipe| pipe.handle_run(len));
            match self.manner.get() {
                Manner::Answer | Manner::Hang | Manner::Busy => {}
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

    /// Waits while the process is stopped.
    async fn awake(&self) {
        while self.manner.get() == Manner::Hang {
            self.manner_changed.notified().await;
        }
    }

    /// Runs all whole requests, and returns their length.
    fn run_requests(&self, bytes: &[u8], outlet: &Rc<Outlet>) -> usize {
        let mut len = 0;
        while let Some((words, more)) = next_request(&bytes[len..]).expect("a client speaks RESP") {
            len += more;
            let reply = self.answer(&words, outlet);
            outlet.text.borrow_mut().push_str(&reply);
        }
        len
    }

    /// Runs the bytes that were in flight when the client's end broke: later, behind requests of
    /// newer connections. The replies are lost. The server notices the end only after that.
    async fn run_stragglers(&self, pipe: &Pipe, outlet: &Rc<Outlet>) {
        let (bytes, delay) = pipe.stragglers();
        sleep(delay).await;
        self.awake().await;
        if !bytes.is_empty() {
            self.trace.add(format_args!("node-{} receives data of an old connection", self.number));
            self.run_requests(&bytes, outlet);
        }
    }

    /// This connection no longer listens.
    fn close(&self, outlet: &Rc<Outlet>) {
        let mut listeners = self.listeners.borrow_mut();
        let closed = listeners.extract_if(.., |(_, it)| Rc::ptr_eq(it, outlet)).collect::<Vec<_>>();
        for (client, _) in closed {
            if !listeners.iter().any(|(other, _)| *other == client) {
                self.store.borrow_mut().unsubscribe(client);
            }
        }
    }

    fn answer(&self, words: &Words, outlet: &Rc<Outlet>) -> String {
        if self.manner.get() == Manner::Busy {
            return "-BUSY Redis is busy running a script.\r\n".into();
        }
        let (verb, rest) = words.split_first().expect("a request has a verb");
        match (verb.to_ascii_uppercase().as_slice(), rest) {
            (b"HELLO", [version, ..]) if version == b"3" => "%1\r\n+proto\r\n:3\r\n".into(),
            (b"INFO", [section]) => match self.info(section) {
                Some(info) => text(&info),
                None => self.refuse(words),
            },
            (b"CONFIG", [get, setting]) if get == b"GET" => match self.setting(setting) {
                Some((setting, value)) => format!("%1\r\n{}{}", text(setting), text(value)),
                None => self.refuse(words),
            },
            (b"TIME", []) => {
                // A later request must have a later time, even if no time has passed.
                let micros = self.time(now()).as_micros() - 1;
                let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
                format!("*2\r\n{}{}", text(&seconds.to_string()), text(&micros.to_string()))
            }
            (b"PUBLISH", [_, _]) => ":1\r\n".into(),
            (b"HMGET", [_, field]) if field == b"change" => {
                match self.store.borrow().membership.origin() {
                    Some(_) => format!("*1\r\n{}", text("1")),
                    None => "*1\r\n_\r\n".into(),
                }
            }
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
                    self.store.borrow_mut().subscribe(client);
                    subscribed(channel)
                }
                None => self.refuse(words),
            },
            (b"SET", rest) => self.run_plain(take(rest), words),
            (b"GET", [key]) => self.run_plain(who(key), words),
            _ => self.refuse(words),
        }
    }

    fn run_plain(&self, command: Option<Command>, words: &Words) -> String {
        match command {
            Some(command) => self.apply("plain", &command, &words[1..]),
            None => self.refuse(words),
        }
    }

    fn run_script(&self, script: Script, words: &Words, rest: &[Vec<u8>]) -> String {
        match script.command(rest) {
            Some(command) => self.apply(&format!("{script:?}"), &command, rest),
            None => self.refuse(words),
        }
    }

    fn apply(&self, verb: &str, command: &Command, rest: &[Vec<u8>]) -> String {
        if let Command::Introduce { client, who, .. } = command {
            self.trace.call(client.to_string(), who.to_string());
        }
        let reply = self.store.borrow_mut().apply(self.time(now()), command);
        let words: Vec<_> = rest.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let (number, words) = (self.number, words.join(" "));
        self.trace.add(format_args!("node-{number} {verb} {words} -> {reply:?}"));
        for push in self.store.borrow_mut().take_pushes() {
            self.trace.add(format_args!("node-{number} pushes {push:?}"));
            let listeners = self.listeners.borrow();
            for (_, outlet) in listeners.iter().filter(|(client, _)| *client == push.client) {
                outlet.text.borrow_mut().push_str(&message(&push));
                outlet.written.notify_one();
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
        NodeTime::from_micros((EPOCH_US + true_us + skew_us + self.ahead_us.get()).cast_unsigned())
    }
}

/// Where every server listens.
pub(crate) const PORT: u16 = 6379;

/// A server's clock shows the date, and not the age of the simulation.
pub(crate) const EPOCH_US: i64 = 1_700_000_000_000_000;

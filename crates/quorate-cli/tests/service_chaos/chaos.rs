//! Five servers and three instances.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    process::{self, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use quorate::{blocking, error::NodeAnswer};
use quorate_testkit::{Server, eventually};
use tempfile::TempDir;

use crate::fixture::{Instance, PATIENCE};

/// The instances share only the servers.
pub(crate) struct Fixture {
    instances: Vec<Mutex<Instance>>,
    /// The address of each instance, which a restart keeps.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) servers: Vec<Server>,
    /// Servers that are crashing, or do not vote yet.
    away: Mutex<Vec<usize>>,
    watcher: blocking::Client,
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        let servers = Server::builder().append_only().start_many(SERVERS);
        let folder = tempfile::tempdir().expect("a folder");
        // Durable nodes vote immediately after a restart with their data. Other nodes go into
        // quarantine: a short max_ttl makes it short.
        let settings = format!("durable_nodes = true\nmax_ttl = \"{}ms\"\n", MAX_TTL.as_millis());
        fs::write(folder.path().join("config.toml"), settings).expect("a file");
        let admitted = quorate(&folder, &servers, &["nodes", "admit"]).status().expect("it runs");
        assert!(admitted.success(), "{admitted}");
        let watcher = quorate::Client::builder()
            .nodes(servers.iter().map(Server::url))
            .durable_nodes(true)
            .max_ttl(MAX_TTL)
            .ttl(MAX_TTL)
            .build();
        let watcher = watcher.map(blocking::Client::try_from).expect("valid settings");
        let mut fixture = Self {
            instances: Vec::new(),
            addresses: Vec::new(),
            servers,
            away: Mutex::default(),
            watcher: watcher.expect("it has a thread of its own"),
            folder,
        };
        for _ in 0..INSTANCES {
            let instance = fixture.start_instance((own_address(), 0).into());
            fixture.addresses.push(instance.address);
            fixture.instances.push(Mutex::new(instance));
        }
        fixture
    }

    /// An instance that listens there.
    pub(crate) fn start_instance(&self, address: SocketAddr) -> Instance {
        let address = address.to_string();
        let args = ["serve", "--listen", &address, "--grace", "2s"];
        let instance = Instance::start(&mut quorate(&self.folder, &self.servers, &args));
        instance.await_ready();
        instance
    }

    /// Acts on an instance exclusively.
    pub(crate) fn with_instance(&self, number: usize, action: impl FnOnce(&mut Instance)) {
        action(&mut self.instances[number].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All instances serve.
    pub(crate) fn await_ready(&self) {
        for instance in &self.instances {
            instance.lock().unwrap_or_else(PoisonError::into_inner).await_ready();
        }
    }

    /// Chooses a server to crash, which is not chosen again before it is [`back`](Self::back).
    pub(crate) fn choose_server(&self, mut choose: impl FnMut() -> usize) -> usize {
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let number = choose();
            if !away.contains(&number) {
                away.push(number);
                return number;
            }
        }
    }

    pub(crate) fn back(&self, number: usize) {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| *it != number);
    }

    /// The connections to a server have ended.
    pub(crate) fn await_gone(&self, number: usize) {
        eventually("a client notices that the server is gone", PATIENCE, || !self.votes(number));
    }

    pub(crate) fn votes(&self, number: usize) -> bool {
        self.watcher.node_status()[number].answer == NodeAnswer::Attached
    }
}

fn quorate(folder: &TempDir, servers: &[Server], args: &[&str]) -> Command {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder.path()).env("QUORATE_CONFIG", folder.path().join("config.toml"));
    command.env("QUORATE_NODES", urls.join(",")).stdin(Stdio::null()).stdout(Stdio::null());
    command.args(args);
    command
}

/// A loopback address that no other test uses, so that the port of an instance stays free while it
/// is down.
fn own_address() -> Ipv4Addr {
    let [_, _, high, low] = process::id().to_be_bytes();
    Ipv4Addr::new(127, 84, high, low)
}

const SERVERS: usize = 5;
const INSTANCES: usize = 3;
const MAX_TTL: Duration = Duration::from_secs(2);

//! The processes that are compared: `quorate serve` and etcd. Both may use all cores.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    time::Duration,
};

use quorate_testkit::Server;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{http::Http, text_of};

/// One `quorate serve` on these servers.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Service {
    pub(crate) async fn start(servers: &[Server]) -> Self {
        let own = env::current_exe().expect("this program has a path");
        let mut command = Command::new(own.with_file_name("quorate"));
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--max-rate",
            "0",
            "--max-waits",
            "100000",
        ]);
        for server in servers {
            command.args(["--node", &server.url()]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it is built beside this");
        free(&child);
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line =
            lines.find_map(|line| Some(line.ok()?.split_once("listening on ")?.1.to_owned()));
        let url = line.expect("it says where it listens");
        let address = url.trim_start_matches("http://").parse().expect("an address");
        let service = Self { child, address };
        service.ready().await;
        service
    }

    /// Waits until a majority of the nodes votes.
    async fn ready(&self) {
        loop {
            let mut http = Http::connect(self.address).await;
            let acquired = http.try_send("POST", "/v1/locks/ready/acquire", "{}").await;
            if let Some(acquired) = acquired {
                let path = format!("/v1/leases/{}", text_of(&acquired, "lease_id"));
                http.send("DELETE", &path, "").await;
                return;
            }
        }
    }

    /// Its memory.
    pub(crate) fn resident_kib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("every process has one").parse().expect("a number")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A cluster of etcd, with its data on the disk as it is meant to be.
pub(crate) struct Etcd {
    members: Vec<Child>,
    addresses: Vec<SocketAddr>,
    _folder: tempfile::TempDir,
}

impl Etcd {
    pub(crate) async fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let addresses: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect();
        let peers: Vec<String> = (0..count).map(|_| format!("http://{}", free_address())).collect();
        let named: Vec<String> =
            peers.iter().enumerate().map(|(member, url)| format!("{member}={url}")).collect();
        let start = |member: usize| {
            let (url, peers) = (format!("http://{}", addresses[member]), &peers[member]);
            let mut command = Command::new("etcd");
            command.args(["--name", &member.to_string(), "--initial-cluster", &named.join(",")]);
            command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
            command.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
            command.arg("--data-dir").arg(folder.path().join(member.to_string()));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let child = child.expect("etcd runs: install Debian's package etcd-server");
            free(&child);
            child
        };
        let members = (0..count).map(start).collect();
        for address in &addresses {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
        let etcd = Self { members, addresses, _folder: folder };
        etcd.ready().await;
        etcd
    }

    /// Waits until the members have a leader.
    async fn ready(&self) {
        let mut http = Http::connect(self.addresses[0]).await;
        while http.try_send("POST", "/v3/lease/grant", r#"{"TTL":600}"#).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A client with a lease, which it keeps. Clients are spread over the members.
    pub(crate) async fn client(&self, number: usize) -> EtcdClient {
        let mut http = Http::connect(self.addresses[number % self.addresses.len()]).await;
        let lease = http.send("POST", "/v3/lease/grant", r#"{"TTL":600}"#).await;
        let lease = text_of(&lease, "ID").to_owned();
        // Any eight digits are the base64 of some six bytes.
        let name = format!("{number:08}");
        EtcdClient { http, request: format!(r#"{{"name":"{name}","lease":"{lease}"}}"#) }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(end);
    }
}

/// One connection to etcd's JSON gateway.
pub(crate) struct EtcdClient {
    http: Http,
    request: String,
}

impl EtcdClient {
    pub(crate) async fn pair(&mut self) {
        let locked = self.http.send("POST", "/v3/lock/lock", &self.request).await;
        let key = text_of(&locked, "key");
        self.http.send("POST", "/v3/lock/unlock", &format!(r#"{{"key":"{key}"}}"#)).await;
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it listens")
}

/// A child is on the core of this process unless it is let go.
fn free(child: &Child) {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    let pid = rustix::process::Pid::from_child(child);
    sched_setaffinity(Some(pid), &all).expect("it is ours");
}

fn end(child: &mut Child) {
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
}

//! Instances of `quorate serve`, and requests to them.

// Other test binaries include this file by path and use parts of it.
#[path = "fixture/wire.rs"]
mod wire;

use std::{
    cell::Cell,
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use quorate_testkit::{Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::{Agent, http};

pub(crate) use self::wire::{Event, Events, Sent};

/// Instances of the service that share only the nodes, or a folder.
pub(crate) struct Fixture {
    pub(crate) instances: Vec<Instance>,
    pub(crate) servers: Vec<Server>,
    folder: TempDir,
    next: Cell<usize>,
}

impl Fixture {
    /// Two instances with local locks.
    pub(crate) fn local() -> Self {
        Self::start(0, 2, &[])
    }

    /// Two instances on this many servers, which vote.
    pub(crate) fn nodes(servers: usize) -> Self {
        Self::start(servers, 2, &[])
    }

    /// Every property of the API holds on each of these.
    pub(crate) fn of_each_kind() -> [Self; 3] {
        [Self::local(), Self::nodes(1), Self::nodes(3)]
    }

    /// Runs a slow test on each of these concurrently.
    pub(crate) fn on_each_kind(test: impl Fn(Self) + Sync) {
        thread::scope(|scope| {
            for fixture in Self::of_each_kind() {
                let test = &test;
                scope.spawn(move || test(fixture));
            }
        });
    }

    /// Starts instances with these arguments on this number of servers. Without servers the locks
    /// are local.
    pub(crate) fn start(servers: usize, instances: usize, args: &[&str]) -> Self {
        let servers = Server::start_many(servers);
        let folder = tempfile::tempdir().expect("a folder");
        let mut fixture = Self { instances: Vec::new(), servers, folder, next: Cell::new(0) };
        if fixture.servers.len() >= 3 {
            let admitted = fixture.quorate(&["nodes", "admit"]).status().expect("it runs");
            assert!(admitted.success(), "{admitted}");
        }
        for _ in 0..instances {
            fixture.add(args);
        }
        fixture
    }

    /// One more instance, which is ready.
    pub(crate) fn add(&mut self, args: &[&str]) -> &Instance {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let instance = Instance::start(&mut self.quorate(&args));
        instance.await_ready();
        self.instances.push(instance);
        self.instances.last().expect("just added")
    }

    /// The binary with these arguments, on the locks of this fixture.
    pub(crate) fn quorate(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("QUORATE_DIR", self.path("locks"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        if !self.servers.is_empty() {
            let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
            command.env("QUORATE_NODES", urls.join(","));
        }
        command.args(args);
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The next instance in rotation: any instance must handle the leases of another one.
    pub(crate) fn any(&self) -> &Instance {
        let number = self.next.replace(self.next.get() + 1);
        &self.instances[number % self.instances.len()]
    }

    /// Acquires a lock through the next instance, and again if too few nodes answered: without a
    /// wait, they have only 50 ms to answer, which can be too short on a busy machine.
    pub(crate) fn acquire(&self, name: &str, request: &Value) -> Response {
        let mut response = self.any().acquire(name, request);
        eventually("the nodes answer", PATIENCE, || {
            let is_answered = response.body["code"] != "no_quorum";
            if !is_answered {
                response = self.any().acquire(name, request);
            }
            is_answered
        });
        response
    }

    /// Renews a lease through the next instance.
    pub(crate) fn renew(&self, lease_id: &str) -> Response {
        self.any().send("POST", &format!("/v1/leases/{lease_id}/renew"), &[], None)
    }

    /// Downgrades a write lease through the next instance.
    pub(crate) fn downgrade(&self, lease_id: &str) -> Response {
        self.any().send("POST", &format!("/v1/leases/{lease_id}/downgrade"), &[], None)
    }

    /// Releases a lease through the next instance.
    pub(crate) fn release(&self, lease_id: &str) -> Response {
        self.any().send("DELETE", &format!("/v1/leases/{lease_id}"), &[], None)
    }

    /// The response of the next instance for a path.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.any().send("GET", path, &[], None)
    }

    /// Waits until this many requests wait for the lock.
    #[track_caller]
    pub(crate) fn await_waiting(&self, name: &str, count: u64) {
        let is_so = || self.get(&format!("/v1/locks/{name}")).body["waiting"] == json!(count);
        eventually(&format!("{count} wait for {name}"), PATIENCE, is_so);
    }
}

/// One process. It is killed when the test ends.
pub(crate) struct Instance {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    stderr: Arc<Mutex<String>>,
    agent: Agent,
}

impl Instance {
    /// Starts the command, and waits until it listens.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let (sender, receiver) = mpsc::channel();
        let stderr = Arc::new(Mutex::new(String::new()));
        let lines_so_far = stderr.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("listening on ") {
                    // In JSON messages the text ends with a quote.
                    let url = url.trim_end_matches("\"}");
                    // The test may have ended.
                    let _ = sender.send(url.to_owned());
                }
                let mut lines_so_far = lines_so_far.lock().expect("no panic");
                lines_so_far.push_str(&line);
                lines_so_far.push('\n');
            }
        });
        let url = receiver.recv_timeout(PATIENCE);
        let url = url.unwrap_or_else(|_| panic!("it does not listen: {}", stderr.lock().unwrap()));
        let address = url.rsplit('/').next().and_then(|it| it.parse().ok()).expect("an address");
        let config = Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(PATIENCE)).build().into();
        Self { child, address, url, stderr, agent }
    }

    #[track_caller]
    pub(crate) fn await_ready(&self) {
        let is_ready = || match self.url.starts_with("https") {
            true => true,
            false => self.send("GET", "/readyz", &[], None).status == 200,
        };
        eventually("a majority of the nodes votes", PATIENCE, is_ready);
    }

    /// What it has written to standard error.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    pub(crate) fn acquire(&self, name: &str, request: &Value) -> Response {
        self.acquire_with(name, &[], request)
    }

    pub(crate) fn acquire_with(
        &self,
        name: &str,
        headers: &[(&str, &str)],
        request: &Value,
    ) -> Response {
        let path = format!("/v1/locks/{name}/acquire");
        self.send("POST", &path, headers, Some(request.to_string().as_bytes()))
    }

    /// Sends a request, and returns the response whatever its status is.
    #[track_caller]
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        let sent = self.try_send(method, path, headers, body);
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.stderr()))
    }

    /// The same; the instance may have been killed.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Response, ureq::Error> {
        let mut request =
            http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.agent.run(request.body(body)?)
            }
            None => self.agent.run(request.body(())?),
        };
        Response::read(response?)
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it is there");
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Stops it, and waits until all of its threads are stopped.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        eventually("all threads stand still", PATIENCE, || {
            let tasks = std::fs::read_dir(&tasks).expect("it is there");
            tasks.flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                // The name before the state can contain anything.
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        });
    }

    /// Waits for its end, and returns its exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the instance ends", PATIENCE, || {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
    /// The body as JSON; null if it is not JSON.
    pub(crate) body: Value,
}

impl Response {
    fn read(mut response: http::Response<ureq::Body>) -> Result<Self, ureq::Error> {
        let text = response.body_mut().read_to_string()?;
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = response.headers().iter().map(header).collect();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Ok(Self { status: response.status().as_u16(), headers, text, body })
    }

    #[track_caller]
    pub(crate) fn assert_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// A problem with this status and code, in the form of RFC 9457.
    #[track_caller]
    pub(crate) fn assert_problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        assert!(self.body["detail"].is_string() && self.body["title"].is_string(), "{self:?}");
        self
    }

    /// The id of the lease that was acquired.
    #[track_caller]
    pub(crate) fn lease_id(&self) -> String {
        self.body["lease_id"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.body[field].as_u64().unwrap_or_else(|| panic!("{field}: {self:?}"))
    }
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

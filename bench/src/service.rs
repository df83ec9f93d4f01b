//! Acquire and release through `quorate serve`, beside the library on the same nodes and beside the
//! lock of an etcd cluster with as many members.

mod http;
mod process;

use std::{cell::RefCell, rc::Rc, time::Instant};

use quorate::Client;
use quorate_testkit::Server;
use rustix::process::Resource;
use tokio::sync::Mutex;

use self::{
    http::Http,
    process::{Etcd, Service},
};
use crate::{
    setup::{Plan, VOTE_TIMEOUT, pairs_per_second, servers},
    table::{high, line, median, ratio},
};

/// Compares at each of these numbers of nodes; at one and three if none is given.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    raise_file_limit();
    let plan = Plan { rounds: if quick { 2 } else { 7 }, ..Plan::new(quick) };
    line("Pairs of acquire and release, nobody else wants the lock.\n");
    line(
        "| nodes | clients | library, pairs/s | service / library | service / etcd | \
         p99 library, ms | p99 service, ms | p99 etcd, ms |",
    );
    line("|---|---|---|---|---|---|---|---|");
    for count in if nodes.is_empty() { &[1, 3] } else { nodes } {
        let servers = servers(*count).await;
        let service = Service::start(&servers).await;
        let etcd = Etcd::start(*count).await;
        for clients in [1, 64, 1_000] {
            compare(&servers, &service, &etcd, clients, &plan).await;
        }
    }
    memory(if quick { 500 } else { 5_000 }).await;
}

/// Every client has two connections.
fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(Resource::Nofile, limit)
        .expect("up to the maximum it can be raised");
}

async fn compare(servers: &[Server], service: &Service, etcd: &Etcd, clients: usize, plan: &Plan) {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    // As the service does: with a thousand callers on one core an answer takes its time.
    let client = Client::builder().nodes(&urls).vote_timeout(VOTE_TIMEOUT).connect().await;
    let client = client.expect("the servers are up");
    let mut of_service = Vec::new();
    let mut of_etcd = Vec::new();
    for number in 0..clients {
        of_service.push(Rc::new(Mutex::new(Http::connect(service.address).await)));
        of_etcd.push(Rc::new(Mutex::new(etcd.client(number).await)));
    }
    let (mut library, mut over_http, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let times = [(); 3].map(|()| Rc::new(RefCell::new(Vec::new())));
    for round in 0..=plan.rounds {
        let pairs = pairs_per_second(clients, plan.time, |task| {
            let (mutex, times) = (client.mutex(format!("bench:{task}")), times[0].clone());
            async move || {
                let started = Instant::now();
                let guard = mutex.try_lock().await.expect("servers answer").expect("nobody else");
                guard.release().await.expect("servers answer");
                times.borrow_mut().push(started.elapsed().as_secs_f64() * 1e3);
            }
        });
        let ours = pairs.await;
        let pairs = pairs_per_second(clients, plan.time, |task| {
            let (http, times) = (of_service[task].clone(), times[1].clone());
            let path = format!("/v1/locks/bench:{task}/acquire");
            async move || {
                let started = Instant::now();
                pair(&mut *http.lock().await, &path).await;
                times.borrow_mut().push(started.elapsed().as_secs_f64() * 1e3);
            }
        });
        let served = pairs.await;
        let pairs = pairs_per_second(clients, plan.time, |task| {
            let (etcd, times) = (of_etcd[task].clone(), times[2].clone());
            async move || {
                let started = Instant::now();
                etcd.lock().await.pair().await;
                times.borrow_mut().push(started.elapsed().as_secs_f64() * 1e3);
            }
        });
        let theirs = pairs.await;
        // The first round warms up.
        match round {
            0 => times.iter().for_each(|times| times.borrow_mut().clear()),
            _ => {
                library.push(ours);
                over_http.push(served);
                others.push(theirs);
            }
        }
    }
    let [ours, served, theirs] = times.map(|times| high(&times.borrow()));
    line(&format!(
        "| {} | {clients} | {:.0} | {} | {} | {ours:.1} | {served:.1} | {theirs:.1} |",
        servers.len(),
        median(&library),
        ratio(&over_http, &library),
        ratio(&over_http, &others),
    ));
}

async fn pair(http: &mut Http, path: &str) {
    let acquired = http.send("POST", path, "{}").await;
    let lease = text_of(&acquired, "lease_id");
    http.send("DELETE", &format!("/v1/leases/{lease}"), "").await;
}

/// The text of a field of a flat JSON object.
fn text_of<'a>(json: &'a str, field: &str) -> &'a str {
    let start = json.find(&format!("\"{field}\":")).expect("the field is there") + field.len() + 3;
    json[start..].split('"').nth(1).expect("it is a text")
}

/// What a client costs the service that waits for a lock and does nothing else.
async fn memory(waiters: usize) {
    let servers = servers(1).await;
    let service = Service::start(&servers).await;
    let mut holder = Http::connect(service.address).await;
    let body = r#"{"ttl_ms":60000}"#;
    holder.send("POST", "/v1/locks/bench/acquire", body).await;
    let before = service.resident_kib();
    let mut waiting = Vec::new();
    for _ in 0..waiters {
        let mut http = Http::connect(service.address).await;
        let body = r#"{"ttl_ms":60000,"wait_ms":60000}"#;
        http.start("POST", "/v1/locks/bench/acquire", body).await;
        waiting.push(http);
    }
    loop {
        let lock = holder.send("GET", "/v1/locks/bench", "").await;
        if lock.contains(&format!("\"waiting\":{waiters}")) {
            break;
        }
        tokio::task::yield_now().await;
    }
    let each = (service.resident_kib() - before) / waiters as f64;
    line(&format!("\n{waiters} waiters of one lock: {each:.1} KiB of the service each."));
}

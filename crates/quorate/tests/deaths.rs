//! Processes that want one lock, or one of two permits, are killed and stopped: the holder and the
//! next waiter. Nodes are killed, and restarted without their data.
//!
//! The processes record what they believe, and the record is checked at the end: no two held the
//! lock, or the same permit, at a time, and every fence was larger than those before.

use std::{path::Path, process::ExitCode, time::Duration};

use quorate::{Client, ClientBuilder, Guard, error::NodeAnswer};
use quorate_core::queue::Position;
use quorate_testkit::{
    Server, admit, eventually,
    history::{Moment, Until},
    processes::{self, Contenders, Outcome, PATIENCE, print_line},
    redis::cmd,
};

fn main() -> ExitCode {
    processes::run("deaths", contend, |_| {
        for wanted in [Wanted::Lock, Wanted::Permit] {
            for nodes in [1, 3] {
                run_case(wanted, &Server::start_many(nodes));
            }
        }
    })
}

fn settings(urls: impl IntoIterator<Item = impl AsRef<str>>) -> ClientBuilder {
    // A restarted node does not vote for at least the longest ttl.
    Client::builder().nodes(urls).ttl(TTL).max_ttl(TTL)
}

/// Panics if a promise was broken, or if the lock was not acquired again.
fn run_case(wanted: Wanted, servers: &[Server]) {
    admit(servers, settings(servers.iter().map(Server::url)));
    let mut fixture = Fixture::start(wanted, servers);
    for round in 0..ROUNDS {
        for fate in [Fate::HolderKilled, Fate::NextKilled, Fate::HolderStopped] {
            let after = fixture.strike(fate);
            print_line(&format!(
                "{wanted:?}: {fate:?}, round {round}: acquired again after {after:?}"
            ));
        }
    }
    // The test reads the holder from the first node, which therefore stays.
    for (number, node) in servers.iter().enumerate().skip(1) {
        let after = fixture.go_on_after(|_| node.kill());
        print_line(&format!("a node killed: acquired again after {after:?}"));
        let after = fixture.strike(Fate::HolderKilled);
        print_line(&format!("HolderKilled without that node: acquired again after {after:?}"));
        node.restart_empty();
        let after = fixture.strike(Fate::HolderKilled);
        print_line(&format!(
            "HolderKilled while that node is quarantined: acquired again after {after:?}"
        ));
        fixture.wait_until_voting(number);
    }
    let history = fixture.contenders.end();
    history.assert_kept(Until::Believed);
    let locks = history.claims().iter().map(|claim| claim.lock.as_str());
    let strange: Vec<&str> = locks.filter(|lock| !wanted.locks().contains(lock)).collect();
    assert_eq!(strange, [""; 0], "more permits than there are");
    let report = history.report();
    print_line(&format!(
        "{wanted:?}, nodes: {}; {} claims, none overlapped, all fences grew; longest wait {:?}",
        servers.len(),
        report.claims(),
        report.longest_wait(),
    ));
}

/// What the contenders want.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wanted {
    Lock,
    Permit,
}

impl Wanted {
    fn parse(text: &str) -> Self {
        let known = [Self::Lock, Self::Permit];
        known.into_iter().find(|it| it.as_str() == text).expect("one of the two")
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Permit => "permit",
        }
    }

    /// What can be held.
    const fn locks(self) -> &'static [&'static str] {
        match self {
            Self::Lock => &[LOCK],
            Self::Permit => &["round#1", "round#2"],
        }
    }

    async fn get(self, client: &Client) -> Result<Guard, quorate::error::LockError> {
        match self {
            Self::Lock => client.mutex(LOCK).lock_timeout(PATIENCE).await,
            Self::Permit => {
                let permit = client.semaphore(LOCK, PERMITS).acquire_timeout(PATIENCE).await;
                permit.map(Guard::from)
            }
        }
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    HolderKilled,
    NextKilled,
    HolderStopped,
}

/// The contenders, and their servers.
struct Fixture<'a> {
    wanted: Wanted,
    servers: &'a [Server],
    contenders: Contenders,
}

impl<'a> Fixture<'a> {
    fn start(wanted: Wanted, servers: &'a [Server]) -> Self {
        let mut fixture = Self { wanted, servers, contenders: Contenders::new() };
        (0..CONTENDERS).for_each(|_| fixture.add());
        fixture.go_on_after(|_| {});
        fixture
    }

    fn add(&mut self) {
        let urls = self.servers.iter().map(Server::url);
        let args = [self.wanted.as_str().to_owned()].into_iter().chain(urls);
        self.contenders.start(CONTENDER, args);
    }

    /// Lets it happen, and returns how long it took until another process acquired the lock.
    fn strike(&mut self, fate: Fate) -> Duration {
        let mut stopped = None;
        let after = self.go_on_after(|fixture| {
            let victim = fixture.find(fate);
            match fate {
                Fate::HolderKilled | Fate::NextKilled => {
                    fixture.contenders.kill(&victim);
                }
                Fate::HolderStopped => {
                    fixture.contenders.stop(&victim);
                    stopped = Some(victim);
                }
            }
        });
        match stopped {
            Some(victim) => self.contenders.resume(&victim),
            None => self.add(),
        }
        after
    }

    /// The name of the process to which it happens.
    fn find(&self, fate: Fate) -> String {
        let mut found = None;
        eventually("there is such a process", PATIENCE, || {
            let owner = match fate {
                Fate::HolderKilled | Fate::HolderStopped => {
                    self.servers[0].get(self.wanted.locks()[0])
                }
                Fate::NextKilled => match self.wanted {
                    Wanted::Lock => first_in_queue(&self.servers[0]),
                    // The first waiter for a permit holds a lock for that.
                    Wanted::Permit => self.servers[0].get("round#queue"),
                },
            };
            let client = owner.and_then(|owner| Position::of(&owner)).map(|place| place.client);
            let who = client.and_then(|it| self.servers[0].get(format!("quorate:w:{it}")));
            found = who.map(|who| String::from_utf8_lossy(&who).into_owned());
            found.as_ref().is_some_and(|name| self.contenders.is_running(name))
        });
        found.expect("waited for")
    }

    /// Waits until the lock is acquired often again, and returns the time until the first time.
    fn go_on_after(&mut self, happening: impl FnOnce(&mut Self)) -> Duration {
        let before = Moment::now();
        happening(self);
        self.contenders.wait_for_claims(before, CONTENDERS * 2)
    }

    /// Waits until a restarted node votes again.
    fn wait_until_voting(&self, node: usize) {
        let client = settings(self.servers.iter().map(Server::url)).build();
        let client = client.expect("they are valid");
        eventually("the node votes again", PATIENCE, || {
            client.node_status()[node].answer == NodeAnswer::Attached
        });
    }
}

fn first_in_queue(server: &Server) -> Option<Vec<u8>> {
    let mut connection = server.connection();
    let line = format!("quorate:q:{{{LOCK}}}");
    let first = cmd("ZRANGE").arg(line).arg(0).arg(0).query::<Vec<Vec<u8>>>(&mut connection);
    first.expect("the server answers").into_iter().next()
}

/// What a contender does.
fn contend(_: &str, args: &[&str]) -> Outcome {
    let [name, folder, wanted, urls @ ..] = args else {
        return Err(format!("not for a contender: {args:?}").into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(take_turns(Wanted::parse(wanted), name, Path::new(folder), urls))
}

async fn take_turns(wanted: Wanted, name: &str, folder: &Path, urls: &[&str]) -> Outcome {
    let client = settings(urls).who(name).connect().await?;
    let recorder = processes::recorder(folder);
    while !processes::must_stop(folder) {
        let request = (wanted == Wanted::Lock).then(|| recorder.ask(name, LOCK));
        let guard = wanted.get(&client).await?;
        // Only now the permit is known.
        let request = request.unwrap_or_else(|| recorder.ask(name, guard.name()));
        let valid_until = Moment::now().after(guard.remaining());
        let fence = guard.fence().ok_or("there is a fence in this mode")?.get();
        let holding = request.acquired(Some(fence), Some(valid_until));
        // Work that takes a while, so that the process can be killed while it holds the lock.
        for _ in 0..CHECKS {
            let _ = guard.verify().await;
        }
        match guard.check() {
            Ok(()) => holding.released(),
            Err(_) => holding.lost(),
        }
        drop(guard);
    }
    Ok(())
}

const CONTENDER: &str = "contender";
const CONTENDERS: usize = 5;
const ROUNDS: usize = 3;
const LOCK: &str = "round";
const PERMITS: u32 = 2;

/// The lock of a killed holder expires after this.
const TTL: Duration = Duration::from_millis(600);

/// How often a holder asks the nodes whether it still holds the lock.
const CHECKS: u32 = 40;

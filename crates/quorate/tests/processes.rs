//! Three processes add to one counter in a file, each with several tasks, under one lock.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use quorate::{Client, Guard, error::ReleaseError};
use quorate_testkit::{
    Server, admit, eventually,
    processes::{self, Child, Outcome, command, print_line},
};

/// Why a contender failed. It is another process, so the text is enough.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    processes::run("processes", contend, |_| {
        let deadline = Instant::now() + TIME_MAX;
        let servers = Server::start_many(3);
        for nodes in [1, 3] {
            run_case(&servers[..nodes], deadline);
        }
    })
}

/// Panics if the counter is wrong at the end.
fn run_case(servers: &[Server], deadline: Instant) {
    let folder = tempfile::tempdir().expect("a folder for the counter");
    let counter = Counter(folder.path().join("counter"));
    counter.write(&Count::default()).expect("the counter is written");
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    servers.iter().for_each(Server::flush_all);
    admit(servers, Client::builder().nodes(&urls));

    // The test holds the lock until every contender is ready, so that they really contend.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let gate = runtime.block_on(close_gate(&urls));
    let mut contenders = Contenders::start(&counter, &urls);
    let left = || deadline.saturating_duration_since(Instant::now());
    eventually("every contender is ready", left(), || {
        contenders.assert_none_failed();
        counter.ready_files() == CONTENDERS
    });
    runtime.block_on(gate.release()).expect("the lock was held until now");
    eventually("every contender is done", left(), || {
        contenders.assert_none_failed();
        contenders.are_done()
    });

    let Count { value, handoffs, .. } = counter.read().expect("the counter is whole");
    let expected = CONTENDERS as u64 * TASKS * INCREMENTS;
    let nodes = servers.len();
    assert_eq!(value, expected, "increments were lost with {nodes} nodes");
    assert!(handoffs > CONTENDERS as u64, "they ran one after the other: {handoffs} handoffs");
    print_line(&format!(
        "{CONTENDERS} processes, nodes: {nodes}; {value} of {expected} increments, {handoffs} \
         hand-offs between processes"
    ));
}

async fn close_gate(urls: &[String]) -> Guard {
    let client = Client::builder().nodes(urls).build().expect("the settings are valid");
    client.mutex(LOCK).ttl(TIME_MAX).lock().await.expect("the lock is free")
}

/// The processes.
struct Contenders(Vec<Child>);

impl Contenders {
    fn start(counter: &Counter, urls: &[String]) -> Self {
        let start = |_| Child::start(command("contender").arg(&counter.0).args(urls));
        Self((0..CONTENDERS).map(start).collect())
    }

    fn assert_none_failed(&mut self) {
        for child in &mut self.0 {
            if let Some(status) = child.ended() {
                assert!(status.success(), "a contender has failed: {status}");
            }
        }
    }

    fn are_done(&mut self) -> bool {
        self.0.iter_mut().all(|child| child.ended().is_some())
    }
}

/// What a contender does.
fn contend(_: &str, args: &[&str]) -> Outcome {
    let [file, urls @ ..] = args else {
        return Err("a contender needs the file of the counter".into());
    };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(increment_all(Path::new(file), urls))
}

async fn increment_all(file: &Path, urls: &[&str]) -> Outcome {
    let client = Client::connect(urls).await?;
    Counter(file.to_owned()).mark_ready()?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(increment(client.clone(), Counter(file.to_owned())));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn increment(client: Client, counter: Counter) -> Outcome {
    let mutex = client.mutex(LOCK);
    for _ in 0..INCREMENTS {
        let guard = mutex.lock().await?;
        let old = counter.read()?;
        // Where another task would get in if it could.
        tokio::task::yield_now().await;
        guard.check()?;
        let writer = std::process::id();
        let handoffs = old.handoffs + u64::from(old.writer != writer);
        counter.write(&Count { value: old.value + 1, handoffs, writer })?;
        match guard.release().await {
            // A node that is slow to confirm is asked again in the background.
            Ok(()) | Err(ReleaseError::NoQuorum { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A file that is read and written back: two writers at once would lose an increment.
struct Counter(PathBuf);

/// The content of the file.
#[derive(Default)]
struct Count {
    value: u64,
    /// How often the writer was another process than the one before.
    handoffs: u64,
    /// The process that wrote last.
    writer: u32,
}

impl Counter {
    fn read(&self) -> Result<Count, Failure> {
        let text = fs::read_to_string(&self.0)?;
        let words: Vec<&str> = text.split(' ').collect();
        let [value, handoffs, writer] = words[..] else {
            return Err(format!("another process is writing: {text:?}").into());
        };
        let (value, handoffs) = (value.parse()?, handoffs.parse()?);
        Ok(Count { value, handoffs, writer: writer.parse()? })
    }

    fn write(&self, count: &Count) -> Outcome {
        let Count { value, handoffs, writer } = count;
        Ok(fs::write(&self.0, format!("{value} {handoffs} {writer}"))?)
    }

    /// Leaves a file beside the counter, which the test counts.
    fn mark_ready(&self) -> Outcome {
        Ok(fs::write(self.0.with_extension(std::process::id().to_string()), "")?)
    }

    fn ready_files(&self) -> usize {
        let folder = self.0.parent().expect("the counter is in a folder");
        let files = fs::read_dir(folder).expect("the folder is there").count();
        files - 1
    }
}

const CONTENDERS: usize = 3;
const LOCK: &str = "counter";
const TASKS: u64 = 8;
const INCREMENTS: u64 = 50;

/// For all of it. What is not done then is killed.
const TIME_MAX: Duration = Duration::from_secs(60);

//! Three processes add to one counter in a file, each with several tasks, under one lock.
//!
//! The program starts itself again as each contender. It has no test harness, so that a contender
//! is a plain process with one purpose; what `cargo test` hands over is understood or ignored.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode},
    time::{Duration, Instant},
};

use quorate::{Client, Guard, error::ReleaseError};
use quorate_testkit::{Server, eventually};

/// Why a contender failed. It is another process, so all that is needed is the text.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if let [CONTENDER, file, urls @ ..] = &*args.iter().map(String::as_str).collect::<Vec<_>>() {
        return contend(Path::new(file), urls);
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("processes: test");
        }
        return ExitCode::SUCCESS;
    }
    let deadline = Instant::now() + TIME_MAX;
    let servers = Server::start_many(3);
    for nodes in [1, 3] {
        run_case(&servers[..nodes], deadline);
    }
    ExitCode::SUCCESS
}

/// Panics if the counter is wrong at the end.
fn run_case(servers: &[Server], deadline: Instant) {
    let folder = tempfile::tempdir().expect("a folder for the counter");
    let counter = Counter(folder.path().join("counter"));
    counter.write(&Count::default()).expect("the counter is written");
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    servers.iter().for_each(Server::flush_all);

    // Held until everybody is there, so that they really contend.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let gate = runtime.block_on(close_gate(&urls)).expect("the lock is free");
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
    say(&format!(
        "{CONTENDERS} processes, nodes: {nodes}; {value} of {expected} increments, {handoffs} \
         hand-offs between processes"
    ));
}

async fn close_gate(urls: &[String]) -> Result<Guard, Failure> {
    // The first who comes lets the new servers vote.
    let client = Client::builder().nodes(urls).build()?;
    if urls.len() >= 3 {
        client.admit().await?;
    }
    Ok(client.mutex(LOCK).ttl(TIME_MAX).lock().await?)
}

/// The processes, which do not outlive the test.
struct Contenders(Vec<Child>);

impl Contenders {
    fn start(counter: &Counter, urls: &[String]) -> Self {
        let program = env::current_exe().expect("the path of this program");
        let start = |_| {
            let mut command = Command::new(&program);
            command.arg(CONTENDER).arg(&counter.0).args(urls);
            command.spawn().expect("the program starts itself")
        };
        Self((0..CONTENDERS).map(start).collect())
    }

    fn assert_none_failed(&mut self) {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait().expect("the state of a child") {
                assert!(status.success(), "a contender has failed: {status}");
            }
        }
    }

    fn are_done(&mut self) -> bool {
        self.0.iter_mut().all(|child| child.try_wait().is_ok_and(|ended| ended.is_some()))
    }
}

impl Drop for Contenders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The life of a contender.
fn contend(file: &Path, urls: &[&str]) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(increment_all(file, urls)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&format!("contender {}: {failure}", std::process::id()));
            ExitCode::FAILURE
        }
    }
}

async fn increment_all(file: &Path, urls: &[&str]) -> Result<(), Failure> {
    let client = Client::connect(urls).await?;
    Counter(file.to_owned()).say_ready()?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(increment(client.clone(), Counter(file.to_owned())));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn increment(client: Client, counter: Counter) -> Result<(), Failure> {
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

/// A file that is read and written back: two at once would lose an increment.
struct Counter(PathBuf);

/// What stands in the file.
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
            return Err(format!("somebody else is writing: {text:?}").into());
        };
        let (value, handoffs) = (value.parse()?, handoffs.parse()?);
        Ok(Count { value, handoffs, writer: writer.parse()? })
    }

    fn write(&self, count: &Count) -> Result<(), Failure> {
        let Count { value, handoffs, writer } = count;
        Ok(fs::write(&self.0, format!("{value} {handoffs} {writer}"))?)
    }

    /// Leaves a file beside the counter, for the test to see.
    fn say_ready(&self) -> Result<(), Failure> {
        Ok(fs::write(self.0.with_extension(std::process::id().to_string()), "")?)
    }

    fn ready_files(&self) -> usize {
        let folder = self.0.parent().expect("the counter is in a folder");
        let files = fs::read_dir(folder).expect("the folder is there").count();
        files - 1
    }
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "there is no harness that says how it went")]
fn complain(line: &str) {
    eprintln!("{line}");
}

const CONTENDER: &str = "--contender";
const CONTENDERS: usize = 3;
const LOCK: &str = "counter";
const TASKS: u64 = 8;
const INCREMENTS: u64 = 50;

/// For all of it. What is not done by then is killed.
const TIME_MAX: Duration = Duration::from_secs(60);

//! A worker: it acquires, holds, records and releases, until it must stop.
//!
//! Responsible for what a process believes: a claim begins after a lock was acquired, ends before
//! its release begins, and is never longer than the remaining time of its guard.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use quorate::{
    Client, Guard, GuardAll, Mutex,
    error::{DowngradeError, LockError, VerifyError},
};
use quorate_testkit::{
    history::{Holding, How, Moment, Recorder, Request},
    processes::{self, Outcome, PATIENCE},
};

use super::{Primitive, TTL, dice::Dice, fixture::Memory};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a worker is started with.
pub(crate) struct Task {
    primitive: Primitive,
    memory: Memory,
    seed: u64,
    name: String,
    folder: PathBuf,
    urls: Vec<String>,
}

impl Task {
    pub(crate) fn parse(args: &[&str]) -> Self {
        let [name, folder, primitive, memory, seed, urls @ ..] = args else {
            panic!("no task: {args:?}");
        };
        Self {
            primitive: Primitive::parse(primitive),
            memory: Memory::parse(memory),
            seed: seed.parse().expect("a number"),
            name: (*name).to_owned(),
            folder: Path::new(folder).to_owned(),
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        }
    }
}

pub(crate) fn work(task: &Task) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(take_turns(task))
}

async fn take_turns(task: &Task) -> Outcome {
    let client = task.memory.settings(&task.urls).who(&task.name).build()?;
    let recorder = processes::recorder(&task.folder);
    let dice = Dice::of(task.seed, &task.name);
    let mut worker = Worker { client, recorder, dice, name: task.name.clone() };
    while !processes::must_stop(&task.folder) {
        match task.primitive {
            Primitive::Mutex => worker.mutex(LOCK).await?,
            Primitive::RwLock => worker.rwlock().await?,
            Primitive::Reentrant => worker.reentrant().await?,
            Primitive::Sets => worker.sets().await?,
            Primitive::Semaphore => worker.semaphore().await?,
        }
    }
    // What was dropped is released in the background.
    let _ = worker.client.shutdown(PATIENCE).await;
    Ok(())
}

struct Worker {
    client: Client,
    recorder: Recorder,
    dice: Dice,
    name: String,
}

impl Worker {
    async fn mutex(&mut self, name: &str) -> Outcome {
        let mutex = self.client.mutex(name);
        if let Some(held) = self.enter(&mutex, name, How::Alone).await? {
            self.hold_and_release(held).await;
        }
        Ok(())
    }

    async fn read(&mut self) -> Outcome {
        let request = self.recorder.ask_as(&self.name, LOCK, How::Reader);
        let guard = self.client.rwlock(LOCK).read_timeout(self.patience()).await;
        if let Some(guard) = unless_in_vain(guard)? {
            self.hold_and_release(Held::one(request, guard.into_guard())).await;
        }
        Ok(())
    }

    async fn rwlock(&mut self) -> Outcome {
        if self.dice.is_one_in(2) {
            return self.read().await;
        }
        let request = self.recorder.ask(&self.name, LOCK);
        let guard = self.client.rwlock(LOCK).write_timeout(self.patience()).await;
        let Some(writer) = unless_in_vain(guard)? else { return Ok(()) };
        let valid_until = Moment::now().after(writer.remaining());
        let fence = writer.fence().ok_or("writers have fences")?.get();
        let holding = request.acquired(Some(fence), Some(valid_until));
        for _ in 0..self.dice.below(CHECKS) {
            let _ = writer.verify().await;
            extend(&holding, || writer.remaining());
        }
        if self.dice.is_one_in(2) {
            let guard = Guards::One(writer.into_guard());
            self.release(Held { guard, holding }).await;
            return Ok(());
        }
        // The claim ends right before: then others may read, but none writes until it is done.
        holding.released();
        let request = self.recorder.ask_as(&self.name, LOCK, How::Reader);
        match writer.downgrade().await {
            Ok(reader) => {
                let valid_until = Moment::now().after(reader.remaining());
                let holding = request.kept(None, Some(valid_until));
                self.hold_and_release(Held { guard: Guards::One(reader.into_guard()), holding })
                    .await;
                Ok(())
            }
            Err(DowngradeError::Lost(_) | DowngradeError::NoQuorum { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Mostly entries, some of them nested; each is released by itself, in any order.
    async fn reentrant(&mut self) -> Outcome {
        match self.dice.below(8) {
            0 => return self.mutex(LOCK).await,
            1 => return self.read().await,
            _ => {}
        }
        let identity = self.dice.pick(&["job 1", "job 2"]);
        let mutex = self.client.mutex(LOCK).reentrant(identity);
        let mut entries = Vec::new();
        for _ in 0..=self.dice.below(3) {
            let Some(held) = self.enter(&mutex, LOCK, How::Entry(identity.to_owned())).await?
            else {
                break;
            };
            self.hold(&held).await;
            entries.push(held);
        }
        self.dice.shuffle(&mut entries);
        for held in entries {
            self.release(held).await;
        }
        Ok(())
    }

    /// Pairs and triples of four names, or one of the names alone.
    async fn sets(&mut self) -> Outcome {
        let mut names = ["set-a", "set-b", "set-c", "set-d"];
        self.dice.shuffle(&mut names);
        let size = 1 + self.dice.below(3);
        if size == 1 {
            return self.mutex(names[0]).await;
        }
        let names = &names[..size];
        let request = self.recorder.ask_all(&self.name, &names.join(" "), How::Alone, size);
        let guard = self.client.mutex_all(names).lock_timeout(self.patience()).await;
        let Some(guard) = unless_in_vain(guard)? else { return Ok(()) };
        if !guard.guards().iter().all(|guard| names.contains(&guard.name())) {
            return Err(format!("others than {names:?}: {guard:?}").into());
        }
        self.hold_and_release(Held::all(request, guard)).await;
        Ok(())
    }

    /// Every call names another size.
    async fn semaphore(&mut self) -> Outcome {
        let of: u32 = self.dice.pick(&[2, 3, 4]);
        let count = self.dice.pick(&[1, 1, 2, 3]).min(of);
        let (semaphore, patience) = (self.client.semaphore(LOCK, of), self.patience());
        let how = How::Permit { semaphore: LOCK.to_owned(), of };
        let size = usize::try_from(count)?;
        let request = self.recorder.ask_all(&self.name, LOCK, how, size);
        let guard = semaphore.acquire_many_timeout(count, patience).await;
        let Some(guard) = unless_in_vain(guard)? else { return Ok(()) };
        let known: Vec<String> = (1..=of).map(|number| format!("{LOCK}#{number}")).collect();
        if !guard.guards().iter().all(|guard| known.iter().any(|name| name == guard.name())) {
            return Err(format!("others than {known:?}: {guard:?}").into());
        }
        self.hold_and_release(Held::all(request, guard.into_guard())).await;
        Ok(())
    }

    async fn enter(
        &mut self,
        mutex: &Mutex,
        name: &str,
        how: How,
    ) -> Result<Option<Held>, Failure> {
        let request = self.recorder.ask_as(&self.name, name, how);
        let guard = mutex.lock_timeout(self.patience()).await;
        Ok(unless_in_vain(guard)?.map(|guard| Held::one(request, guard)))
    }

    /// Now and then it gives up soon, while it waits or is just about to get it.
    fn patience(&mut self) -> Duration {
        match self.dice.is_one_in(6) {
            true => Duration::from_millis(u64::try_from(self.dice.below(40)).unwrap_or(0)),
            false => PATIENCE / 4,
        }
    }

    async fn hold_and_release(&mut self, held: Held) {
        self.hold(&held).await;
        self.release(held).await;
    }

    /// Work that takes a while, so that faults hit holders. Now and then it takes longer than a
    /// lease.
    async fn hold(&mut self, held: &Held) {
        let until = self.dice.is_one_in(20).then(|| Moment::now().after(TTL + TTL / 2));
        let mut checks = self.dice.below(CHECKS);
        while checks > 0 || until.is_some_and(|until| Moment::now() < until) {
            checks = checks.saturating_sub(1);
            if let Err(VerifyError::Lost(_)) = held.guard.verify().await {
                return;
            }
            extend(&held.holding, || held.guard.remaining());
        }
    }

    async fn release(&mut self, held: Held) {
        let Held { guard, holding } = held;
        match guard.remaining().is_zero() {
            true => holding.lost(),
            false => holding.released(),
        }
        match self.dice.is_one_in(4) {
            // In the background.
            true => drop(guard),
            // It may be lost, and it goes on if too few nodes answer.
            false => guard.release().await,
        }
    }
}

/// What is held, and its claim in the history.
struct Held {
    guard: Guards,
    holding: Holding,
}

impl Held {
    fn one(request: Request, guard: Guard) -> Self {
        let valid_until = Moment::now().after(guard.remaining());
        let fence = guard.fence().map(|it| it.get());
        let holding = request.acquired(fence, Some(valid_until));
        Self { guard: Guards::One(guard), holding }
    }

    fn all(request: Request, guard: GuardAll) -> Self {
        let valid_until = Moment::now().after(guard.remaining());
        let member = |guard: &Guard| (guard.name().to_owned(), guard.fence().map(|it| it.get()));
        let members: Vec<(String, Option<u64>)> = guard.guards().iter().map(member).collect();
        let members = members.iter().map(|(name, fence)| (name.as_str(), *fence));
        let holding = request.acquired_all(members, Some(valid_until));
        Self { guard: Guards::All(guard), holding }
    }
}

enum Guards {
    One(Guard),
    All(GuardAll),
}

impl Guards {
    fn remaining(&self) -> Duration {
        match self {
            Self::One(guard) => guard.remaining(),
            Self::All(guard) => guard.remaining(),
        }
    }

    async fn verify(&self) -> Result<(), VerifyError> {
        match self {
            Self::One(guard) => guard.verify().await,
            Self::All(guard) => guard.verify().await,
        }
    }

    async fn release(self) {
        let _ = match self {
            Self::One(guard) => guard.release().await,
            Self::All(guard) => guard.release().await,
        };
    }
}

/// A worker may be stopped at any point here, and so the clock is read before the guard is asked.
fn extend(holding: &Holding, remaining: impl FnOnce() -> Duration) {
    let now = Moment::now();
    let remaining = remaining();
    // A lost lease has ended some time before.
    if !remaining.is_zero() {
        holding.extended(now.after(remaining));
    }
}

/// During a fault a call may time out or reach too few nodes. No other failure is expected.
fn unless_in_vain<T>(got: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match got {
        Ok(got) => Ok(Some(got)),
        Err(LockError::Timeout { .. } | LockError::NoQuorum { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

const LOCK: &str = "round";

/// How often a holder asks the nodes whether it still holds the lock, at the most.
const CHECKS: usize = 12;

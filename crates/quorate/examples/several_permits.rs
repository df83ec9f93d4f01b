//! Jobs of different sizes share a pool of GPUs: each acquires as many permits as it needs, all or
//! none, and the large ones are not starved by the small ones.
//!
//! Run with: cargo run --example several_permits

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use quorate::{Client, memory::MemoryNodes};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let nodes = MemoryNodes::new(3);
    let busy = Arc::new(AtomicU32::new(0));
    let mut jobs = JoinSet::new();
    for (number, size) in [1, 1, 4, 2, 1, 3, 4, 1].into_iter().enumerate() {
        let client = Client::builder().memory(&nodes).who(format!("job {number}")).build()?;
        let busy = busy.clone();
        jobs.spawn(async move {
            let gpus = client.semaphore("gpus", GPUS);
            let permits = gpus.acquire_many(size).await?;
            let now = busy.fetch_add(size, Ordering::SeqCst) + size;
            assert!(now <= GPUS, "{now} are in use");
            permits.check()?; // before the work: are all of them still held?
            tokio::task::yield_now().await;
            busy.fetch_sub(size, Ordering::SeqCst);
            let used: Vec<u32> = permits.numbers().collect();
            say(&format!("job {number} used the GPUs {used:?}"));
            permits.release().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(ended) = jobs.join_next().await {
        ended??;
    }
    let client = Client::builder().memory(&nodes).build()?;
    let all = client.semaphore("gpus", GPUS).try_acquire_many(GPUS).await?;
    assert!(all.is_some(), "every job has released its permits");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

const GPUS: u32 = 4;

//! A job whose steps acquire the same lock again: each step works alone as well, and does not know
//! whether its caller holds the lock already.
//!
//! Run with: cargo run --example reentrant

use std::error::Error;

use quorate::{Client, fence::Fenced, memory::MemoryNodes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let nodes = MemoryNodes::new(3);
    let ledger = Fenced::new(0);
    // Two processes of one job: both know its name.
    let client = |who: &str| Client::builder().memory(&nodes).who(who).identity("import 7").build();
    let (job, step) = (client("job")?, client("step")?);
    let other = Client::builder().memory(&nodes).who("another job").build()?;

    let outer = job.mutex("ledger").reentrant(job.identity()).lock().await?;
    add(&step, &ledger, 10).await?;
    add(&step, &ledger, 20).await?;
    assert!(other.mutex("ledger").try_lock().await?.is_none());
    say("another job waits until the last entry is released");

    let inner = step.mutex("ledger").reentrant(step.identity()).lock().await?;
    outer.release().await?;
    let report = other.inspect("ledger").await?;
    let identity = report.holder.and_then(|holder| holder.identity);
    say(&format!("the outer entry is released, and {identity:?} still holds the lock"));
    assert!(other.mutex("ledger").try_lock().await?.is_none());
    inner.release().await?;

    let guard = other.mutex("ledger").lock().await?;
    let fence = guard.fence().ok_or("only classic mode has none")?;
    say(&format!("the ledger: {}", ledger.access(fence, |sum| *sum)?));
    guard.release().await?;
    Ok(())
}

/// One step. It acquires the lock itself, no matter which code calls it.
async fn add(
    client: &Client,
    ledger: &Fenced<i64>,
    amount: i64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let guard = client.mutex("ledger").reentrant(client.identity()).lock().await?;
    // Its own fence: it is never smaller than that of the outer entry.
    let fence = guard.fence().ok_or("only classic mode has none")?;
    guard.check()?;
    ledger.access(fence, |sum| *sum += amount)?;
    say(&format!("added {amount}"));
    guard.release().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

//! A fixed lease that one process takes and another one gives back.
//!
//! Run with: cargo run --example handover

use std::time::Duration;

use quorate::{Client, DetachedLease, memory::MemoryNodes};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(3);
    let front = Client::builder().memory(&nodes).who("front").build()?;
    let worker = Client::builder().memory(&nodes).who("worker").build()?;

    // The front end takes the lock, and must end before the work does.
    let guard = front.mutex("video:9").ttl(Duration::from_secs(30)).no_renew().lock().await?;
    let line = guard.detach().await?.expose_secret();
    println!("the front end leaves the lease of {:?} in a queue", "video:9");

    // The worker finds it there.
    let lease: DetachedLease = line.parse()?;
    let guard = worker.adopt(&lease).await?;
    println!("the worker has it for {:?} more", guard.remaining());
    guard.release().await?;
    println!("the worker gives it back");
    println!("it is free: {}", front.mutex("video:9").try_lock().await?.is_some());
    Ok(())
}

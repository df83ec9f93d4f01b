//! Two workers and one lock, without any server: prints what happens and ends by itself.
//!
//! Run with: cargo run --example quickstart

use std::time::Duration;

use quorate::{
    Client,
    memory::{Behaviour, MemoryNodes},
};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Five nodes inside this process. For servers: Client::connect(["redis://10.0.0.1", …]).await?
    let nodes = MemoryNodes::new(5);
    let alice = Client::builder().memory(&nodes).who("alice").build()?;
    let bob = Client::builder().memory(&nodes).who("bob").build()?;

    let guard = alice.mutex("orders:42").lock().await?;
    println!("alice holds {:?} for {:?} more", guard.name(), guard.remaining());

    let taken = bob.mutex("orders:42").try_lock().await?;
    println!("bob tries and gets {taken:?}");

    let wait = Duration::from_millis(50);
    if let Err(error) = bob.mutex("orders:42").lock_timeout(wait).await {
        println!("bob waits: {error}");
    }

    guard.extend(Duration::from_secs(20)).await?;
    println!("alice extends: {:?} left", guard.remaining());
    guard.release().await?;
    println!("alice releases");

    let guard = bob.mutex("orders:42").lock().await?;
    println!("bob holds {:?} for {:?} more", guard.name(), guard.remaining());
    drop(guard);
    println!("bob drops the guard, which releases the lock");

    nodes.set(0, Behaviour::Fail);
    nodes.set(1, Behaviour::Hang);
    let sum = alice.mutex("orders:42").with(async |_guard| 40 + 2).await?;
    println!("two nodes of five fail, and alice still works under the lock: {sum}");

    nodes.set(2, Behaviour::Fail);
    if let Err(error) = alice.mutex("orders:42").try_lock().await {
        println!("a third one fails, with the reason: {error}");
    }
    Ok(())
}

//! A lock that outlives its ttl while it is held, and work that stops when the lock is lost.
//!
//! Run with: cargo run --example `watchdog_and_loss`

use std::time::Duration;

use quorate::{
    Client,
    memory::{Behaviour, MemoryNodes},
};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = MemoryNodes::new(3);
    let client = Client::builder().memory(&nodes).ttl(Duration::from_millis(300)).build()?;
    let guard = client.mutex("report").lock().await?;

    tokio::time::sleep(Duration::from_millis(900)).await;
    println!("after three ttls the watchdog still renews it: {:?}", guard.check());

    for node in 0..2 {
        nodes.set(node, Behaviour::Hang);
    }
    println!("two of three nodes stop answering");
    let work = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            println!("  working, at risk: {}", guard.is_at_risk());
        }
    };
    match guard.run(work).await {
        Ok(()) => println!("the work is done"),
        Err(lost) => println!("the work was stopped: {lost}"),
    }
    Ok(())
}

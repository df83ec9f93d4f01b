//! Ten workers add to a number that none of them can guard by itself.
//!
//! Run with: cargo run --example mutex

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use quorate::Client;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::memory();
    let balance = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let (client, balance) = (client.clone(), balance.clone());
            tokio::spawn(async move {
                client
                    .mutex("account:7")
                    .with(async |_guard| {
                        // Read, think, write: two at a time would lose an addition.
                        let seen = balance.load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        balance.store(seen + 1, Ordering::Relaxed);
                    })
                    .await
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    println!("ten workers added one each: {}", balance.load(Ordering::Relaxed));
    Ok(())
}

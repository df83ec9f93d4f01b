//! A writer that becomes a reader: others read what it has written, and no other writer comes in
//! between.
//!
//! Run with: cargo run --example downgrade

use std::error::Error;

use quorate::{Client, memory::MemoryNodes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let nodes = MemoryNodes::new(3);
    let client = |who: &str| Client::builder().memory(&nodes).who(who).build();
    let (importer, shop, rival) = (client("importer")?, client("shop")?, client("rival")?);

    let writer = importer.rwlock("prices").write().await?;
    say("the importer holds the lock alone, and writes new prices");
    assert!(shop.rwlock("prices").try_read().await?.is_none());

    let report = writer.downgrade().await?;
    let reader = shop.rwlock("prices").read().await?;
    say("the importer reads its prices for a report, and the shop reads them too");
    assert!(rival.rwlock("prices").try_write().await?.is_none());

    reader.release().await?;
    report.release().await?;
    let next = rival.rwlock("prices").write().await?;
    say("both have released the lock, and the next writer holds it");
    next.release().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

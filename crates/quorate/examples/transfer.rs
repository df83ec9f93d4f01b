//! Transfers between accounts in all directions at the same time: each needs the locks of both, and
//! nobody deadlocks.
//!
//! Run with: cargo run --example transfer

use std::{error::Error, sync::Arc};

use quorate::{Client, MutexAll, fence::Fenced, memory::MemoryNodes};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let nodes = MemoryNodes::new(3);
    let accounts: Arc<[Fenced<i64>]> = ACCOUNTS.map(|_| Fenced::new(100)).into();
    let mut clerks = JoinSet::new();
    // Alice to bob, bob to carol, carol to alice: a circle, if each waited for one lock after the
    // other.
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let client = Client::builder().memory(&nodes).who(format!("clerk {from}")).build()?;
        let accounts = accounts.clone();
        clerks.spawn(async move {
            let both = client.mutex_all([ACCOUNTS[from], ACCOUNTS[to]]);
            for _ in 0..10 {
                transfer(&both, &accounts, from, to).await?;
            }
            say(&format!("10 transfers from {} to {}", ACCOUNTS[from], ACCOUNTS[to]));
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(ended) = clerks.join_next().await {
        ended??;
    }
    for (name, account) in ACCOUNTS.iter().zip(&*accounts) {
        say(&format!("{name}: {}", account.access(account.highest(), |balance| *balance)?));
    }
    Ok(())
}

async fn transfer(
    both: &MutexAll,
    accounts: &[Fenced<i64>],
    from: usize,
    to: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let guard = both.lock().await?;
    // Each account checks the fence of its own lock.
    let fence = |account: usize| guard.fence(ACCOUNTS[account]).ok_or("only classic mode has none");
    let (from_fence, to_fence) = (fence(from)?, fence(to)?);
    guard.check()?;
    accounts[from].access(from_fence, |balance| *balance -= 1)?;
    accounts[to].access(to_fence, |balance| *balance += 1)?;
    guard.release().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

const ACCOUNTS: [&str; 3] = ["account:alice", "account:bob", "account:carol"];

//! A holder that is paused and acts when its lock is long another's: what comes of it if the
//! resource checks nothing, only writes, or everything.
//!
//! Run with: cargo run --example fencing

use std::{error::Error, sync::Mutex, time::Duration};

use quorate::{
    Client,
    fence::{Fence, Fenced, Gate, Stale},
    memory::MemoryNodes,
};
use tokio::sync::oneshot;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    say("1. An account that checks nothing");
    story(&Trusting(Mutex::new(100))).await?;
    say("2. An account that checks the fence of writes, but not of reads");
    story(&HalfTrusting { gate: Gate::new(), balance: Mutex::new(100) }).await?;
    say("3. An account that checks every fence");
    story(&Checking(Fenced::new(100))).await
}

/// Alice pays in 50 and bob pays in 10, under a lock. Alice is paused between read and write.
async fn story(account: &impl Account) -> Result<(), Box<dyn Error>> {
    let nodes = MemoryNodes::new(3);
    let alice = Client::builder().memory(&nodes).ttl(TTL).who("alice").build()?;
    let bob = Client::builder().memory(&nodes).who("bob").build()?;
    let (pause_begins, is_paused) = oneshot::channel();
    let (wake, woken) = oneshot::channel();
    let (alice_is_done, done) = oneshot::channel();

    let alices = async {
        // Like a process that stands still, it does not renew its lock.
        let guard = alice.mutex("account").no_renew().lock().await?;
        let fence = guard.fence().ok_or("only classic mode has no fences")?;
        let seen = account.read(fence)?;
        say(&format!("   alice holds the lock, reads {seen}, and is paused for long"));
        let _ = pause_begins.send(());
        woken.await?;
        let written = account.write(fence, seen + 50);
        say(&format!("   alice wakes up and writes {}: {}", seen + 50, shown(written)));
        let _ = alice_is_done.send(written);
        Ok::<_, Box<dyn Error>>(())
    };
    let bobs = async {
        is_paused.await?;
        // The lock of alice runs out meanwhile.
        let guard = bob.mutex("account").lock().await?;
        let fence = guard.fence().ok_or("only classic mode has no fences")?;
        let seen = account.read(fence)?;
        say(&format!("   bob holds the lock now, and reads {seen}"));
        let _ = wake.send(());
        let alices = done.await?;
        say(&format!("   bob writes {}: {}", seen + 10, shown(account.write(fence, seen + 10))));
        guard.release().await?;
        Ok::<_, Box<dyn Error>>(alices)
    };
    let (_, alices) = tokio::try_join!(alices, bobs)?;

    let (balance, owed) = (account.balance(), if alices.is_ok() { 160 } else { 110 });
    say(&match owed - balance {
        0 => format!("   Balance {balance}. Alice knows that she must try again.\n"),
        lost => {
            format!("   Balance {balance}: alice received no error, {lost} are lost.\n")
        }
    });
    Ok(())
}

trait Account {
    fn read(&self, fence: Fence) -> Result<i64, Stale>;
    fn write(&self, fence: Fence, balance: i64) -> Result<(), Stale>;
    fn balance(&self) -> i64;
}

struct Trusting(Mutex<i64>);

impl Account for Trusting {
    fn read(&self, _fence: Fence) -> Result<i64, Stale> {
        Ok(self.balance())
    }

    fn write(&self, _fence: Fence, balance: i64) -> Result<(), Stale> {
        *self.0.lock().expect("nobody panics") = balance;
        Ok(())
    }

    fn balance(&self) -> i64 {
        *self.0.lock().expect("nobody panics")
    }
}

struct HalfTrusting {
    gate: Gate,
    balance: Mutex<i64>,
}

impl Account for HalfTrusting {
    fn read(&self, _fence: Fence) -> Result<i64, Stale> {
        Ok(self.balance())
    }

    fn write(&self, fence: Fence, balance: i64) -> Result<(), Stale> {
        self.gate.admit(fence)?;
        *self.balance.lock().expect("nobody panics") = balance;
        Ok(())
    }

    fn balance(&self) -> i64 {
        *self.balance.lock().expect("nobody panics")
    }
}

struct Checking(Fenced<i64>);

impl Account for Checking {
    fn read(&self, fence: Fence) -> Result<i64, Stale> {
        self.0.access(fence, |balance| *balance)
    }

    fn write(&self, fence: Fence, balance: i64) -> Result<(), Stale> {
        self.0.access(fence, |known| *known = balance)
    }

    fn balance(&self) -> i64 {
        self.0.access(self.0.highest(), |balance| *balance).expect("nobody else is here")
    }
}

fn shown(written: Result<(), Stale>) -> String {
    written.map_or_else(|stale| format!("refused, {stale}"), |()| "done".to_owned())
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

const TTL: Duration = Duration::from_millis(200);

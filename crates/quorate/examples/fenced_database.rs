//! A holder is paused, its lease expires, and the database rejects its late write: the row has a
//! column for the fence.
//!
//! Run with: cargo run --example `fenced_database`

use std::{error::Error, time::Duration};

use quorate::{Client, Guard, fence::sql::Table, memory::MemoryNodes};
use rusqlite::{Connection, OptionalExtension as _, params};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         INSERT INTO accounts VALUES (7, 100);",
    )?;
    database.execute(&accounts().add_column(), [])?;
    let nodes = MemoryNodes::new(3);
    let client = |who: &str| Client::builder().memory(&nodes).ttl(TTL).who(who).build();
    let (alice, bob) = (client("alice")?, client("bob")?);

    // A paused program does not renew its lease. Without renewal this one expires in the same way.
    let late = alice.mutex("account:7").no_renew().lock().await?;
    let seen = read(&database, &late)?.ok_or("a later holder was here")?;
    println!("alice reads {seen} and is paused");

    let guard = bob.mutex("account:7").lock().await?; // waits until the lease of alice has expired
    let balance = read(&database, &guard)?.ok_or("a later holder was here")?;
    println!("bob reads {balance} and writes {}", balance + 10);
    assert!(write(&database, &guard, balance + 10)?);
    guard.release().await?;

    println!("alice continues and writes {}", seen + 50);
    let is_written = write(&database, &late, seen + 50)?;
    assert!(!is_written, "the fence of alice is smaller than that of bob");
    println!("the write of alice is rejected: she must acquire the lock and read again");

    let sql = "SELECT balance FROM accounts WHERE id = ?";
    let balance: i64 = database.query_row(sql, [ACCOUNT], |row| row.get(0))?;
    assert_eq!(balance, 110);
    Ok(())
}

/// Reads the balance. `None`: a later holder was here.
fn read(database: &Connection, guard: &Guard) -> Result<Option<i64>, Box<dyn Error>> {
    let fence = fence_of(guard)?;
    // From now on the row rejects every earlier holder.
    database.execute(&accounts().raise(), params![fence, ACCOUNT, fence])?;
    let sql = accounts().read(&["balance"]);
    Ok(database.query_row(&sql, params![ACCOUNT, fence], |row| row.get(0)).optional()?)
}

/// Writes the balance. `false`: a later holder was here, and nothing is changed.
fn write(database: &Connection, guard: &Guard, balance: i64) -> Result<bool, Box<dyn Error>> {
    let fence = fence_of(guard)?;
    let sql = accounts().write(&["balance"]);
    Ok(database.execute(&sql, params![balance, fence, ACCOUNT, fence])? == 1)
}

fn fence_of(guard: &Guard) -> Result<i64, Box<dyn Error>> {
    let fence = guard.fence().ok_or("only readers and classic mode have none")?;
    Ok(i64::try_from(fence)?)
}

fn accounts() -> Table {
    Table::new("accounts", "id")
}

const ACCOUNT: i64 = 7;
const TTL: Duration = Duration::from_millis(200);

//! The statements in a real database.

use quorate::fence::{Fence, sql::Table};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::lost_update::{
    Resource, large_and_small_fences, late_write_between_read_and_write, same_holder_again,
};

#[test]
fn late_write_is_refused_once_the_next_holder_has_read() {
    both(late_write_between_read_and_write);
}

#[test]
fn same_holder_may_write_again() {
    both(same_holder_again);
}

#[test]
fn neighbouring_fences_are_distinguished() {
    both(large_and_small_fences);
}

#[test]
fn overtaken_writer_finds_no_row() {
    both(|account| {
        assert_eq!(account.raise(Fence::new(1)), 1);
        assert_eq!(account.raise(Fence::new(2)), 1);
        assert_eq!(account.select(Fence::new(1)), None);
        assert_eq!(account.raise(Fence::new(1)), 0);
        assert_eq!(account.select(Fence::new(2)), Some(0));
    });
}

/// The advice of the documentation for many rows: a row for the lock, in the same transaction.
#[test]
fn row_for_the_lock_protects_the_rest_of_the_transaction() {
    let mut database = Connection::open_in_memory().unwrap();
    database.execute_batch("CREATE TABLE entries (text TEXT)").unwrap();
    database.execute_batch("CREATE TABLE fences (lock TEXT PRIMARY KEY)").unwrap();
    let fences = Table::new("fences", "lock");
    database.execute_batch(&fences.add_column()).unwrap();
    database.execute("INSERT INTO fences (lock) VALUES ('ledger')", []).unwrap();
    let mut append = |fence: i64, text: &str| {
        let transaction = database.transaction().unwrap();
        transaction.execute(&fences.raise(), params![fence, "ledger", fence]).unwrap();
        let is_current = transaction
            .query_row(&fences.read(&["1"]), params!["ledger", fence], |_| Ok(()))
            .optional()
            .unwrap()
            .is_some();
        if is_current {
            transaction.execute("INSERT INTO entries VALUES (?)", [text]).unwrap();
            transaction.commit().unwrap();
        }
        is_current
    };
    assert!(append(1, "a"));
    assert!(append(2, "b"));
    assert!(!append(1, "late"));
    assert!(append(2, "c"));
    let mut texts = database.prepare("SELECT text FROM entries ORDER BY rowid").unwrap();
    let texts: Vec<String> =
        texts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(texts, ["a", "b", "c"]);
}

/// Once with each way to mark parameters; the database knows both.
fn both(story: impl Fn(&mut Account)) {
    let plain = Table::new("accounts", "id");
    for table in [plain.clone(), plain.numbered()] {
        let database = Connection::open_in_memory().expect(DONE);
        database
            .execute_batch("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance)")
            .expect(DONE);
        database
            .execute("INSERT INTO accounts (id, balance) VALUES (7, 0), (8, 0)", [])
            .expect(DONE);
        database.execute_batch(&table.add_column()).expect(DONE);
        let mut account = Account { database, table };
        story(&mut account);
        let other = "SELECT balance, fence FROM accounts WHERE id = 8";
        let other: (i64, i64) = account
            .database
            .query_row(other, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect(DONE);
        assert_eq!(other, (0, 0), "another row is left alone");
    }
}

struct Account {
    database: Connection,
    table: Table,
}

impl Account {
    fn raise(&self, fence: Fence) -> usize {
        let fence = parameter(fence);
        self.database.execute(&self.table.raise(), params![fence, 7, fence]).expect(DONE)
    }

    fn select(&self, fence: Fence) -> Option<i64> {
        let read = self.table.read(&["balance"]);
        let row = self.database.query_row(&read, params![7, parameter(fence)], |row| row.get(0));
        row.optional().expect(DONE)
    }
}

impl Resource for Account {
    fn read(&mut self, fence: Fence) -> Option<i64> {
        self.raise(fence);
        self.select(fence)
    }

    fn write(&mut self, fence: Fence, value: i64) -> bool {
        let (write, fence) = (self.table.write(&["balance"]), parameter(fence));
        match self.database.execute(&write, params![value, fence, 7, fence]).expect(DONE) {
            0 => false,
            1 => true,
            many => panic!("{many} rows have changed"),
        }
    }
}

fn parameter(fence: Fence) -> i64 {
    fence.get().try_into().expect("it fits into a column")
}

const DONE: &str = "the database does it";

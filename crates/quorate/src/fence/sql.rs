//! Statements for a resource that is a row in a database.
//!
//! The row has a column for the largest fence that was seen. The holder raises it before its first
//! read, so that a late write of a stale client cannot come between this read and the next write.
//! See [the module above](super).
//!
//! # How to use them
//!
//! 1. [`Table::raise`], as the first statement of its transaction if there is one.
//! 2. [`Table::read`]. If it finds no row, a later holder came, or the row does not exist. Stop.
//! 3. [`Table::write`]. If it changed no row, a later holder came. Stop.
//!
//! The statements need no transaction: each is atomic. To protect more than one row, store the
//! fences in a separate table with one row for each lock, and begin each transaction with
//! [`Table::raise`] and [`Table::read`] of that row. The database locks the row until the end of
//! the transaction, so the whole transaction comes before the first read of the next holder, or is
//! rejected. Do the same if rows are deleted: the fence is deleted with the row, and a stale client
//! could insert the row again.
//!
//! MySQL and MariaDB count the rows that changed, not the rows that were found. So do not check the
//! count of `raise`; [`Table::read`] shows the result. For `write`, let the connection count the
//! rows that were found (`CLIENT_FOUND_ROWS`). Otherwise a write of equal values looks rejected.
//!
//! The statements are plain SQL. They are tested with SQLite.
//!
//! # Examples
//!
//! ```
//! use quorate::fence::sql::Table;
//!
//! let accounts = Table::new("accounts", "id");
//! let raise = "UPDATE accounts SET fence = ? WHERE id = ? AND fence <= ?";
//! assert_eq!(accounts.raise(), raise); // fence, id, fence
//! let read = "SELECT balance FROM accounts WHERE id = ? AND fence = ?";
//! assert_eq!(accounts.read(&["balance"]), read); // id, fence
//! let write = "UPDATE accounts SET balance = ?, fence = ? WHERE id = ? AND fence <= ?";
//! assert_eq!(accounts.write(&["balance"]), write); // balance, fence, id, fence
//! ```
//!
//! A fence fits into a signed number of 64 bits, which databases have. With the features `rusqlite`
//! and `sqlx` it is a parameter and a column of these libraries. For others, convert it:
//!
//! ```
//! # use quorate::fence::Fence;
//! let fence = Fence::new(1_800_000_000_000_000); // of the guard
//! let parameter = i64::try_from(fence)?;
//! assert_eq!(Fence::try_from(parameter)?, fence);
//! # Ok::<(), std::num::TryFromIntError>(())
//! ```

/// A table whose rows have a fence each, and the statements for it.
///
/// Names are inserted into the statements unchanged, so that they can be quoted or have a schema.
/// They must be constants of the program and never come from input.
///
/// # Examples
///
/// ```
/// use quorate::fence::sql::Table;
///
/// let jobs = Table::new("batch.\"Job\"", "id").numbered();
/// let raise = "UPDATE batch.\"Job\" SET fence = $1 WHERE id = $2 AND fence <= $3";
/// assert_eq!(jobs.raise(), raise);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a table only makes statements"]
pub struct Table {
    name: String,
    key: String,
    marks: Marks,
}

/// How a statement marks its parameters.
#[derive(Clone, Copy, Debug)]
enum Marks {
    Plain,
    Numbered,
}

impl Table {
    /// The table of this name, whose rows the column `key` identifies.
    ///
    /// Parameters are marked with `?`, for MySQL, MariaDB and SQLite.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let accounts = Table::new("accounts", "id");
    /// # let _ = accounts;
    /// ```
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: name.into(), key: key.into(), marks: Marks::Plain }
    }

    /// Marks the same parameters with `$1`, `$2` and so on, for PostgreSQL.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let accounts = Table::new("accounts", "id").numbered();
    /// let read = "SELECT balance FROM accounts WHERE id = $1 AND fence = $2";
    /// assert_eq!(accounts.read(&["balance"]), read);
    /// ```
    pub fn numbered(mut self) -> Self {
        self.marks = Marks::Numbered;
        self
    }

    /// Adds the column to a table that does not have it. No parameters.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let add = "ALTER TABLE accounts ADD COLUMN fence BIGINT NOT NULL DEFAULT 0";
    /// assert_eq!(Table::new("accounts", "id").add_column(), add);
    /// ```
    #[must_use]
    pub fn add_column(&self) -> String {
        format!("ALTER TABLE {} ADD COLUMN fence BIGINT NOT NULL DEFAULT 0", self.name)
    }

    /// Rejects every earlier holder from now on. Parameters: fence, key, fence.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let raise = "UPDATE accounts SET fence = ? WHERE id = ? AND fence <= ?";
    /// assert_eq!(Table::new("accounts", "id").raise(), raise);
    /// ```
    #[must_use]
    pub fn raise(&self) -> String {
        self.write(&[])
    }

    /// Reads a row for the holder that has raised its fence. Parameters: key, fence.
    ///
    /// It finds no row if a later holder came.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let read = "SELECT balance, owner FROM accounts WHERE id = ? AND fence = ?";
    /// assert_eq!(Table::new("accounts", "id").read(&["balance", "owner"]), read);
    /// ```
    #[must_use]
    pub fn read(&self, columns: &[&str]) -> String {
        let Self { name, key, .. } = self;
        let columns = columns.join(", ");
        let (of_key, of_fence) = (self.mark(1), self.mark(2));
        format!("SELECT {columns} FROM {name} WHERE {key} = {of_key} AND fence = {of_fence}")
    }

    /// Changes a row unless a later holder came, and rejects every earlier one from now on.
    /// Parameters: one for each column, then fence, key, fence.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::fence::sql::Table;
    ///
    /// let write = "UPDATE accounts SET balance = ?, fence = ? WHERE id = ? AND fence <= ?";
    /// assert_eq!(Table::new("accounts", "id").write(&["balance"]), write);
    /// ```
    #[must_use]
    pub fn write(&self, columns: &[&str]) -> String {
        let Self { name, key, .. } = self;
        let columns = columns.iter().chain(&["fence"]).zip(1..);
        let values: Vec<_> =
            columns.map(|(column, at)| format!("{column} = {}", self.mark(at))).collect();
        let (of_key, of_fence) = (self.mark(values.len() + 1), self.mark(values.len() + 2));
        let values = values.join(", ");
        format!("UPDATE {name} SET {values} WHERE {key} = {of_key} AND fence <= {of_fence}")
    }

    fn mark(&self, at: usize) -> String {
        match self.marks {
            Marks::Plain => "?".to_owned(),
            Marks::Numbered => format!("${at}"),
        }
    }
}

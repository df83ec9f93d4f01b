//! What resources check, on real servers and in a real database.

#[cfg(any(feature = "rusqlite", feature = "serde", feature = "sqlx"))]
mod columns;
mod lost_update;
mod scripts;
mod sql;

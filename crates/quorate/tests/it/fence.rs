//! What resources check, on real servers and in a real database.

mod lost_update;
mod scripts;
mod sql;

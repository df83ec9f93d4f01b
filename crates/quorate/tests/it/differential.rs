//! The scripts on a real server against the core's store.

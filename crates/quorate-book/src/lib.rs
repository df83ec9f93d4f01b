//! The Rust snippets of the README and the pages in `docs`, as documentation tests:
//! `cargo test -p quorate-book --doc`.
//!
//! The build script makes a module of each snippet.

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/snippets.rs"));

//! Clients in other languages: the programs in `docs/clients.md`, and the packages in `clients/`,
//! with real `quorate serve` processes.
//!
//! `cargo xtask test` checks that the compilers and interpreters are installed.

#![cfg(test)]

mod packages;
#[path = "../service"]
mod service {
    #[expect(dead_code, unused_imports, reason = "the tests of the service use the rest of it")]
    pub(crate) mod fixture;
}
mod schema;
mod snippets;
mod tool;

use self::service::fixture;

//! The HTTP service under attack: callers without permission, forged leases, malformed bytes, and
//! excessive load.

#![cfg(test)]

mod certificates;
mod exposure;
#[path = "../service/fixture.rs"]
#[expect(dead_code, unused_imports, reason = "the tests of the service use the rest of it")]
mod fixture;
mod forged;
mod identities;
mod idle;
mod input;
mod quotas;
mod raw;
mod reload;
mod secrets;
mod slow;
mod tls;
mod token_file;
mod tokens;

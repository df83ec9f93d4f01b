//! Bugs that this library had, one test for each. The first line of each says what went wrong.

mod endings;
mod extensions;
mod keepers;
mod reports;

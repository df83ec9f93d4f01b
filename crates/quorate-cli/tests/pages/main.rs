//! The commands in `docs` and in the README. The sessions of the quick start, the scripts of the
//! page about the command and the requests of the page about the service run as they are written.
//! On all pages verbs and flags must exist.

#![cfg(test)]

mod command;
mod flags;
mod page;
mod quick_start;
mod service;
mod session;

//! End-to-end tests of the command: the real binary, real servers, real signals, a real terminal.

#![cfg(test)]

mod config;
mod deploy;
mod fixture;
mod inspect;
mod lease;
mod nodes;
mod output;
mod run;
mod texts;

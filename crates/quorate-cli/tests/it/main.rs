//! The command from the outside: the real binary, real servers, real signals, a real terminal.

#![cfg(test)]

mod config;
mod deploy;
mod fixture;
mod lease;
mod look;
mod nodes;
mod output;
mod run;
mod texts;

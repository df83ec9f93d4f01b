//! End-to-end tests of the command: the real binary, real servers, real signals, a real terminal.

#![cfg(test)]

mod config;
mod deploy;
mod doctor;
mod first_contact;
mod fixture;
mod inspect;
mod lease;
mod nodes;
mod output;
mod run;
mod texts;
mod up;

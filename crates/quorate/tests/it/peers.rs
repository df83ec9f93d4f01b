//! Defects of other libraries, from their source and their users' reports, that could be ours.
//!
//! Each test is named after the library and what goes wrong there.

mod anchors;
mod node_redlock;
mod python;
mod redisson;
mod redsync;
mod rust;

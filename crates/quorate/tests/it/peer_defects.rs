//! Defects that were reported for other lock libraries, as tests that Quorate does not have them.
//!
//! The name of a test begins with the library, followed by the property that Quorate has instead.

mod coordination_services;
mod node_redlock;
mod python;
mod redisson;
mod redsync;
mod rust;

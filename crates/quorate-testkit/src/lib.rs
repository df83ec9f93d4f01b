//! Real servers and real network faults for Quorate's own tests.
//!
//! * [`Server`] is a `redis-server` or `valkey-server` process on its own port and in its own
//!   temporary folder. It can be killed, paused, restarted with or without its data, and looked
//!   into, and its clock can be set.
//! * [`Proxy`] stands between a client and a server and delays, drops, cuts or refuses, as the
//!   current [`Fault`] says.
//! * [`history`] records who held which lock when, in many threads and processes, and checks
//!   whether the promises were kept.
//! * [`processes`] starts a test program again as other processes, and stops and kills them.
//! * [`admit()`] lets new servers vote at once.
//! * [`script`] is a script of the library as a server takes it.
//! * [`eventually()`] waits for a condition with a bound, so that no test sleeps and hopes.
//!
//! Everything here is synchronous and needs no runtime. Inside an async test the calls block the
//! calling thread: most of them for less than a millisecond, starting a server for a few of them.
//! Nothing is returned as a `Result`: in a test, a server that does not start is a failed test, so
//! the calls panic with a message that names the failure.
//!
//! The crate needs Linux: pausing a server is confirmed through `/proc`, and servers are tied to
//! the life of the test process by means Linux has.
//!
//! ```
//! use quorate_testkit::{Fault, Proxy, Server};
//!
//! let server = Server::start();
//! let proxy = Proxy::start(&server.address());
//! proxy.set(Fault::DropReplies);
//! // Connect the client under test to `proxy.url()`; check what it did through `server`.
//! assert!(server.keys().is_empty());
//! ```

mod admit;
mod eventually;
pub mod history;
mod ports;
pub mod processes;
mod proxy;
mod scripts;
mod server;

pub use admit::admit;
pub use eventually::eventually;
pub use proxy::{Fault, Proxy};
pub use redis;
pub use scripts::script;
pub use server::{Clock, Contents, Flavour, ProcessClock, Server, ServerBuilder};

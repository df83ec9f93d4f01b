//! What a test can rely on when it uses a [`Proxy`](quorate_testkit::Proxy).

mod connections;
mod faults;
mod wire;

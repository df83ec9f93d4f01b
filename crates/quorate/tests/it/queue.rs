//! What the default mode adds: the queue, hand-off, and fences.

/// Makes tests of bodies in the default mode, on nodes in memory and on real servers.
macro_rules! in_default_mode {
    ($($numbers:expr => $($body:ident),+;)+) => {
        mod memory {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::fixture::on_memory(&$numbers, super::$body);
                }
            )+)+
        }

        mod servers {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::fixture::on_servers(&$numbers, super::$body);
                }
            )+)+
        }
    };
}

mod crowd;
mod endings;
mod fences;
mod fixture;
mod leaving;
mod order;
mod others;
mod sessions;

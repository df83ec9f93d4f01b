//! The same promises on every engine.
//!
//! A body is one promise. The macro makes two tests of each, one on nodes in memory and one on real
//! servers, and each test runs the body with several numbers of nodes.

/// Makes tests of bodies, for the numbers of nodes that stand before them.
macro_rules! on_every_engine {
    ($($numbers:expr => $($body:ident),+;)+) => {
        mod memory {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::rig::on_memory(&$numbers, super::$body);
                }
            )+)+
        }

        mod servers {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::rig::on_servers(&$numbers, super::$body);
                }
            )+)+
        }
    };
}

mod exclusion;
mod expiry;
mod foreign;
mod forgetting;
mod names;
mod ownership;
mod rig;
mod settings;
mod stored;
mod ties;
mod validity;
mod verify;
mod waiting;
mod with;

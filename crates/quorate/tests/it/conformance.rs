//! The same promises on every engine.
//!
//! A body is one promise. The macro makes four tests of each: on nodes in memory and on real
//! servers, in the default mode and in classic mode. Each test runs the body with several numbers
//! of nodes; in classic mode with two of them, since most of the code is the same.

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

        mod classic_memory {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::rig::on_memory_in_classic_mode(&$numbers, super::$body);
                }
            )+)+
        }

        mod classic_servers {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::rig::on_servers_in_classic_mode(&$numbers, super::$body);
                }
            )+)+
        }
    };
}

mod exclusion;
mod expiry;
mod foreign;
mod forgetting;
mod inspect;
mod names;
mod ownership;
pub(crate) mod rig;
mod settings;
mod stored;
mod ties;
mod validity;
mod verify;
mod waiting;
mod with;

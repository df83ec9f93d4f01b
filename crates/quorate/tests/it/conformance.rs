//! The same promises on every engine.
//!
//! A body is one promise. The macro makes tests of each: on nodes in memory, on real servers, and
//! on a local node, each in the default mode and in classic mode. Each test runs the body with
//! several numbers of nodes; in classic mode with two of them, since most of the code is the same.
//! There is one local node, so bodies for more have no test there.

/// Makes tests of bodies, for the numbers of nodes that stand before them.
macro_rules! on_every_engine {
    ($($numbers:tt => $($body:ident),+;)+) => {
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

        mod classic_memory {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::fixture::on_memory_in_classic_mode(&$numbers, super::$body);
                }
            )+)+
        }

        mod classic_servers {
            $($(
                #[test]
                fn $body() {
                    use crate::conformance::fixture::on_servers_in_classic_mode;
                    on_servers_in_classic_mode(&$numbers, super::$body);
                }
            )+)+
        }

        #[cfg(feature = "local")]
        mod local {
            $(on_a_lone_node! { $numbers, on_local: $($body),+ })+
        }

        #[cfg(feature = "local")]
        mod classic_local {
            $(on_a_lone_node! { $numbers, on_local_in_classic_mode: $($body),+ })+
        }
    };
}

/// Makes tests of bodies that are also for one node.
#[cfg(feature = "local")]
macro_rules! on_a_lone_node {
    ([1 $($more:tt)*], $run:ident: $($body:ident),+) => {
        $(
            #[test]
            fn $body() {
                crate::conformance::fixture::$run(super::$body);
            }
        )+
    };
    ($numbers:tt, $run:ident: $($body:ident),+) => {};
}

mod exclusion;
mod expiry;
pub(crate) mod fixture;
mod foreign;
mod forgetting;
mod inspect;
mod names;
mod ownership;
mod settings;
mod stored;
mod tags;
mod ties;
mod validity;
mod verify;
mod waiting;
mod with;

//! Locks that are held together: on every engine in the default mode, and refused in classic mode.

/// Makes tests of bodies in the default mode, on every engine.
macro_rules! in_line_on_every_engine {
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

        #[cfg(feature = "local")]
        mod local {
            $($(
                #[test]
                fn $body() {
                    crate::conformance::fixture::on_local(super::$body);
                }
            )+)+
        }
    };
}

mod crowd;
mod downgrade;
mod endings;
mod others;
mod together;

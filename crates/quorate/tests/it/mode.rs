//! The two modes of a client, for tests of both.

use quorate::ClientBuilder;

/// Makes two tests of each body, one for each mode.
macro_rules! in_both_modes {
    (paused: $($body:ident),+ $(,)?) => {
        mod queue {
            $(
                #[tokio::test(start_paused = true)]
                async fn $body() {
                    super::$body(crate::mode::Mode::Queue).await;
                }
            )+
        }

        mod classic {
            $(
                #[tokio::test(start_paused = true)]
                async fn $body() {
                    super::$body(crate::mode::Mode::Classic).await;
                }
            )+
        }
    };
    ($($body:ident),+ $(,)?) => {
        mod queue {
            $(
                #[test]
                fn $body() {
                    super::$body(crate::mode::Mode::Queue);
                }
            )+
        }

        mod classic {
            $(
                #[test]
                fn $body() {
                    super::$body(crate::mode::Mode::Classic);
                }
            )+
        }
    };
}

/// How clients wait, and what they store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// The default mode: with a queue and fences.
    Queue,
    /// Plain Redlock.
    Classic,
}

impl Mode {
    /// The settings of a client in this mode.
    pub(crate) fn of(self, settings: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Queue => settings,
            Self::Classic => settings.classic(),
        }
    }
}

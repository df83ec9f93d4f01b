//! The rows that search the product.

mod classic;
mod queue;

use super::settings::Settings;

/// All rows of the product, small ones first.
pub(super) fn rows() -> impl Iterator<Item = Settings> {
    classic::rows().into_iter().chain(queue::rows())
}

//! A fence as a plain number or as text.

use std::{
    num::{ParseIntError, TryFromIntError},
    str::FromStr,
};

use super::Fence;

impl From<u64> for Fence {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// Every fence that a node grants fits.
impl TryFrom<Fence> for i64 {
    type Error = TryFromIntError;

    fn try_from(fence: Fence) -> Result<Self, TryFromIntError> {
        fence.0.try_into()
    }
}

/// A negative number is no fence.
impl TryFrom<i64> for Fence {
    type Error = TryFromIntError;

    fn try_from(number: i64) -> Result<Self, TryFromIntError> {
        number.try_into().map(Self)
    }
}

/// Parses the output of `Display`.
impl FromStr for Fence {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::FENCE_MAX;

    #[test]
    fn fence_converts_to_numbers_and_text_and_back() {
        for fence in [Fence::ZERO, Fence(7), FENCE_MAX] {
            assert_eq!(Fence::from(u64::from(fence)), fence);
            assert_eq!(i64::try_from(fence).and_then(Fence::try_from), Ok(fence));
            assert_eq!(fence.to_string().parse(), Ok(fence));
        }
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        assert!(i64::try_from(Fence(u64::MAX)).is_err());
        assert!(Fence::try_from(-1_i64).is_err());
        for text in ["", "-1", "x", "18446744073709551616"] {
            assert!(text.parse::<Fence>().is_err(), "{text}");
        }
    }
}

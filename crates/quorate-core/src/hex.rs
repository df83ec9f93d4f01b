//! Random numbers, written as 32 hexadecimal digits; and numbers as text without the formatting of
//! the standard library, which takes many times as long.

macro_rules! hex_number {
    ($name:ident) => {
        impl $name {
            /// Makes one from random bits, which must be unique and hard to guess.
            #[must_use]
            pub const fn from_random(bits: u128) -> Self {
                Self(bits)
            }

            /// Parses the output of `Display`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                let is_hex = text.len() == 32 && text.bytes().all(is_digit);
                is_hex.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
            }

            /// Appends the output of `Display`.
            pub fn append_to(&self, text: &mut Vec<u8>) {
                $crate::hex::append_hex(text, &self.0.to_be_bytes());
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

pub(crate) use hex_number;

/// Appends two digits for each byte.
pub(crate) fn append_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Appends at least `len` digits.
pub(crate) fn append_decimal(text: &mut Vec<u8>, number: u64, len: usize) {
    let mut digits = [b'0'; 20];
    let (mut at, mut left) = (digits.len(), number);
    while left > 0 {
        at = at.saturating_sub(1);
        // A digit.
        digits[at] = b'0'.saturating_add((left % 10).try_into().unwrap_or(0));
        left /= 10;
    }
    text.extend_from_slice(&digits[at.min(digits.len().saturating_sub(len))..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for number in [0, 1, 9, 10, 99, 12_345, 9_999_999_999_999_999, u64::MAX] {
            let (mut plain, mut padded, mut hex) = (Vec::new(), Vec::new(), Vec::new());
            append_decimal(&mut plain, number, 1);
            append_decimal(&mut padded, number, 16);
            append_hex(&mut hex, &number.to_be_bytes());
            assert_eq!(plain, number.to_string().as_bytes());
            assert_eq!(padded, format!("{number:016}").as_bytes());
            assert_eq!(hex, format!("{number:016x}").as_bytes());
        }
    }
}

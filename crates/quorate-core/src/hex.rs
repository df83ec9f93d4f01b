//! Random numbers, written as 32 hexadecimal digits.

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

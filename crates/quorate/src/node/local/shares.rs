//! Encodes the holders of a shared lock as one value in the database.

use quorate_core::{
    command::{Owner, Value},
    fence::Fence,
    share::{Share, Shares},
};

/// Encodes a value. `None` for values of other types, which a local node does not have.
pub(super) fn to_bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Text(text) => Some(text.to_vec()),
        Value::Shared(shares) => {
            let mut bytes = MARK.to_vec();
            for (owner, Share { fence, ends_at_ms, since_ms }) in shares {
                bytes.extend_from_slice(format!("{fence} {ends_at_ms} {since_ms} ").as_bytes());
                bytes.extend_from_slice(owner.as_bytes());
                bytes.push(b'\n');
            }
            Some(bytes)
        }
        Value::OtherType(_) => None,
    }
}

/// Decodes a value. What cannot be decoded counts as the value of another program.
pub(super) fn from_bytes(bytes: Box<[u8]>) -> Value {
    let shares = bytes.strip_prefix(MARK).and_then(read);
    shares.map_or_else(|| Value::Text(bytes), Value::Shared)
}

fn read(bytes: &[u8]) -> Option<Shares> {
    let text = str::from_utf8(bytes).ok()?;
    let share = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (fence, ends_at_ms, since_ms) = (Fence::new(number()?), number()?, number()?);
        let owner = Owner::from_bytes(words.next()?.as_bytes());
        Some((owner, Share { fence, ends_at_ms, since_ms }))
    };
    text.lines().map(share).collect()
}

/// No owner begins with these bytes.
const MARK: &[u8] = b"\0shares\n";

#[cfg(test)]
mod tests {
    use quorate_core::{command::ClientId, queue::Position};

    use super::*;

    #[test]
    fn encoded_values_are_decoded() {
        let owner = |ticket| {
            Position { ticket, ttl_ms: 9, client: ClientId::from_random([3; 20]) }.shared_owner(1)
        };
        let share = |n| Share { fence: Fence::new(n), ends_at_ms: n + 1, since_ms: n + 2 };
        let shares = Shares::from_iter([(owner(1), share(5)), (owner(2), share(u64::MAX - 2))]);
        let text = Value::Text(b"q1:foreign".as_slice().into());
        for value in [Value::Shared(shares), Value::Shared(Shares::default()), text] {
            let bytes = to_bytes(&value).expect("it can be stored");
            assert_eq!(from_bytes(bytes.into()), value);
        }
        assert_eq!(to_bytes(&Value::OtherType("hash".into())), None);
    }

    #[test]
    fn undecodable_values_count_as_foreign() {
        for odd in ["\0shares\n1 2 x", "\0shares\n1 2 3", "\0shares\n-1 2 3 a", "\0shares"] {
            let value = Value::Text(odd.as_bytes().into());
            assert_eq!(from_bytes(odd.as_bytes().into()), value);
        }
    }
}

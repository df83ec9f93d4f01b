//! What a server knows about a lock besides its key, read with plain commands.

use quorate_core::{
    command::Owner,
    fence::{FENCE_LIFETIME_MS, Fence},
    moment::NodeTime,
    name::Name,
    queue::group,
    share::Share,
    store::{LastGrant, LockDetails},
};
use quorate_testkit::redis::{self, Value, cmd};

use super::keys::{digits, fence_key, queue_key};

/// Appends the requests about one lock.
pub(super) fn write(request: &mut Vec<u8>, name: &Name) {
    for command in [
        cmd("GET").arg(fence_key(name)),
        cmd("PTTL").arg(fence_key(name)),
        cmd("ZRANGE").arg(queue_key(name)).arg(0).arg(-1),
        cmd("PTTL").arg(queue_key(name)),
        cmd("EVAL").arg(SHARES).arg(1).arg(name.as_bytes()),
    ] {
        request.extend(command.get_packed_command());
    }
}

/// The answers to these requests.
pub(super) fn read(now: NodeTime, mut next: impl FnMut() -> Value) -> LockDetails {
    let record: Option<Vec<u8>> = redis::from_redis_value(next()).expect("a text");
    let left: i64 = redis::from_redis_value(next()).expect("a number");
    let waiting: Vec<Vec<u8>> = redis::from_redis_value(next()).expect("a list of texts");
    let queue_left: i64 = redis::from_redis_value(next()).expect("a number");
    let shares: Vec<Vec<u8>> = redis::from_redis_value(next()).expect("a list of texts");
    let last = record.and_then(|record| last_grant(now, &record, left));
    LockDetails {
        fence: last.map(|last| (last.fence, u64::try_from(left).expect("a fence ends"))),
        since_ms: last.map(|last| last.since_ms),
        waiting: waiting.iter().map(|owner| Owner::from_bytes(owner)).collect(),
        queue_ends_in_ms: (queue_left != -2)
            .then(|| u64::try_from(queue_left).expect("a queue ends")),
        shares: shares.chunks_exact(2).filter_map(stored_share).collect(),
    }
}

/// The last grant, if this is its record. Its time follows from the remaining time of the record,
/// unless the record contains it.
fn last_grant(now: NodeTime, record: &[u8], left_ms: i64) -> Option<LastGrant> {
    let (fence, since) = record.split_at_checked(16)?;
    let fence = Fence::new(digits(fence)?);
    let left_ms = left_ms.cast_unsigned();
    let since_ms = match since {
        [] => (now.as_millis() + left_ms).checked_sub(FENCE_LIFETIME_MS).expect("within a day"),
        since => digits(since).expect("16 digits"),
    };
    Some(LastGrant { fence, since_ms })
}

/// One shared holder of a lock, as it is stored. Tables of other libraries differ.
fn stored_share(pair: &[Vec<u8>]) -> Option<(Owner, Share)> {
    let owner = Owner::from_bytes(&pair[0]);
    let number = |at: usize| digits(&pair[1][at..at + 16]).expect("16 digits");
    group(&owner).is_some().then(|| {
        let (fence, ends_at_ms, since_ms) = (Fence::new(number(0)), number(16), number(32));
        (owner, Share { fence, ends_at_ms, since_ms })
    })
}

/// The entries of a table; empty for another type of key.
const SHARES: &str = "local all = redis.pcall('HGETALL', KEYS[1]) return all.err and {} or all";

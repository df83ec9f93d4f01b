//! The sequence that makes fences necessary, once for every kind of resource.

use quorate::fence::Fence;

/// A number somewhere that holders of a lock read and write.
pub(super) trait Resource {
    /// `None` if a later holder was first.
    fn read(&mut self, fence: Fence) -> Option<i64>;
    /// False if a later holder was first.
    fn write(&mut self, fence: Fence, value: i64) -> bool;
}

/// A reads, is paused, and loses the lock to B. B reads, then A wakes up and writes, then B writes.
/// The reply to A's write must be true: here, that it was rejected.
pub(super) fn late_write_between_read_and_write(resource: &mut impl Resource) {
    let (a, b) = (Fence::new(41), Fence::new(42));
    assert!(resource.write(a, 100));
    assert_eq!(resource.read(a), Some(100));
    assert_eq!(resource.read(b), Some(100));
    assert!(!resource.write(a, 50), "B has read: A is too late, though B has written nothing yet");
    assert!(resource.write(b, 110));
    assert_eq!(resource.read(a), None);
    assert_eq!(resource.read(b), Some(110));
}

/// Equal is not older, and a refusal changes nothing.
pub(super) fn same_holder_again(resource: &mut impl Resource) {
    let (a, b) = (Fence::new(43), Fence::new(44));
    for value in [1, 1, 2] {
        assert!(resource.write(b, value));
        assert_eq!(resource.read(b), Some(value));
        assert_eq!(resource.read(b), Some(value));
        assert!(!resource.write(a, 3));
        assert_eq!(resource.read(a), None);
    }
}

/// Numbers that floating point cannot tell apart, and those of different lengths.
pub(super) fn large_and_small_fences(resource: &mut impl Resource) {
    let ascending = [99, 100, 1 << 53, (1 << 53) + 1, (1 << 53) + 2, MAX - 1, MAX].map(Fence::new);
    for pair in ascending.windows(2) {
        assert!(resource.write(pair[0], 1), "{pair:?}");
        assert!(resource.write(pair[1], 2), "{pair:?}");
        assert!(!resource.write(pair[0], 3), "{pair:?}");
        assert_eq!(resource.read(pair[0]), None, "{pair:?}");
        assert_eq!(resource.read(pair[1]), Some(2), "{pair:?}");
    }
}

/// The largest that fits into a column of a database.
const MAX: u64 = u64::MAX >> 1;

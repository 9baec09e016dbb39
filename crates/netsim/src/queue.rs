//! What waits in front of a link's transmitter.

use std::collections::VecDeque;

use festina_units::ByteCount;

/// How much may wait. Both limits hold at the same time, and the packet that is being transmitted
/// counts towards neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimit {
    /// The most packets that may wait.
    pub packets: usize,
    /// The most bytes that may wait.
    pub bytes: ByteCount,
}

impl QueueLimit {
    /// At most `packets` packets of any size.
    pub const fn packets(packets: usize) -> Self {
        Self { packets, bytes: ByteCount::MAX }
    }

    /// At most `bytes` bytes in at most [`QueueLimit::PACKETS_MAX`] packets.
    pub const fn bytes(bytes: ByteCount) -> Self {
        Self { packets: Self::PACKETS_MAX, bytes }
    }

    /// The packet limit of a queue that is limited by bytes. It only bounds the memory that empty or
    /// tiny packets can take.
    pub const PACKETS_MAX: usize = 1 << 20;
}

impl Default for QueueLimit {
    /// A thousand packets, as long as an interface queue under Linux.
    fn default() -> Self {
        Self::packets(1_000)
    }
}

/// A first-in first-out queue that refuses what exceeds its limit.
#[derive(Debug)]
pub(crate) struct DropTail<T> {
    limit: QueueLimit,
    waiting: VecDeque<(ByteCount, T)>,
    bytes: ByteCount,
}

impl<T> DropTail<T> {
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self { limit, waiting: VecDeque::new(), bytes: ByteCount::ZERO }
    }

    /// Whether an item of `size` bytes fits now.
    pub(crate) fn has_room_for(&self, size: ByteCount) -> bool {
        self.waiting.len() < self.limit.packets && self.bytes + size <= self.limit.bytes
    }

    /// Appends an item for which there [is room](Self::has_room_for).
    pub(crate) fn push(&mut self, size: ByteCount, item: T) {
        debug_assert!(self.has_room_for(size), "the caller asks before it pushes");
        self.bytes += size;
        self.waiting.push_back((size, item));
    }

    /// Takes the oldest item and its size.
    pub(crate) fn pop(&mut self) -> Option<(ByteCount, T)> {
        let (size, item) = self.waiting.pop_front()?;
        self.bytes -= size;
        Some((size, item))
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn size(bytes: u64) -> ByteCount {
        ByteCount::from_bytes(bytes)
    }

    #[test]
    fn a_queue_in_packets_ignores_sizes() {
        let mut queue = DropTail::new(QueueLimit::packets(2));
        queue.push(size(1_000_000), 'a');
        queue.push(size(0), 'b');
        assert!(!queue.has_room_for(size(0)));
        assert_eq!(queue.pop(), Some((size(1_000_000), 'a')));
        assert!(queue.has_room_for(size(u64::MAX)));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_queue_in_bytes_may_be_filled_to_the_brim() {
        let mut queue = DropTail::new(QueueLimit::bytes(size(100)));
        queue.push(size(60), 'a');
        assert!(queue.has_room_for(size(40)));
        assert!(!queue.has_room_for(size(41)));
        queue.push(size(40), 'b');
        assert_eq!(queue.bytes(), size(100));
        assert_eq!(queue.pop(), Some((size(60), 'a')));
        assert_eq!(queue.pop(), Some((size(40), 'b')));
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.bytes(), ByteCount::ZERO);
    }
}

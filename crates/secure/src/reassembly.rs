//! Reassembles handshake bytes from numbered fragments, in bounded memory.

/// Maximum number of gaps. A fragment that would open one more is dropped, and the peer repeats it.
const RANGES_MAX: usize = 32;

/// The handshake bytes of one level as they arrive.
#[derive(Debug)]
pub(crate) struct Reassembly {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// Received ranges beyond `read`, in order, none touching another.
    ranges: Vec<(usize, usize)>,
    /// Bytes that were read.
    read: usize,
}

/// A fragment beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handshake is longer than allowed")]
pub(crate) struct TooLong;

impl Reassembly {
    /// Makes an empty buffer that takes at most `bytes_max` bytes.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: Vec::new(), ranges: Vec::new(), read: 0 }
    }

    /// Inserts a fragment. Bytes that were received before keep their values.
    ///
    /// # Errors
    /// The fragment ends beyond the limit.
    pub(crate) fn insert(&mut self, offset: usize, fragment: &[u8]) -> Result<(), TooLong> {
        let end = offset.saturating_add(fragment.len());
        if end > self.bytes_max {
            return Err(TooLong);
        }
        let start = offset.max(self.read);
        if start >= end {
            return Ok(());
        }
        let first = self.ranges.partition_point(|&(_, range_end)| range_end < start);
        let last = self.ranges.partition_point(|&(range_start, _)| range_start <= end);
        if first == last && self.ranges.len() >= RANGES_MAX {
            return Ok(());
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let merged: Vec<_> = self.ranges.drain(first..last).collect();
        let mut at = start;
        for &(range_start, range_end) in merged.iter().chain([&(end, end)]) {
            self.fill(offset, fragment, at, range_start.min(end));
            at = at.max(range_end);
        }
        let range = merged.iter().fold((start, end), |(low, high), &(start, end)| (low.min(start), high.max(end)));
        self.ranges.insert(first, range);
        Ok(())
    }

    /// Copies the bytes from `from` to `to` out of a fragment.
    fn fill(&mut self, offset: usize, fragment: &[u8], from: usize, to: usize) {
        if from < to
            && let (Some(target), Some(source)) =
                (self.bytes.get_mut(from..to), fragment.get(from - offset..to - offset))
        {
            target.copy_from_slice(source);
        }
    }

    /// Returns the number of bytes that were read.
    #[must_use]
    pub(crate) fn read_bytes(&self) -> usize {
        self.read
    }

    /// Returns the bytes that can be read now, in order. Each is returned once.
    pub(crate) fn read(&mut self) -> &[u8] {
        let from = self.read;
        if let Some(&(start, end)) = self.ranges.first()
            && start <= from
        {
            self.ranges.remove(0);
            self.read = end;
        }
        self.bytes.get(from..self.read).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fragments_are_read_once_and_in_order_however_they_arrive() {
        let mut reassembly = Reassembly::new(100);
        reassembly.insert(3, b"def").unwrap();
        assert_eq!(reassembly.read(), b"");
        reassembly.insert(0, b"abcd").unwrap();
        assert_eq!(reassembly.read(), b"abcdef");
        reassembly.insert(0, b"abcdef").unwrap();
        assert_eq!(reassembly.read(), b"");
        reassembly.insert(4, b"XXg").unwrap();
        assert_eq!(reassembly.read(), b"g", "bytes that were read cannot change");
    }

    #[test]
    fn memory_and_gaps_are_bounded() {
        let mut reassembly = Reassembly::new(1_000);
        assert_eq!(reassembly.insert(999, b"ab"), Err(TooLong));
        assert_eq!(reassembly.insert(usize::MAX, b"a"), Err(TooLong));
        for offset in (1..1_000).step_by(2) {
            reassembly.insert(offset, b"x").unwrap();
        }
        assert_eq!(reassembly.ranges.len(), RANGES_MAX);
        reassembly.insert(0, &[7; 1_000]).unwrap();
        assert_eq!(reassembly.read().len(), 1_000);
    }

    proptest! {
        #[test]
        fn any_order_of_pieces_gives_the_bytes_back(
            pieces in prop::collection::vec((0_usize..300, 0_usize..80), 1..30),
        ) {
            let message: Vec<u8> = (0..300_u16).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut reassembly = Reassembly::new(300);
            let (mut out, mut known) = (Vec::new(), [false; 301]);
            for (offset, length) in pieces {
                let end = (offset + length).min(300);
                reassembly.insert(offset, &message[offset..end]).unwrap();
                known[offset..end].fill(true);
                out.extend_from_slice(reassembly.read());
                let expected = known.iter().position(|known| !known).unwrap();
                prop_assert_eq!(&out[..], &message[..expected]);
            }
        }
    }
}

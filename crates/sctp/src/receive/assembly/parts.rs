//! The payload of a run of fragments: large ones stay as they came, small ones are gathered in buffers.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use festina_units::Preview;

/// The smallest buffer in which fragments are gathered.
const GATHER_BYTES_MIN: usize = 64;

/// Initial capacity of the parts list of a run.
const PARTS_MIN: usize = 2;

/// Consecutive bytes, and their allocations. Fragments of one byte each cost little more than their bytes.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: VecDeque<Part>,
    len: usize,
    /// Allocated by all parts or kept alive by them, without the list.
    part_bytes: usize,
}

enum Part {
    /// A slice of a packet or a copy of a fragment.
    Whole(Bytes),
    /// Several small fragments.
    Gathered(Vec<u8>),
}

impl fmt::Debug for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => Preview(bytes).fmt(formatter),
            Self::Gathered(bytes) => Preview(bytes).fmt(formatter),
        }
    }
}

impl Parts {
    /// Bytes of payload.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The allocated bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.part_bytes + self.parts.capacity() * size_of::<Part>()
    }

    /// Appends a part that has allocated `charge_bytes` or keeps them alive.
    pub(super) fn push(&mut self, part: Bytes, charge_bytes: usize) {
        self.close_last();
        self.len += part.len();
        self.part_bytes += charge_bytes;
        self.push_part(Part::Whole(part));
    }

    /// Appends bytes to the last buffer if it does not grow beyond `gather_bytes` by that, or else to a new one.
    pub(super) fn gather(&mut self, bytes: &[u8], gather_bytes: usize) {
        self.len += bytes.len();
        if let Some(Part::Gathered(last)) = self.parts.back_mut()
            && last.len() + bytes.len() <= gather_bytes
        {
            self.part_bytes += extend(last, bytes, gather_bytes);
            return;
        }
        self.close_last();
        let mut buffer = Vec::new();
        self.part_bytes += extend(&mut buffer, bytes, gather_bytes);
        self.push_part(Part::Gathered(buffer));
    }

    /// Appends other parts.
    pub(super) fn append(&mut self, mut above: Self, gather_bytes: usize) {
        if let Some(Part::Gathered(first)) = above.parts.front()
            && let Some(Part::Gathered(last)) = self.parts.back_mut()
            && last.len() + first.len() <= gather_bytes
        {
            self.part_bytes += extend(last, first, gather_bytes);
            above.part_bytes -= first.capacity();
            above.parts.pop_front();
        }
        self.len += above.len;
        self.part_bytes += above.part_bytes;
        if self.parts.len() >= above.parts.len() {
            self.parts.append(&mut above.parts);
        } else {
            while let Some(part) = self.parts.pop_back() {
                above.parts.push_front(part);
            }
            self.parts = above.parts;
        }
    }

    /// One copy into one buffer of just the right size.
    pub(super) fn concatenate(&self) -> Bytes {
        let mut payload = Vec::with_capacity(self.len);
        for part in &self.parts {
            payload.extend_from_slice(match part {
                Part::Whole(bytes) => bytes,
                Part::Gathered(bytes) => bytes,
            });
        }
        payload.into()
    }

    fn push_part(&mut self, part: Part) {
        if self.parts.capacity() == 0 {
            self.parts.reserve_exact(PARTS_MIN);
        }
        self.parts.push_back(part);
    }

    /// Closes the last buffer and releases its reserve.
    fn close_last(&mut self) {
        if let Some(Part::Gathered(last)) = self.parts.back_mut() {
            self.part_bytes -= last.capacity();
            last.shrink_to_fit();
            self.part_bytes += last.capacity();
        }
    }
}

/// Appends to a buffer, whose size is doubled when it is full, up to `gather_bytes`. Returns its growth.
fn extend(buffer: &mut Vec<u8>, bytes: &[u8], gather_bytes: usize) -> usize {
    let before_bytes = buffer.capacity();
    let needed = buffer.len() + bytes.len();
    if needed > before_bytes {
        let wanted = (2 * before_bytes).max(GATHER_BYTES_MIN).min(gather_bytes).max(needed);
        buffer.reserve_exact(wanted - buffer.len());
    }
    buffer.extend_from_slice(bytes);
    buffer.capacity() - before_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER_BYTES: usize = 4_096;

    fn counted(parts: &Parts) -> usize {
        let each = parts.parts.iter().map(|part| match part {
            Part::Whole(bytes) => bytes.len(),
            Part::Gathered(buffer) => buffer.capacity(),
        });
        each.sum::<usize>() + parts.parts.capacity() * size_of::<Part>()
    }

    #[test]
    fn bytes_that_come_one_by_one_cost_little_more_than_themselves_from_either_end() {
        for descending in [false, true] {
            let mut parts = Parts::default();
            for byte in 0..50_000_u32 {
                let byte = byte.to_le_bytes()[0];
                if descending {
                    let mut below = Parts::default();
                    below.gather(&[byte], GATHER_BYTES);
                    below.append(parts, GATHER_BYTES);
                    parts = below;
                } else {
                    parts.gather(&[byte], GATHER_BYTES);
                }
                assert_eq!(parts.held_bytes(), counted(&parts));
            }
            assert!(parts.held_bytes() < 50_000 + 2 * GATHER_BYTES, "{}", parts.held_bytes());
            let whole = parts.concatenate();
            let expected = (0..50_000_u32).map(|byte| byte.to_le_bytes()[0]);
            let is_same =
                if descending { expected.eq(whole.iter().rev().copied()) } else { expected.eq(whole.iter().copied()) };
            assert!(is_same);
        }
    }

    #[test]
    fn large_and_small_parts_keep_their_order() {
        let mut parts = Parts::default();
        for index in 0..40_u8 {
            if index % 3 == 0 {
                parts.push(Bytes::from(vec![index; 600]), 600);
            } else {
                parts.gather(&[index; 300], GATHER_BYTES);
            }
            assert_eq!(parts.held_bytes(), counted(&parts));
        }
        let expected: Vec<u8> = (0..40).flat_map(|index| vec![index; if index % 3 == 0 { 600 } else { 300 }]).collect();
        assert_eq!(parts.len(), expected.len());
        assert_eq!(parts.concatenate(), expected);
    }
}

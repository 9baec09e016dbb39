//! Buffers of received packets: one for each packet, so that a stored message keeps one packet in memory and not its neighbours.

use bytes::BytesMut;

/// Buffers differ by this much in size, so a buffer is never larger than its packet by as much.
const STEP_BYTES: usize = 64;

/// Sizes of buffers that are used again. Larger packets than 1,536 bytes each get a buffer of just their size.
const SIZES: usize = 24;

/// Buffers of one size that are used again.
const BUFFERS_MAX: usize = 128;

/// The buffers of received packets. A buffer without references is reused, so that a packet costs no allocation if the application releases its
/// messages soon.
///
/// Memory: at most 128 buffers of each size, 2.4 MB in all, and those of one size (about 150 KB) if all packets are full.
#[derive(Debug, Default)]
pub(super) struct Packets {
    sizes: [Buffers; SIZES],
}

/// Buffers of one size, which take turns.
#[derive(Debug, Default)]
struct Buffers {
    buffers: Vec<BytesMut>,
    /// The one that was filled longest ago, or about so.
    next: usize,
}

impl Packets {
    /// Copies a packet to a buffer that stays valid as long as it is referenced.
    pub(super) fn keep(&mut self, packet: &[u8]) -> BytesMut {
        let size = packet.len().div_ceil(STEP_BYTES);
        match size.checked_sub(1).and_then(|index| self.sizes.get_mut(index)) {
            Some(buffers) => buffers.keep(packet, size * STEP_BYTES),
            None => BytesMut::from(packet),
        }
    }
}

impl Buffers {
    #[inline]
    fn keep(&mut self, packet: &[u8], buffer_bytes: usize) -> BytesMut {
        let is_free = self.buffers.get_mut(self.next).is_some_and(|buffer| buffer.try_reclaim(packet.len()));
        if !is_free {
            self.renew(buffer_bytes);
        }
        let next = self.next;
        self.next = if next + 1 < self.buffers.len() { next + 1 } else { 0 };
        let Some(buffer) = self.buffers.get_mut(next) else { return BytesMut::from(packet) };
        buffer.extend_from_slice(packet);
        buffer.split()
    }

    /// The packet of the next buffer is held: puts a new buffer before it, or in its place if there are enough.
    #[cold]
    fn renew(&mut self, buffer_bytes: usize) {
        let buffer = BytesMut::with_capacity(buffer_bytes);
        if self.buffers.len() < BUFFERS_MAX {
            self.buffers.insert(self.next, buffer);
        } else if let Some(held) = self.buffers.get_mut(self.next) {
            *held = buffer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_were_dropped_give_their_buffer_back() {
        let mut packets = Packets::default();
        let first = packets.keep(&[1; 1_000]).as_ptr();
        assert!((0..1_000).all(|_| packets.keep(&[2; 1_000]).as_ptr() == first));
    }

    #[test]
    fn a_packet_that_is_held_stays_as_it_is() {
        let mut packets = Packets::default();
        let held: Vec<_> = (0..200_u8).map(|value| packets.keep(&[value; 700])).collect();
        assert!((0..).zip(&held).all(|(value, packet)| packet == &[value; 700][..]));
    }

    #[test]
    fn a_packet_that_is_held_keeps_hardly_more_than_its_own_bytes_in_memory() {
        let mut packets = Packets::default();
        for len in [1, 28, 64, 65, 600, 1_232, 1_536, 1_537, 9_000, 60_000] {
            let neighbours: Vec<_> = (0..500).map(|_| packets.keep(&vec![7; len])).collect();
            let held = neighbours.into_iter().next_back().unwrap().freeze();
            drop(std::mem::take(&mut packets));
            let buffer = held.try_into_mut().expect("the only reference");
            assert!(buffer.capacity() < len + STEP_BYTES, "{} bytes for {len}", buffer.capacity());
        }
    }

    #[test]
    fn a_packet_that_is_held_for_ever_does_not_stop_the_others_from_taking_turns() {
        let mut packets = Packets::default();
        let _held = packets.keep(&[0; 1_000]);
        let mut places: Vec<_> = (0..10_000).map(|_| packets.keep(&[1; 1_000]).as_ptr()).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() <= BUFFERS_MAX);
    }

    #[test]
    fn the_number_of_buffers_is_bounded() {
        let mut packets = Packets::default();
        let _held: Vec<_> = (0..1_000).map(|_| packets.keep(&[1; 1_000])).collect();
        assert_eq!(packets.sizes.iter().map(|buffers| buffers.buffers.len()).sum::<usize>(), BUFFERS_MAX);
    }

    #[test]
    fn an_empty_and_a_large_packet_are_taken_whole() {
        let packet = vec![7; 60_000];
        assert_eq!(Packets::default().keep(&packet), packet);
        assert!(Packets::default().keep(&[]).is_empty());
    }
}

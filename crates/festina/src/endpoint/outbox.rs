//! Packets on their way from an association to the socket.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use festina_sctp::{Fragmentation, Transmit};
use festina_units::EcnCodepoint;

use super::refusals::Refusals;
use super::socket::{Blocked, Socket, Way};

/// Bytes that one system call may carry: the largest UDP payload, with room for options.
const GROUP_BYTES_MAX: usize = 65_000;

/// Bytes after which packets leave even though more may come.
const FULL_BYTES: usize = 60_000;

/// Packets that leave together.
///
/// Neighbours of the same size and ECN field between the same addresses form a group, which costs one system call where the kernel can cut it up
/// (GSO). The last packet of a group may be shorter.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    groups: VecDeque<Group>,
    /// Bytes before this have left.
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    destination: SocketAddr,
    /// The own address, if the socket has several to send from.
    source: Option<IpAddr>,
    /// As in [`Way`].
    binding: u32,
    ecn: EcnCodepoint,
    fragmentation: Fragmentation,
    segment_bytes: usize,
    bytes: usize,
    segments: usize,
}

impl Group {
    /// Whether a packet may join at the end.
    fn takes(&self, transmit: &Transmit, from: (Option<IpAddr>, u32), segments_max: usize) -> bool {
        self.segments < segments_max
            && self.bytes == self.segments * self.segment_bytes
            && transmit.len <= self.segment_bytes
            && self.bytes + transmit.len <= GROUP_BYTES_MAX
            && self.destination == transmit.destination
            && (self.source, self.binding) == from
            && self.ecn == transmit.ecn
            && [self.fragmentation, transmit.fragmentation] == [Fragmentation::IfRefused; 2]
    }
}

impl Outbox {
    /// Lends this thread's outbox, empty, so that its memory is allocated once per thread.
    pub(crate) fn with<R>(use_it: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static SPARE: Cell<Outbox> = Cell::default();
        }
        // A thread that is ending has no spare outbox any more: fall back to a fresh one.
        let mut outbox = SPARE.try_with(Cell::take).unwrap_or_default();
        let result = use_it(&mut outbox);
        outbox.clear();
        let _ = SPARE.try_with(|spare| spare.set(outbox));
        result
    }

    /// Where the core appends a packet; [`Outbox::push`] follows.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes note of the packet just appended, which leaves from `source` if the socket has several addresses to send from, and with no other binding
    /// than `binding`.
    pub(crate) fn push(&mut self, transmit: &Transmit, (source, binding): (Option<IpAddr>, u32), segments_max: usize) {
        if let Some(group) = self.groups.back_mut()
            && group.takes(transmit, (source, binding), segments_max)
        {
            group.bytes += transmit.len;
            group.segments += 1;
            return;
        }
        self.groups.push_back(Group {
            destination: transmit.destination,
            source,
            binding,
            ecn: transmit.ecn,
            fragmentation: transmit.fragmentation,
            segment_bytes: transmit.len,
            bytes: transmit.len,
            segments: 1,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Enough for now: flush before appending more.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    /// Moves the unsent packets of another outbox here.
    pub(super) fn take_over(&mut self, other: &mut Self) {
        self.bytes.extend_from_slice(other.bytes.get(other.sent..).unwrap_or_default());
        self.groups.append(&mut other.groups);
        other.clear();
    }

    /// Sends everything.
    ///
    /// Other errors of the socket count as packet loss: counted and left to the protocol.
    pub(crate) fn flush(&mut self, socket: &Socket) -> Result<(), Blocked> {
        self.flush_noting(socket, Some(&socket.refusals))
    }

    /// Sends everything to hosts without an association. Refusals are not noted: they concern no association, and any host can cause them.
    pub(super) fn flush_to_strangers(&mut self, socket: &Socket) -> Result<(), Blocked> {
        self.flush_noting(socket, None)
    }

    fn flush_noting(&mut self, socket: &Socket, refusals: Option<&Refusals>) -> Result<(), Blocked> {
        while let Some(group) = self.groups.front() {
            let contents = self.bytes.get(self.sent..self.sent + group.bytes).unwrap_or_default();
            let Group { destination, source, fragmentation, binding, .. } = *group;
            let way = Way { destination, source, fragmentation, binding };
            socket.send(way, group.ecn, contents, group.segment_bytes, refusals)?;
            self.sent += group.bytes;
            self.groups.pop_front();
        }
        self.clear();
        Ok(())
    }

    /// Drops all unsent packets.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.groups.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::endpoint::socket::ANY_BINDING;

    fn push(outbox: &mut Outbox, len: usize, port: u16, segments_max: usize) {
        let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        outbox.buffer().extend(std::iter::repeat_n(0, len));
        outbox.push(&Transmit::new(destination, len, EcnCodepoint::NotCapable), (None, ANY_BINDING), segments_max);
    }

    fn sizes(outbox: &Outbox) -> Vec<(usize, usize)> {
        outbox.groups.iter().map(|group| (group.segments, group.bytes)).collect()
    }

    #[test]
    fn packets_of_one_size_share_a_group_that_a_shorter_one_ends() {
        let mut outbox = Outbox::default();
        for len in [100, 100, 100, 40, 40, 100] {
            push(&mut outbox, len, 1, 64);
        }
        assert_eq!(sizes(&outbox), [(4, 340), (1, 40), (1, 100)]);
    }

    #[test]
    fn a_group_has_one_destination_and_respects_the_kernels_limits() {
        let mut outbox = Outbox::default();
        push(&mut outbox, 100, 1, 64);
        push(&mut outbox, 100, 2, 64);
        assert_eq!(sizes(&outbox), [(1, 100), (1, 100)]);

        let mut outbox = Outbox::default();
        (0..5).for_each(|_| push(&mut outbox, 100, 1, 2));
        assert_eq!(sizes(&outbox), [(2, 200), (2, 200), (1, 100)]);

        let mut outbox = Outbox::default();
        (0..3).for_each(|_| push(&mut outbox, 30_000, 1, 64));
        assert_eq!(sizes(&outbox), [(2, 60_000), (1, 30_000)]);
    }
}

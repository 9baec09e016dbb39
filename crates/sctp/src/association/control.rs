//! Control chunks that wait to leave.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::marks::Marks;
use super::reconfiguration::Reconfiguration;
use super::reply::{Due, Reply};
use crate::wire::{Cause, ChunkOut, PacketBuilder, ReConfigParameter, Tsn};

/// Maximum number of queued answers; more are dropped, which a peer sees as loss.
const REPLIES_MAX: usize = 16;
/// Maximum bytes of a HEARTBEAT's information that are echoed, and of an unknown chunk that are reported.
pub(crate) const ECHO_BYTES_MAX: usize = 1_024;

/// Pending control chunks, other than DATA and SACK.
#[derive(Debug, Default)]
pub(crate) struct Control {
    due: u8,
    /// Boxed, since usually nothing is pending.
    waiting: Option<Box<Waiting>>,
    /// If any change of streams was asked for.
    pub(super) reconfiguration: Option<Box<Reconfiguration>>,
}

#[derive(Debug, Default)]
struct Waiting {
    replies: VecDeque<Reply>,
    /// Packets that are complete: they carry another tag, or must stand alone.
    packets: VecDeque<WholePacket>,
    /// If the network marked packets. It is kept.
    marks: Option<Marks>,
}

/// A complete packet.
#[derive(Debug)]
pub(crate) struct WholePacket {
    pub(crate) bytes: Vec<u8>,
    /// Where to send it, if not to where data is sent.
    pub(crate) destination: Option<SocketAddr>,
}

impl Control {
    pub(crate) fn set(&mut self, due: Due) {
        self.due |= due.0;
    }

    pub(crate) fn is_set(&self, due: Due) -> bool {
        self.due & due.0 != 0
    }

    pub(crate) fn unset(&mut self, due: Due) {
        self.due &= !due.0;
    }

    /// Returns whether a chunk is due by name that answers one of the peer's.
    pub(crate) fn answers(&self) -> bool {
        self.is_set(Due::COOKIE_ACK) || self.is_set(Due::SHUTDOWN_ACK)
    }

    /// Drops everything except complete packets, when the association ends or restarts.
    pub(crate) fn clear(&mut self) {
        self.due = 0;
        self.reconfiguration = None;
        if let Some(waiting) = &mut self.waiting {
            waiting.replies.clear();
            if let Some(marks) = &mut waiting.marks {
                marks.forget();
            }
        }
        self.give_back_memory();
    }

    /// Queues an answer, unless too many wait: then it is not even built.
    pub(crate) fn reply_with(&mut self, reply: impl FnOnce() -> Reply) {
        let replies = &mut self.waiting.get_or_insert_default().replies;
        if replies.len() < REPLIES_MAX {
            replies.push_back(reply());
        }
    }

    /// What there is to say of packets that the network marked.
    #[inline]
    pub(super) fn marks(&mut self) -> Option<&mut Marks> {
        self.waiting.as_mut()?.marks.as_mut()
    }

    /// The same, to look at.
    pub(super) fn known_marks(&self) -> Option<&Marks> {
        self.waiting.as_ref()?.marks.as_ref()
    }

    /// The same for the first such packet.
    pub(super) fn new_marks(&mut self) -> &mut Marks {
        self.waiting.get_or_insert_default().marks.get_or_insert_default()
    }

    /// Queues a complete packet, unless too many wait.
    pub(crate) fn packet(&mut self, packet: Vec<u8>) {
        self.packet_to(None, packet);
    }

    /// As [`packet`](Self::packet), to this destination.
    pub(crate) fn packet_to(&mut self, destination: Option<SocketAddr>, bytes: Vec<u8>) {
        let packets = &mut self.waiting.get_or_insert_default().packets;
        if packets.len() < REPLIES_MAX {
            packets.push_back(WholePacket { bytes, destination });
        }
    }

    #[inline]
    pub(crate) fn pop_packet(&mut self) -> Option<WholePacket> {
        let packet = self.waiting.as_mut()?.packets.pop_front();
        self.give_back_memory();
        packet
    }

    /// Something waits that is reason enough for a packet.
    #[inline]
    pub(crate) fn wants_packet(&self) -> bool {
        self.due != 0 || self.has_replies()
    }

    #[inline]
    pub(crate) fn has_replies(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.replies.is_empty())
    }

    /// Returns whether a chunk is due by name.
    pub(crate) fn is_any_due(&self) -> bool {
        self.due != 0
    }

    /// The answer that leaves next.
    pub(crate) fn first_reply(&self) -> Option<&Reply> {
        self.waiting.as_ref()?.replies.front()
    }

    /// Writes as many replies as fit, up to one that `leaves_here` does not hold for. A reply that does not even fit into an empty packet is dropped.
    pub(crate) fn write_replies(&mut self, packet: &mut PacketBuilder<'_>, leaves_here: impl Fn(&Reply) -> bool) {
        let Some(Waiting { replies, .. }) = self.waiting.as_deref_mut() else { return };
        while let Some(reply) = replies.front().filter(|reply| leaves_here(reply)) {
            if !reply.write(packet) && !packet.is_empty() {
                return;
            }
            replies.pop_front();
        }
        self.give_back_memory();
    }

    fn give_back_memory(&mut self) {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.is_empty()) {
            self.waiting = None;
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.packets.is_empty() && self.marks.is_none()
    }
}

impl Reply {
    fn write(&self, packet: &mut PacketBuilder<'_>) -> bool {
        let cause = match self {
            Self::HeartbeatAck { info, .. } => return packet.chunk(&ChunkOut::HeartbeatAck { info }),
            Self::InvalidStream(stream) => Cause::InvalidStreamIdentifier(*stream),
            Self::UnrecognizedChunk(chunk) => Cause::UnrecognizedChunkType(chunk),
            Self::UnrecognizedParameters(parameters) => Cause::UnrecognizedParameters(parameters),
            &Self::ReConfigResponse { response, result } => {
                let response = ReConfigParameter::Response { response, result: result.number(), next_tsns: None };
                return packet.chunk(&ChunkOut::ReConfig(&[response]));
            }
            Self::BadReConfig => Cause::ProtocolViolation(b"unsupported RE-CONFIG"),
            Self::CookieWhileShuttingDown => Cause::CookieReceivedWhileShuttingDown,
        };
        packet.chunk(&ChunkOut::Error { causes: &[cause] })
    }
}

/// Writes SHUTDOWN with the Cumulative TSN Ack.
pub(crate) fn write_shutdown(packet: &mut PacketBuilder<'_>, cumulative_tsn: Tsn) -> bool {
    packet.chunk(&ChunkOut::Shutdown { cumulative_tsn })
}

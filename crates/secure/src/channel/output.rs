//! Writes datagrams.

use festina_sctp::{Message, PathId};
use festina_units::Instant;
use rustls::Side;

use super::{Channel, KeyRing};
use crate::record::{LongKeys, SealError};
use crate::tls::Space;
use crate::wire::{
    CONNECTION_ID_BYTES, ConnectionId, FRAGMENT_HEADER_BYTES, Frame, LONG_OVERHEAD_BYTES, MESSAGE_HEADER_BYTES,
    NUMBER_BYTES, TAG_BYTES, WIDE_NUMBER_BYTES,
};

/// A fragment is not made shorter than this, unless it is the last one.
const FRAGMENT_BYTES_MIN: usize = 32;
/// Maximum number of queued datagrams.
const OUTBOX_MAX: usize = 64;

impl Channel {
    /// Returns the next queued datagram.
    pub(crate) fn pop_datagram(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    pub(crate) fn has_datagram(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Queues a datagram behind the others.
    pub(crate) fn push_datagram(&mut self, datagram: Vec<u8>) {
        self.queue(vec![datagram]);
    }

    /// Adds a message to the packet with early keys. `false`, without effect, if none can be sent or no room is left.
    pub(crate) fn add_early(&mut self, message: &Message) -> bool {
        let mut frames = self.opening.early_frames.clone();
        let (stream, ppid, bytes) = (message.stream().0, message.ppid(), &message.payload()[..]);
        Frame::Message { stream, ppid, bytes }.write(&mut frames);
        let length = MESSAGE_HEADER_BYTES + bytes.len();
        let hello_bytes = LONG_OVERHEAD_BYTES + FRAGMENT_HEADER_BYTES + self.tls.outgoing(Space::Initial).len();
        // A retry token may join them.
        let spare = 2 + 2 * TAG_BYTES;
        let room = self.datagram_bytes_max.saturating_sub(hello_bytes + LONG_OVERHEAD_BYTES + spare);
        let fits = length <= usize::from(u16::MAX) && frames.len() <= room && self.has_early_keys();
        if fits {
            self.opening.early_frames = frames;
        }
        fits
    }

    /// Queues the client's hello, with the token of a retry and with early messages.
    pub(crate) fn queue_hello(&mut self) {
        let mut prefix = Vec::new();
        if !self.opening.token.is_empty() {
            Frame::Token(&self.opening.token).write(&mut prefix);
        }
        let mut datagrams = vec![Vec::new()];
        // With its own ID, the server knows the hello also from another address of the client: only parts of its answer may have arrived.
        let to = self.ids.peer.unwrap_or(self.ids.original);
        let sealed = self.seal_level(Space::Initial, &prefix, to, &mut datagrams);
        let early = self.keys.early.as_mut().filter(|_| !self.opening.early_frames.is_empty());
        if sealed.is_ok()
            && let (Some(early), Some(datagram)) = (early, datagrams.last_mut())
            && datagram.len() + LONG_OVERHEAD_BYTES + self.opening.early_frames.len() <= self.datagram_bytes_max
        {
            // Without the packet, the messages are sent once the handshake is complete.
            let _left_out = early.seal(datagram, to, self.ids.local, &self.opening.early_frames);
        }
        self.queue(datagrams);
    }

    /// Queues the server's answer to the hello. If its address is not proved and the answer is longer than that allows, nothing is queued and
    /// `false` returned: the client needs a token.
    pub(crate) fn queue_answer(&mut self) -> bool {
        let Some(to) = self.ids.peer else { return true };
        let mut prefix = Vec::new();
        // The first answer is final: early messages received after it are lost, and the client sends them again.
        let count = *self.opening.early_delivered.get_or_insert(0);
        if count > 0 {
            Frame::EarlyReceived { count }.write(&mut prefix);
        }
        let mut datagrams = vec![Vec::new()];
        let sealed = self
            .seal_level(Space::Initial, &[], to, &mut datagrams)
            .and_then(|()| self.seal_level(Space::Handshake, &prefix, to, &mut datagrams));
        if sealed.is_err() {
            return true;
        }
        let total = datagrams.iter().map(Vec::len).sum();
        if !self.budget().allows(total) {
            return false;
        }
        self.queue(datagrams);
        true
    }

    /// Queues a retry with this token.
    pub(crate) fn queue_retry(&mut self, now: Instant, token: &[u8]) {
        let (Some(to), Some(keys)) = (self.ids.peer, self.keys.initial.as_mut()) else { return };
        let mut datagram = Vec::new();
        let ids = (to, self.ids.local);
        let sealed = keys.without_state(retry_salt(now, token), |keys| seal_retry(keys, &mut datagram, ids, token));
        if sealed.is_ok() && self.budget().allows(datagram.len()) {
            self.queue(vec![datagram]);
        }
    }

    /// Appends the client's last handshake bytes to a datagram, or queues them if they do not fit together with `beside_bytes`.
    pub(crate) fn write_proof(&mut self, datagram: &mut Vec<u8>, beside_bytes: usize) {
        let Some(to) = self.ids.peer else { return };
        let mut datagrams = vec![Vec::new()];
        let mut prefix = self.addresses().to_vec();
        if let Some(spare) = self.opening.spare {
            Frame::Spare(spare).write(&mut prefix);
        }
        if self.seal_level(Space::Handshake, &prefix, to, &mut datagrams).is_err() {
            return;
        }
        match &mut datagrams[..] {
            [only] if only.len() + beside_bytes <= self.datagram_bytes_max => datagram.append(only),
            _ => self.queue(datagrams),
        }
    }

    /// Length of the client's last handshake bytes as a packet, if it is one.
    pub(crate) fn proof_bytes(&self) -> usize {
        let handshake_bytes = FRAGMENT_HEADER_BYTES + self.tls.outgoing(Space::Handshake).len();
        let spare_bytes = self.opening.spare.map_or(0, |_| 1 + CONNECTION_ID_BYTES);
        LONG_OVERHEAD_BYTES + self.addresses().len() + spare_bytes + handshake_bytes
    }

    /// The frame with a client's addresses.
    fn addresses(&self) -> &[u8] {
        self.other.further.as_ref().map_or(&[], |further| &further.addresses)
    }

    /// Appends a packet with chunks to this connection ID, or to the one in use.
    pub(crate) fn seal_to(&mut self, datagram: &mut Vec<u8>, to: Option<ConnectionId>, path: PathId, chunks: &[u8]) {
        let to = to.or_else(|| self.id_on(path, usize::MAX));
        let (Some(to), Some(traffic)) = (to, &mut self.keys.traffic) else { return };
        let start = datagram.len();
        traffic.reserve(datagram);
        datagram.extend_from_slice(chunks);
        // As in `seal`.
        let _not_sent = traffic.seal(datagram, start, to);
    }

    /// Appends a packet with chunks, which `write` appends to the buffer it is given, and whose path it returns. Without chunks there is no packet.
    pub(crate) fn seal<R>(
        &mut self,
        datagram: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Option<(R, PathId)>,
    ) -> Option<R> {
        let traffic = self.keys.traffic.as_mut()?;
        let start = datagram.len();
        traffic.reserve(datagram);
        let written = write(datagram);
        let bytes = datagram.len() - start + WIDE_NUMBER_BYTES - NUMBER_BYTES + TAG_BYTES;
        let to = written.as_ref().and_then(|(_, path)| self.id_on(*path, bytes));
        let (Some((written, _)), Some(to), Some(traffic)) = (written, to, &mut self.keys.traffic) else {
            datagram.truncate(start);
            return None;
        };
        // A key that is used up is an error that the next received packet cannot cure: the association times out.
        let _not_sent = traffic.seal(datagram, start, to);
        Some(written)
    }

    /// Queues a close frame, with the keys of the highest level that the peer is sure to have, and with those above that it may have (RFC 9000 §10.2.3).
    pub(super) fn queue_close(&mut self) {
        let Some(code) = self.error.as_ref().and_then(crate::error::HandshakeError::close_code) else { return };
        let mut frames = Vec::new();
        Frame::Close { code }.write(&mut frames);
        let (local, to) = (self.ids.local, self.ids.peer);
        let has_handshake = self.side() == Side::Client || self.has_opened_handshake;
        let KeyRing { initial, handshake, .. } = &mut self.keys;
        let initial = initial.as_mut().filter(|_| !has_handshake || handshake.is_none());
        let Some(to) = to else { return };
        let mut datagram = Vec::new();
        let mut levels = initial.into_iter().chain(handshake);
        if levels.all(|keys| keys.seal(&mut datagram, to, local, &frames).is_ok())
            && !datagram.is_empty()
            && (self.tls.side() == Side::Client || self.budget().allows(datagram.len()))
        {
            self.queue(vec![datagram]);
        }
    }

    fn queue(&mut self, datagrams: Vec<Vec<u8>>) {
        for datagram in datagrams.into_iter().filter(|datagram| !datagram.is_empty()) {
            if self.outbox.len() < OUTBOX_MAX {
                let budget = self.budget();
                budget.sent = budget.sent.saturating_add(datagram.len());
                self.outbox.push_back(datagram);
            }
        }
    }

    /// Appends all handshake bytes of a level, in packets that each begin with the frames in `prefix`. They go to the last datagram and to
    /// new ones.
    fn seal_level(
        &mut self,
        space: Space,
        prefix: &[u8],
        to: ConnectionId,
        datagrams: &mut Vec<Vec<u8>>,
    ) -> Result<(), SealError> {
        let keys = if space == Space::Initial { &mut self.keys.initial } else { &mut self.keys.handshake };
        let Some(keys) = keys else { return Ok(()) };
        let around = LONG_OVERHEAD_BYTES + prefix.len() + FRAGMENT_HEADER_BYTES;
        let mut rest = self.tls.outgoing(space);
        let mut offset = 0_u16;
        while !rest.is_empty() {
            let Some(datagram) = datagrams.last_mut() else { break };
            let room = self.datagram_bytes_max.saturating_sub(datagram.len() + around);
            if room < rest.len().min(FRAGMENT_BYTES_MIN) {
                if datagram.is_empty() {
                    return Err(SealError::TooLong);
                }
                datagrams.push(Vec::new());
                continue;
            }
            let (bytes, left) = rest.split_at(room.min(rest.len()));
            let mut frames = prefix.to_vec();
            Frame::Fragment { offset, bytes }.write(&mut frames);
            keys.seal(datagram, to, self.ids.local, &frames)?;
            offset = offset.saturating_add(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
            rest = left;
        }
        Ok(())
    }
}

/// What distinguishes the packet numbers of retries. A client must not take one for a copy of an earlier one, with a token for the address that it
/// had then, nor the later handshake for a copy of the retry. If two tokens lead to the same number, the retries at other times do not.
pub(crate) fn retry_salt(now: Instant, token: &[u8]) -> u64 {
    let [_, high, low, ..] = token else { return 0 };
    u64::from(u16::from_be_bytes([*high, *low])) + now.as_nanos() / 1_000_000
}

/// Appends a retry from a server to a client.
pub(crate) fn seal_retry(
    keys: &mut LongKeys,
    datagram: &mut Vec<u8>,
    (to, from): (ConnectionId, ConnectionId),
    token: &[u8],
) -> Result<(), SealError> {
    let mut frames = Vec::new();
    Frame::Retry(token).write(&mut frames);
    keys.seal(datagram, to, from, &frames)
}

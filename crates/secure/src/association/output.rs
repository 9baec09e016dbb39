//! Writes datagrams: turns the core's packets into protected ones.

use festina_sctp::wire::COMMON_HEADER_BYTES;
use festina_sctp::{Association, AssociationState, PathId, Transmit};
use festina_units::{EcnCodepoint, Instant};
use rustls::Side;

use super::input::TAG_REFLECTED;
use super::{CHALLENGE_DATAGRAM_BYTES, SecureAssociation};
use crate::wire::SHORT_OVERHEAD_BYTES;

/// Chunk types (RFC 9260 §3.2).
const INIT: u8 = 1;
const COOKIE_ECHO: u8 = 10;

impl SecureAssociation {
    /// Appends the next datagram to `buffer`, if one may be sent now.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.poll_for_candidates(now, buffer) {
            return Some(transmit);
        }
        let start = buffer.len();
        self.channel.divert(self.moves.as_mut().map_or(0, |moves| moves.diverted_bytes_max()));
        let transmit = self.poll_for_peer(now, buffer)?;
        if self.channel.is_diverted()
            && let Some(path) = self.moves.as_mut().and_then(|moves| moves.divert(transmit.len))
        {
            self.ends.sent_from = path.local;
            return Some(Transmit { destination: path.remote, ..transmit });
        }
        let path = self.path_to(transmit.destination);
        self.ends.sent_from = if path == PathId::PRIMARY { self.path().local } else { None };
        if let (Some(moves), Some(datagram)) = (&mut self.moves, buffer.get(start..)) {
            moves.copy(path, datagram);
        }
        Some(transmit)
    }

    /// Appends a datagram for a path that may be the client's.
    fn poll_for_candidates(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let moves = self.moves.as_deref_mut()?;
        let start = buffer.len();
        let path = match moves.pop_copy() {
            Some((path, datagram)) => {
                buffer.extend_from_slice(&datagram);
                path
            }
            None if self.core.as_ref().is_some_and(|core| core.is_closed()) => return None,
            None => {
                let (id, path, to, nonce) = moves.poll_challenge(now, CHALLENGE_DATAGRAM_BYTES, &self.context)?;
                let token = |id| moves.resets.as_ref()?.token(id, path.local);
                let spare = to.map_or(Vec::new(), |_| self.channel.spare_chunk(&self.context, token));
                self.channel.write_challenge(buffer, (id, to), nonce, &spare);
                path
            }
        };
        self.ends.sent_from = path.local;
        let len = buffer.len() - start;
        (len > 0).then_some(Transmit::new(path.remote, len, EcnCodepoint::NotCapable))
    }

    fn poll_for_peer(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if let Some(datagram) = self.channel.pop_datagram() {
                buffer.extend_from_slice(&datagram);
                return Some(Transmit::new(self.path().remote, datagram.len(), EcnCodepoint::NotCapable));
            }
            if let Some((chunk, path)) = self.late_answer.take() {
                let start = buffer.len();
                self.seal(now, path, &[chunk, TAG_REFLECTED, 0, 4], buffer);
                if buffer.len() > start {
                    return Some(self.transmit(path, buffer.len() - start));
                }
            }
            if self.writes_in_place(now) {
                return self.write_in_place(now, buffer);
            }
            let mut packet = Vec::new();
            let transmit = self.core.as_mut().and_then(|core| core.poll_transmit(now, &mut packet));
            if self.is_closed() {
                self.linger(now);
            }
            let start = buffer.len();
            let late_path = self.channel.late_path().unwrap_or_else(|| self.usual_path());
            match &transmit {
                Some(transmit) => {
                    let path = self.path_to(transmit.destination);
                    self.protect(now, path, packet.get(COMMON_HEADER_BYTES..).unwrap_or_default(), buffer);
                }
                None if self.channel.has_late(now) && !self.is_closed() => self.seal(now, late_path, &[], buffer),
                None => {}
            }
            let len = buffer.len() - start;
            if len > 0 {
                return Some(
                    transmit.map_or_else(|| self.transmit(late_path, len), |transmit| Transmit { len, ..transmit }),
                );
            }
            if transmit.is_none() && !self.channel.has_datagram() {
                return None;
            }
        }
    }

    /// Whether the core's next packet leaves as it is: it holds no handshake chunks, and nothing is added to it.
    fn writes_in_place(&self, now: Instant) -> bool {
        let is_open = |core: &Association| !core.is_closed() && core.state() != AssociationState::CookieEchoed;
        self.is_adopted && !self.channel.has_late(now) && self.core.as_deref().is_some_and(is_open)
    }

    /// Has the core write its chunks behind the protected header, and seals them there.
    fn write_in_place(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let core = self.core.as_deref_mut()?;
        let start = buffer.len();
        let sent = loop {
            let write = |buffer: &mut Vec<u8>| {
                let transmit = core.poll_chunks(now, buffer)?;
                Some((transmit, core.path_to(transmit.destination.ip()).unwrap_or(PathId::PRIMARY)))
            };
            match self.channel.seal(buffer, write) {
                Some(_) if buffer.len() == start => {}
                sent => break sent,
            }
        };
        if core.is_closed() {
            self.linger(now);
        }
        sent.map(|transmit| Transmit { len: buffer.len() - start, ..transmit })
    }

    /// Describes a datagram that holds nothing of the core.
    fn transmit(&self, path: PathId, len: usize) -> Transmit {
        let destination = self.core.as_ref().map_or(self.ends.remote, |core| core.destination(path));
        Transmit::new(destination, len, EcnCodepoint::NotCapable)
    }

    /// Protects the chunks of one packet of the core. The handshake chunks stand for handshake bytes of TLS.
    fn protect(&mut self, now: Instant, path: PathId, chunks: &[u8], buffer: &mut Vec<u8>) {
        let &[kind, _, high, low, ..] = chunks else { return };
        if !self.is_adopted {
            // Before the handshake is complete, only the hello is sent.
            if kind == INIT && self.channel.error().is_none() {
                self.early.has_left = true;
                self.channel.queue_hello();
            }
            return;
        }
        if kind != COOKIE_ECHO {
            return self.seal(now, path, chunks, buffer);
        }
        let length = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
        let rest = chunks.get(length..).unwrap_or_default();
        let beside_bytes = if rest.is_empty() { 0 } else { rest.len() + SHORT_OVERHEAD_BYTES };
        let start = buffer.len();
        self.channel.write_proof(buffer, beside_bytes);
        if !rest.is_empty() {
            self.seal(now, path, rest, buffer);
        }
        if self.channel.has_datagram() && buffer.len() > start {
            // Handshake bytes that did not fit go first.
            self.channel.push_datagram(buffer.split_off(start));
        }
    }

    /// Seals chunks, with session tickets in front of them if they fit.
    fn seal(&mut self, now: Instant, path: PathId, chunks: &[u8], buffer: &mut Vec<u8>) {
        let room = self.channel.datagram_bytes_max().saturating_sub(SHORT_OVERHEAD_BYTES + chunks.len());
        let is_confirmed = self.channel.side() == Side::Server
            || self.core.as_ref().is_some_and(|core| core.state() != AssociationState::CookieEchoed);
        let mut late = Vec::new();
        if is_confirmed && self.channel.has_late(now) {
            let is_proven = path == PathId::PRIMARY || self.core.as_ref().is_some_and(|core| core.is_confirmed(path));
            let token = |id| self.moves.as_ref()?.resets.as_ref()?.token(id, self.ends.local);
            let spare = self.channel.late_path().map(|_| self.channel.spare_chunk(&self.context, token));
            let chunks = (&mut late, &*spare.unwrap_or_default());
            self.channel.write_late(now, (path, is_proven), chunks, room);
        }
        // If a key is used up, later packets cannot help: the association times out.
        self.channel.seal(buffer, |buffer| {
            buffer.extend_from_slice(&late);
            buffer.extend_from_slice(chunks);
            Some(((), path))
        });
    }
}

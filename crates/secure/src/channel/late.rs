//! Handshake bytes after the handshake: session tickets (RFC 8446 §4.6.1). They are sent in separate chunks in front of
//! SCTP's, until the client has acknowledged them. So are the challenge of a client's new address and its answer, and lists of addresses.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type 0xbc   |   flags 0     |             length            |
//! +---------------+---------------+-------------------------------+
//! |      offset of first byte     |   handshake bytes ...         |
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |   type 0xbd   |   flags 0     |           length 6            |
//! +---------------+---------------+-------------------------------+
//! |   bytes received in order     |           padding 0           |
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |  0xbe or 0xbf |   flags 0     |           length 12           |
//! +---------------+---------------+-------------------------------+
//! |                    nonce of 8 bytes ...                       |
//!
//! +---------------+---------------+-------------------------------+
//! |   type 0xba   |   flags 0     |         length 16 or 32       |
//! +---------------+---------------+-------------------------------+
//! |                  number of the connection ID                  |
//! +---------------------------------------------------------------+
//! |   connection ID of 8 bytes, token of resets (16 bytes) ...    |
//! ```

use std::collections::VecDeque;

use festina_sctp::PathId;
use festina_units::{Duration, Instant};
use rustls::Side;

use super::Channel;
use super::naming::{LIST, RECEIVED};
use super::spares::{HEADER_BYTES, SPARE};
use crate::error::DatagramDropped;
use crate::parameters::Spare;
use crate::tls::Space;
use crate::wire::ConnectionId;

const FRAGMENT: u8 = 0xbc;
const ACKNOWLEDGEMENT: u8 = 0xbd;
const CHALLENGE: u8 = 0xbe;
const ANSWER: u8 = 0xbf;
/// Length of a challenge and of its answer.
pub(crate) const CHALLENGE_BYTES: usize = 12;
/// Chunk header and offset.
const FRAGMENT_HEADER_BYTES: usize = 6;
/// Bytes of tickets in one packet.
const PIECE_BYTES_MAX: usize = 512;
/// How often a server sends tickets, and the first pause between.
const ATTEMPTS_MAX: u8 = 6;
/// Challenges whose answers wait for a packet, at most. The latest are answered.
const CHALLENGES_MAX: usize = 8;
const PAUSE: Duration = Duration::from_millis(500);

/// Progress of the handshake bytes after the handshake.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Bytes that the client has acknowledged.
    acknowledged: usize,
    /// Bytes sent since the last pause.
    sent: usize,
    repeat_at: Option<Instant>,
    attempts: u8,
    /// The client owes an acknowledgement.
    acknowledges: bool,
    /// The nonces of the peer's challenges that are to be returned, and the path of each.
    challenges: VecDeque<(u64, PathId)>,
}

impl Channel {
    /// Returns whether a chunk is to be sent.
    pub(crate) fn has_late(&self, now: Instant) -> bool {
        let has_lists = || self.other.further.as_ref().is_some_and(|further| further.lists.has_any(now));
        let is_due = self.late.acknowledges || !self.late.challenges.is_empty();
        self.is_complete() && (is_due || self.has_tickets(now) || has_lists())
    }

    fn has_tickets(&self, now: Instant) -> bool {
        let left = self.tls.outgoing(Space::Traffic).len() > self.late.sent.max(self.late.acknowledged);
        let may_repeat = self.late.attempts < ATTEMPTS_MAX && self.tickets_deadline().is_some_and(|at| now >= at);
        self.side() == Side::Server && (left || may_repeat)
    }

    /// Returns when such chunks are sent again.
    pub(crate) fn late_deadline(&self) -> Option<Instant> {
        let lists = self.other.further.as_ref().and_then(|further| further.lists.deadline());
        lists.map_or_else(|| self.tickets_deadline(), |at| Instant::earliest([Some(at), self.tickets_deadline()]))
    }

    fn tickets_deadline(&self) -> Option<Instant> {
        let is_acknowledged = self.late.acknowledged >= self.tls.outgoing(Space::Traffic).len();
        self.late.repeat_at.filter(|_| !is_acknowledged && self.late.attempts < ATTEMPTS_MAX && self.error.is_none())
    }

    /// The path of the next answer to a challenge.
    pub(crate) fn late_path(&self) -> Option<PathId> {
        self.late.challenges.front().map(|(_, path)| *path)
    }

    /// Appends the chunks that are due on this path and fit: only answers to challenges, with `spare`, unless it is proven that the peer receives there.
    pub(crate) fn write_late(
        &mut self,
        now: Instant,
        (path, is_proven): (PathId, bool),
        (chunks, spare): (&mut Vec<u8>, &[u8]),
        room: usize,
    ) {
        self.late.challenges.retain(|&(nonce, of)| {
            let leaves = of == path && room >= chunks.len() + CHALLENGE_BYTES + spare.len();
            if leaves {
                chunks.extend_from_slice(&nonce_chunk(ANSWER, nonce));
            }
            !leaves
        });
        if !chunks.is_empty() {
            chunks.extend_from_slice(spare);
        }
        if !is_proven {
            return;
        }
        if self.late.acknowledges && room >= chunks.len() + 8 {
            self.late.acknowledges = false;
            let [high, low] = self.tls.received(Space::Traffic).to_be_bytes();
            chunks.extend_from_slice(&[ACKNOWLEDGEMENT, 0, 0, 6, high, low, 0, 0]);
        }
        if let Some(further) = &mut self.other.further {
            further.lists.write(now, chunks, room);
        }
        if !self.has_tickets(now) {
            return;
        }
        let tickets = self.tls.outgoing(Space::Traffic);
        let is_new = tickets.len() > self.late.sent.max(self.late.acknowledged);
        let from = if is_new { self.late.sent.max(self.late.acknowledged) } else { self.late.acknowledged };
        let rest = tickets.get(from..).unwrap_or_default();
        let length = rest.len().min(PIECE_BYTES_MAX);
        let padded = (FRAGMENT_HEADER_BYTES + length).next_multiple_of(4);
        let (Ok(offset), Ok(wire_length)) = (u16::try_from(from), u16::try_from(FRAGMENT_HEADER_BYTES + length)) else {
            return;
        };
        if padded + chunks.len().max(CHALLENGE_BYTES + 8) > room {
            return;
        }
        chunks.extend_from_slice(&[FRAGMENT, 0]);
        chunks.extend_from_slice(&wire_length.to_be_bytes());
        chunks.extend_from_slice(&offset.to_be_bytes());
        chunks.extend_from_slice(rest.get(..length).unwrap_or_default());
        chunks.resize(chunks.len() + padded - FRAGMENT_HEADER_BYTES - length, 0);
        self.late.sent = from + length;
        if self.late.sent == tickets.len() {
            self.late.repeat_at = Some(now + PAUSE * (1 << self.late.attempts));
            self.late.attempts += 1;
        }
    }

    /// Appends a packet that challenges an address, which may be the peer's new one on this path, with a spare if its connection ID is not the one in use.
    pub(crate) fn write_challenge(
        &mut self,
        buffer: &mut Vec<u8>,
        (path, to): (PathId, Option<ConnectionId>),
        nonce: u64,
        spare: &[u8],
    ) {
        self.seal_to(buffer, to, path, &[&nonce_chunk(CHALLENGE, nonce), spare].concat());
    }

    /// Takes such chunks from the front of a packet's chunks. Challenges count only from an address of the peer, and are answered on its path. Returns
    /// the number of their bytes.
    ///
    /// # Errors
    /// A chunk is malformed.
    pub(crate) fn take_late(&mut self, chunks: &[u8], from: Option<PathId>) -> Result<usize, DatagramDropped> {
        let mut at = 0;
        while let Some(
            &[kind @ (SPARE | FRAGMENT | ACKNOWLEDGEMENT | CHALLENGE | ANSWER | LIST | RECEIVED), _, high, low],
        ) = chunks.get(at..).and_then(<[u8]>::first_chunk)
        {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let value = chunks.get(at + 4..at + length).ok_or(DatagramDropped::Frames)?;
            let (number, bytes) = value.split_first_chunk().ok_or(DatagramDropped::Frames)?;
            let number = u16::from_be_bytes(*number);
            match (kind, self.side()) {
                (SPARE, _) => self.take_spare(value)?,
                (CHALLENGE, _) => {
                    let nonce = value.try_into().map_err(|_| DatagramDropped::Frames)?;
                    if let Some(path) = from {
                        self.late.challenges.truncate(CHALLENGES_MAX - 1);
                        self.late.challenges.push_front((u64::from_be_bytes(nonce), path));
                    }
                }
                (FRAGMENT, Side::Client) => {
                    self.late.acknowledges = true;
                    // If this fails, the server has violated TLS, and the channel ends.
                    if let Err(error) = self.tls.insert(Space::Traffic, number, bytes) {
                        self.fail(error);
                        return Err(DatagramDropped::Failed);
                    }
                }
                (ACKNOWLEDGEMENT, Side::Server) => {
                    let number = usize::from(number).min(self.tls.outgoing(Space::Traffic).len());
                    self.late.acknowledged = self.late.acknowledged.max(number);
                }
                (LIST | RECEIVED, _) => {
                    self.other.further.get_or_insert_default().lists.take(kind, number, bytes)?;
                }
                // Clients send no tickets. Answers are taken by their path.
                _ => {}
            }
            at += length.next_multiple_of(4);
        }
        Ok(at.min(chunks.len()))
    }
}

/// The nonces that the chunks at the front of a client's packet return.
pub(crate) fn answers(mut chunks: &[u8]) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        let ([ANSWER, _, 0, 12, nonce @ ..], rest) = chunks.split_first_chunk::<CHALLENGE_BYTES>()? else {
            return None;
        };
        chunks = rest;
        Some(u64::from_be_bytes(*nonce))
    })
}

/// The connection ID of the first spare among the chunks at the front of a packet.
pub(crate) fn spare_in(mut chunks: &[u8]) -> Option<ConnectionId> {
    while let Some(&[kind @ (SPARE | FRAGMENT | ACKNOWLEDGEMENT | CHALLENGE | ANSWER), _, high, low]) =
        chunks.first_chunk()
    {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind == SPARE {
            return Some(Spare::read(chunks.get(HEADER_BYTES..length)?)?.id);
        }
        chunks = chunks.get(length.next_multiple_of(4).max(4)..)?;
    }
    None
}

fn nonce_chunk(kind: u8, nonce: u64) -> [u8; CHALLENGE_BYTES] {
    let [a, b, c, d, e, f, g, h] = nonce.to_be_bytes();
    [kind, 0, 0, 12, a, b, c, d, e, f, g, h]
}

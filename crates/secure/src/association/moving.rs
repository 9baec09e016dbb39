//! A client that comes to another address (RFC 9000 §9): its server follows once the client has returned a nonce that was sent there.
//!
//! An authentic packet that is newer than all before it, from an address that is not the client's, makes a candidate. The server challenges it,
//! and sends a copy of each of its datagrams there as far as three times the bytes received from it allow. The first one repeats the earliest data
//! in flight, which may have missed the client. The datagrams themselves go to the old address until the answer is received. So a candidate that an
//! attacker has made up, by sending on a packet that it saw, takes nothing away unless the attacker also sends on the challenge and its answer.

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use festina_units::{Duration, Instant};

use crate::address::Proofs;
use crate::channel::AMPLIFICATION_MAX;
use crate::wire::ConnectionId;

/// Addresses that are challenged at the same time. A further one takes the place of the oldest.
const CANDIDATES_MAX: usize = 4;
/// Challenges sent to an address, and the pause after the first. Each further pause is twice as long.
const CHALLENGES_MAX: usize = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// Copies of datagrams that wait, at most.
const COPIES_MAX: usize = 64;

/// The addresses that a client may have come to.
#[derive(Debug)]
pub(super) struct Moves {
    proofs: Arc<Proofs>,
    local: ConnectionId,
    /// Nonces made so far.
    nonces: u64,
    /// The newest comes last.
    candidates: Vec<Candidate>,
    copies: VecDeque<(SocketAddr, Vec<u8>)>,
}

/// An address that may be the client's.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    received_bytes: usize,
    sent_bytes: usize,
    /// The nonce of each challenge, and when it was sent.
    challenges: Vec<(u64, Instant)>,
    /// When the next challenge is sent, or the candidate forgotten.
    next_at: Instant,
}

impl Candidate {
    fn allows(&self, bytes: usize) -> bool {
        self.sent_bytes.saturating_add(bytes) <= self.received_bytes.saturating_mul(AMPLIFICATION_MAX)
    }
}

impl Moves {
    pub(super) fn new(proofs: Arc<Proofs>, local: ConnectionId) -> Self {
        Self { proofs, local, nonces: 0, candidates: Vec::new(), copies: VecDeque::new() }
    }

    /// An authentic datagram was received from an address that is not the client's. Returns whether that makes a candidate.
    pub(super) fn heard(&mut self, now: Instant, from: SocketAddr, bytes: usize, is_newest: bool) -> bool {
        if let Some(at) = self.candidates.iter().position(|candidate| candidate.address == from) {
            let mut candidate = self.candidates.remove(at);
            candidate.received_bytes = candidate.received_bytes.saturating_add(bytes);
            // One that only repeats old packets stays behind those that send new ones.
            let at = if is_newest { self.candidates.len() } else { at };
            self.candidates.insert(at, candidate);
            return false;
        }
        let ip = from.ip();
        if !is_newest || ip.is_multicast() || ip.is_unspecified() || from.port() == 0 {
            return false;
        }
        if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.remove(0);
        }
        let challenges = Vec::new();
        self.candidates.push(Candidate {
            address: from,
            received_bytes: bytes,
            sent_bytes: 0,
            challenges,
            next_at: now,
        });
        true
    }

    /// The client has returned a nonce. Returns its new address and the round trip to there.
    pub(super) fn answered(&mut self, now: Instant, nonce: u64) -> Option<(SocketAddr, Duration)> {
        let sent_at = |candidate: &Candidate| {
            let (_, sent_at) = candidate.challenges.iter().find(|(sent, _)| *sent == nonce)?;
            Some((candidate.address, now.saturating_duration_since(*sent_at)))
        };
        let moved = self.candidates.iter().find_map(sent_at)?;
        self.candidates.clear();
        self.copies.clear();
        Some(moved)
    }

    /// The next challenge that is due: where it goes, and its nonce. `bytes` is the length of its datagram.
    pub(super) fn poll_challenge(&mut self, now: Instant, bytes: usize) -> Option<(SocketAddr, u64)> {
        let is_due =
            |candidate: &&mut Candidate| candidate.next_at <= now && candidate.challenges.len() < CHALLENGES_MAX;
        let candidate = self.candidates.iter_mut().filter(|candidate| candidate.allows(bytes)).find(is_due)?;
        let nonce = self.proofs.challenge(self.nonces, self.local);
        self.nonces += 1;
        candidate.next_at = now + PAUSE * (1 << candidate.challenges.len());
        candidate.challenges.push((nonce, now));
        candidate.sent_bytes += bytes;
        Some((candidate.address, nonce))
    }

    /// Keeps a copy of a datagram for the newest candidate, if it may get as much.
    pub(super) fn copy(&mut self, datagram: &[u8]) {
        if let Some(candidate) = self.candidates.last_mut()
            && candidate.allows(datagram.len())
            && self.copies.len() < COPIES_MAX
        {
            candidate.sent_bytes += datagram.len();
            self.copies.push_back((candidate.address, datagram.to_vec()));
        }
    }

    pub(super) fn pop_copy(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.copies.pop_front()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.candidates.iter().map(|candidate| candidate.next_at).min()
    }

    /// Forgets candidates that have not answered in time, or that may get nothing more. A newer packet from there makes another one.
    pub(super) fn handle_timeout(&mut self, now: Instant, bytes: usize) {
        self.candidates.retain_mut(|candidate| {
            let is_over = candidate.challenges.len() >= CHALLENGES_MAX || !candidate.allows(bytes);
            candidate.next_at > now || !is_over
        });
    }
}

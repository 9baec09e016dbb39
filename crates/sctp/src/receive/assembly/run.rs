//! Consecutive fragments of one message.

use bytes::Bytes;

use super::cost::{FRAGMENT_BYTES_MIN, RUN_BYTES};
use super::parts::Parts;
use super::ready::Held;
use super::{Piece, Place};
use crate::message::ReceivedMessage;

const MIXED: &str = "the fragments of a message differ in stream, stream sequence number or U bit";

/// Consecutive fragments of one message, counted by TSN (DATA) or FSN (I-DATA).
#[derive(Debug)]
pub(super) struct Run {
    pub(super) first: u64,
    fragments: u64,
    parts: Parts,
    pub(super) begins: bool,
    pub(super) ends: bool,
    /// Another message begins directly after it although it has not ended: its sender has abandoned the rest.
    pub(super) given_up: bool,
    /// The SSN or MID of the message.
    pub(super) number: u32,
    /// The message so far, but for its payload. The PPID is that of the lowest fragment.
    pub(super) message: ReceivedMessage,
}

impl Run {
    /// A run that still lacks its fragment.
    pub(super) fn new(first: u64, piece: &impl Piece) -> Self {
        Self {
            first,
            fragments: 0,
            parts: Parts::default(),
            begins: piece.beginning(),
            ends: false,
            given_up: false,
            number: piece.number(),
            message: piece.message(Bytes::new()),
        }
    }

    /// The number that would follow the last fragment.
    pub(super) fn next(&self) -> u64 {
        self.first + self.fragments
    }

    pub(super) fn cost_bytes(&self) -> usize {
        RUN_BYTES + self.parts.held_bytes()
    }

    /// Bytes of payload.
    pub(super) fn payload_bytes(&self) -> usize {
        self.parts.len()
    }

    /// Checks that a piece belongs to the same message.
    pub(super) fn check_same(&self, piece: &impl Piece) -> Result<(), &'static str> {
        self.check(&self.message, piece.stream(), piece.unordered(), piece.number())
    }

    /// The SSN of an unordered message has no meaning.
    fn check(
        &self,
        message: &ReceivedMessage,
        stream: crate::wire::StreamId,
        unordered: bool,
        number: u32,
    ) -> Result<(), &'static str> {
        let same = message.stream == stream && message.unordered == unordered && (unordered || self.number == number);
        if same { Ok(()) } else { Err(MIXED) }
    }

    /// Appends a fragment.
    pub(super) fn push(&mut self, piece: &impl Piece, place: &Place<'_>) {
        if piece.payload().len() < FRAGMENT_BYTES_MIN {
            self.parts.gather(piece.payload(), place.gather_bytes());
        } else {
            let (payload, charge_bytes) = place.payload_to_hold(piece.payload());
            self.parts.push(payload, charge_bytes);
        }
        self.fragments += 1;
        self.ends = piece.end();
    }

    /// Appends the run above.
    pub(super) fn join(&mut self, above: Self, place: &Place<'_>) -> Result<(), &'static str> {
        self.check(&self.message, above.message.stream, above.message.unordered, above.number)?;
        self.parts.append(above.parts, place.gather_bytes());
        self.fragments += above.fragments;
        self.ends = above.ends;
        self.given_up = above.given_up;
        Ok(())
    }

    /// Whether no fragment is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.begins && self.ends
    }

    /// One copy into one buffer of just the right size.
    pub(super) fn assemble(self) -> Held {
        let payload = self.parts.concatenate();
        let charge_bytes = payload.len();
        Held::new(ReceivedMessage { payload, ..self.message }, charge_bytes)
    }
}

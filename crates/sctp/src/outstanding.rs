//! What has a TSN and is not yet acknowledged for good.
//!
//! | room | what it knows |
//! |---|---|
//! | [`ledger`] | the chunks by TSN, their states, and the sums that follow from them |
//! | [`ack`] | what an acknowledgement does to the ledger |
//! | [`digest`] | what an acknowledgement says |
//! | [`loss`] | which chunks a SACK reports missing: pure |
//! | [`partial`] | what the peer may be moved past: pure |
//! | [`reported`] | what the last SACK's gap ack blocks said: what the next one changes |
//! | [`settled`] | what left more than once, after it was acknowledged |

pub(crate) mod ack;
mod arrivals;
pub(crate) mod digest;
pub(crate) mod ledger;
pub(crate) mod loss;
pub(crate) mod partial;
mod reported;
mod settled;

pub(crate) use ack::{SackTerms, duplicates};
pub(crate) use digest::{Acknowledgement, Arrival, Digest, Run, SettledPiece};
pub(crate) use ledger::{CHUNKS_KEPT, Chunk, ChunkState, Form, Ledger, MessageSlot, PathId, SentAs};

/// Chunks that may be outstanding. It keeps the rule of RFC 9260 §6.1 that the ordered messages of a stream in the send window have
/// SSNs that tell them apart, without counting per stream, and bounds the ledger's memory.
pub(crate) const CHUNKS_MAX: usize = crate::bounds::TSN_SPAN_MAX as usize;

//! Chunks that have a TSN and are not yet acknowledged for good.
//!
//! | module | purpose |
//! |---|---|
//! | [`ledger`] | the chunks by TSN, their states, and sums over them |
//! | [`ack`] | applies an acknowledgement to the ledger |
//! | [`digest`] | the summary of one acknowledgement |
//! | [`loss`] | finds the chunks that a SACK reports missing: pure |
//! | [`partial`] | computes how far a FORWARD-TSN can move the peer: pure |
//! | [`reported`] | the gap ack blocks of the last SACK, to find the changes in the next one |
//! | [`settled`] | acknowledged chunks that were sent more than once |

pub(crate) mod ack;
mod arrivals;
pub(crate) mod digest;
pub(crate) mod ledger;
pub(crate) mod loss;
pub(crate) mod partial;
mod reported;
mod settled;

pub(crate) use ack::{SackTerms, duplicates};
pub(crate) use digest::{Acknowledgement, Arrival, Credit, Digest, Run};
pub use ledger::PathId;
pub(crate) use ledger::{
    ByPath, CHUNKS_KEPT, Chunk, ChunkState, Form, Ledger, MessageSlot, PATHS_MAX, Tally, Transmission,
};

/// Chunks that may be outstanding. It keeps the rule of RFC 9260 §6.1 that the ordered messages of a stream in the send window have
/// SSNs that tell them apart, without counting per stream, and bounds the ledger's memory.
pub(crate) const CHUNKS_MAX: usize = crate::bounds::TSN_SPAN_MAX as usize;

//! Chunks that have a TSN and are not yet acknowledged for good.
//!
//! | module | purpose |
//! |---|---|
//! | [`chunk`] | one chunk and its state |
//! | [`ledger`] | the chunks by TSN, their states, and sums over them |
//! | [`ack`] | applies an acknowledgement to the ledger |
//! | [`digest`] | the summary of one acknowledgement |
//! | [`loss`] | finds the chunks that a SACK reports missing: pure |
//! | [`partial`] | computes how far a FORWARD-TSN can move the peer: pure |
//! | [`reported`] | the gap ack blocks of the last SACK, to find the changes in the next one |
//! | [`settled`] | acknowledged chunks that were sent more than once |

pub(crate) mod ack;
mod arrivals;
mod chunk;
pub(crate) mod digest;
pub(crate) mod ledger;
pub(crate) mod loss;
pub(crate) mod partial;
mod reported;
mod settled;

pub(crate) use ack::{DUPLICATES_READ_MAX, SackTerms, duplicates};
pub(crate) use chunk::{Chunk, ChunkState, Form, MessageSlot, Transmission};
pub(crate) use digest::{Acknowledgement, Arrival, Credit, Digest, Run};
pub(crate) use ledger::{CHUNKS_KEPT, Ledger, Tally};

pub(crate) use crate::path_id::{ByPath, PATHS_MAX, PathId, PathSet};

/// Chunks that may be outstanding. It keeps the rule of RFC 9260 §6.1 that the ordered messages of a stream in the send window have
/// SSNs that tell them apart, without counting per stream, and bounds the ledger's memory.
pub(crate) const CHUNKS_MAX: usize = crate::bounds::TSN_SPAN_MAX as usize;

//! Bounds that a receiver relies on and its sender keeps to. Each pair has one constant, or one derived from the other, so that the two sides
//! cannot disagree. `ARCHITECTURE.md` lists all pairs.

/// Maximum number of a sender's outstanding TSNs, and of TSNs above its cumulative TSN that a receiver accepts.
///
/// Less than half of the SSN space: the ordered messages of a stream in flight span no more, so an SSN is unambiguously ahead or behind. RFC 9260
/// §6.1 allows 65,535, which its serial arithmetic (§1.6) cannot order once messages are skipped. It has 16 bits, like the offsets of gap ack blocks.
pub(crate) const TSN_SPAN_MAX: u16 = SSN_AHEAD_MAX;

/// Maximum distance of an SSN that counts as ahead; any other is behind (RFC 9260 §1.6).
pub(crate) const SSN_AHEAD_MAX: u16 = (1 << 15) - 1;

/// Maximum distance of a MID that counts as ahead; any other is behind (RFC 8260 §2.1).
pub(crate) const MID_AHEAD_MAX: u32 = (1 << 31) - 1;

/// Maximum number of TSNs that a FORWARD-TSN may skip at once, or twice the receive buffer if that is more: each of them carried a byte that the
/// window allowed, or was abandoned in flight. A larger skip comes from an earlier association with the same tag: RFC 9260 §5.2.1 has an endpoint
/// answer a new INIT with its present tag, so packets of a peer that has restarted meanwhile look like those of its successor.
pub(crate) const SKIP_MAX: u64 = 1 << 20;

const _: () = assert!(TSN_SPAN_MAX as u32 <= MID_AHEAD_MAX, "each message under way has a chunk at least");
const _: () = assert!(TSN_SPAN_MAX as u64 <= SKIP_MAX, "a FORWARD-TSN skips outstanding chunks only");

//! One adapter per stack. Each uses the stack's public interface in the cheapest way that it offers.

mod dcsctp;
mod festina;
mod rtc_sctp;
mod sctp_proto;

use std::time::{Duration, Instant};

pub use dcsctp::{DcSctp, DcSctpPeer};
pub use festina::{Festina, FestinaPeer};
pub use rtc_sctp::{RtcSctp, RtcSctpPeer};
pub use sctp_proto::{SctpProto, SctpProtoPeer};

/// The instant that stands for virtual time zero, for stacks that want [`Instant`]s.
#[expect(clippy::disallowed_methods, reason = "std's Instant can only be made from the clock; nothing reads it again")]
fn virtual_epoch(now: Duration) -> Instant {
    let real = Instant::now();
    real.checked_sub(now).unwrap_or(real)
}

/// Whether a packet consists of a SHUTDOWN COMPLETE chunk (RFC 9260 section 3.3.13): it is never bundled.
fn is_shutdown_complete(packet: &[u8]) -> bool {
    const COMMON_HEADER_BYTES: usize = 12;
    const SHUTDOWN_COMPLETE: u8 = 14;
    packet.get(COMMON_HEADER_BYTES) == Some(&SHUTDOWN_COMPLETE)
}

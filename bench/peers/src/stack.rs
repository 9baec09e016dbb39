//! One adapter per stack. Each uses the stack's public interface in the cheapest way that it offers.

mod dcsctp;
mod festina;
mod rtc_sctp;
mod sctp_proto;
mod webrtc;

pub use dcsctp::{DcSctp, DcSctpPeer};
pub use festina::{Festina, FestinaPeer};
pub use rtc_sctp::{RtcSctp, RtcSctpPeer};
pub use sctp_proto::{SctpProto, SctpProtoPeer};

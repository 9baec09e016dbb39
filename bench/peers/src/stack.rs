//! One adapter per stack. Each uses the stack's public interface in the cheapest way that it offers.
//!
//! Those of SCTP are a [`Stack`](crate::Stack) each. QUIC, KCP and ENet are here for [`thin`](crate::thin) alone: their settings make pairs
//! of a client and its server.

mod dcsctp;
mod enet;
mod epoch;
mod festina;
mod kcp;
mod quic;
mod rtc_sctp;
mod sctp_proto;
mod secure;
mod webrtc;

pub use dcsctp::{DcSctp, DcSctpPeer};
pub use enet::{EnetPeer, EnetSettings};
pub use festina::{Festina, FestinaPeer};
pub use kcp::{KcpPeer, KcpSettings};
pub use quic::{Carriage, Noq, Quic, QuicSettings, Quinn};
pub use rtc_sctp::{RtcSctp, RtcSctpPeer};
pub use sctp_proto::{SctpProto, SctpProtoPeer};
pub use secure::{SecureFestina, SecurePeer};

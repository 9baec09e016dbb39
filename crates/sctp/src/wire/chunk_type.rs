//! Chunk type numbers (RFC 9260 §3.2, table 1; RFC 3758 §3.2; RFC 8260 §2; RFC 6525 §3.1).

use core::fmt;

/// Payload data.
pub const DATA: u8 = 0;
/// Initiation.
pub const INIT: u8 = 1;
/// Initiation acknowledgement.
pub const INIT_ACK: u8 = 2;
/// Selective acknowledgement.
pub const SACK: u8 = 3;
/// Heartbeat request.
pub const HEARTBEAT: u8 = 4;
/// Heartbeat acknowledgement.
pub const HEARTBEAT_ACK: u8 = 5;
/// Abort.
pub const ABORT: u8 = 6;
/// Shutdown.
pub const SHUTDOWN: u8 = 7;
/// Shutdown acknowledgement.
pub const SHUTDOWN_ACK: u8 = 8;
/// Operation error.
pub const ERROR: u8 = 9;
/// State cookie.
pub const COOKIE_ECHO: u8 = 10;
/// Cookie acknowledgement.
pub const COOKIE_ACK: u8 = 11;
/// Explicit congestion notification echo (RFC 4960 appendix A; RFC 9260 §3.2 reserves it).
pub const ECNE: u8 = 12;
/// Congestion window reduced (likewise).
pub const CWR: u8 = 13;
/// Shutdown complete.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// Selective acknowledgement with non-renegable blocks (draft-natarajan-tsvwg-sctp-nrsack).
pub const NR_SACK: u8 = 0x10;
/// Payload data that may be interleaved (RFC 8260 §2.1).
pub const I_DATA: u8 = 0x40;
/// Requests and responses that change streams (RFC 6525 §3.1).
pub const RE_CONFIG: u8 = 0x82;
/// Bytes without a meaning, which make a packet longer (RFC 4820).
pub const PAD: u8 = 0x84;
/// A weighted sum of chunks that carry user data: Festina's own, not assigned by IANA.
pub const REPAIR: u8 = 0xb6;
/// Missing chunks up to a TSN are abandoned (RFC 3758 §3.2).
pub const FORWARD_TSN: u8 = 0xc0;
/// As FORWARD-TSN, for I-DATA (RFC 8260 §2.3.1).
pub const I_FORWARD_TSN: u8 = 0xc2;
/// Single chunks are abandoned: Festina's own, not assigned by IANA (docs/enhanced-forward-tsn.md).
pub const ENHANCED_FORWARD_TSN: u8 = 0xf5;

/// Displays a chunk type by the name that its RFC gives it, others by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub u8);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            DATA => "DATA",
            INIT => "INIT",
            INIT_ACK => "INIT ACK",
            SACK => "SACK",
            HEARTBEAT => "HEARTBEAT",
            HEARTBEAT_ACK => "HEARTBEAT ACK",
            ABORT => "ABORT",
            SHUTDOWN => "SHUTDOWN",
            SHUTDOWN_ACK => "SHUTDOWN ACK",
            ERROR => "ERROR",
            COOKIE_ECHO => "COOKIE ECHO",
            COOKIE_ACK => "COOKIE ACK",
            ECNE => "ECNE",
            CWR => "CWR",
            SHUTDOWN_COMPLETE => "SHUTDOWN COMPLETE",
            NR_SACK => "NR-SACK",
            I_DATA => "I-DATA",
            RE_CONFIG => "RE-CONFIG",
            PAD => "PAD",
            REPAIR => "REPAIR",
            FORWARD_TSN => "FORWARD-TSN",
            I_FORWARD_TSN => "I-FORWARD-TSN",
            ENHANCED_FORWARD_TSN => "E-FORWARD-TSN",
            other => return write!(f, "type {other:#04x}"),
        })
    }
}

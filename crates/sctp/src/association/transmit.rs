//! Packets that the caller sends.

use std::net::SocketAddr;

use festina_units::EcnCodepoint;

/// One packet that was appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to send it.
    pub destination: SocketAddr,
    /// Its length in bytes.
    pub len: usize,
    /// The ECN field to set in the IP header, that is, whether routers may mark the packet (RFC 3168 §5). Never
    /// [`CongestionExperienced`](EcnCodepoint::CongestionExperienced).
    pub ecn: EcnCodepoint,
    /// Whether IP may cut it into fragments.
    pub fragmentation: Fragmentation,
}

impl Transmit {
    /// Describes a packet that is not known to be too large for its path.
    pub fn new(destination: SocketAddr, len: usize, ecn: EcnCodepoint) -> Self {
        Self { destination, len, ecn, fragmentation: Fragmentation::IfRefused }
    }
}

/// What becomes of a packet that may be too large for its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragmentation {
    /// It is not known to be too large. If the system refuses it, fragments are sent, and [`Association::limit_packet_bytes`](crate::Association::limit_packet_bytes) is called.
    #[default]
    IfRefused,
    /// It is larger than what the path carries, since a chunk of it was cut before the packet size was lowered (RFC 9260 §6.9): sent in fragments.
    Needed,
    /// A probe of its size (RFC 8899): sent whole or not at all.
    Never,
}

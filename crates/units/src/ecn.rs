//! The ECN field of the IP header (RFC 3168 §5), shared by transports, queues and captures.

/// The ECN codepoint of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnCodepoint {
    /// Not-ECT: a queue can only drop the packet.
    #[default]
    NotCapable,
    /// ECT(0) or ECT(1): a queue may mark the packet. Encoded as ECT(0).
    Capable,
    /// CE: a queue has marked the packet.
    CongestionExperienced,
}

impl EcnCodepoint {
    /// Returns the two bits of the ECN field.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable => 0b10,
            Self::CongestionExperienced => 0b11,
        }
    }

    /// Decodes the two lowest bits; the other bits, which belong to the DSCP, are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotCapable,
            0b11 => Self::CongestionExperienced,
            _ => Self::Capable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3168_5_the_bits_of_each_codepoint() {
        let read = [0b00, 0b01, 0b10, 0b11, 0b1011_1100].map(EcnCodepoint::from_bits);
        let (capable, marked) = (EcnCodepoint::Capable, EcnCodepoint::CongestionExperienced);
        assert_eq!(read, [EcnCodepoint::NotCapable, capable, capable, marked, EcnCodepoint::NotCapable]);
        for codepoint in read {
            assert_eq!(EcnCodepoint::from_bits(codepoint.bits()), codepoint);
        }
        assert_eq!(capable.bits(), 0b10, "some queues give ECT(1) another meaning (RFC 9331)");
    }
}

//! The ECN field of the IP header (RFC 3168 §5), of which transports, queues and captures speak alike.

/// What the ECN field says of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnCodepoint {
    /// Not-ECT: a queue can only drop it.
    #[default]
    NotCapable,
    /// ECT(0) or ECT(1): a queue may mark it. It is written as ECT(0).
    Capable,
    /// CE: a queue has marked it.
    CongestionExperienced,
}

impl EcnCodepoint {
    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable => 0b10,
            Self::CongestionExperienced => 0b11,
        }
    }

    /// What the two lowest bits say; the others, which belong to the DSCP, do not matter.
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
        assert_eq!(capable.bits(), 0b10, "ECT(1) means something else to some queues (RFC 9331)");
    }
}

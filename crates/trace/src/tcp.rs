//! TCP segments for captures (RFC 9293 §3.1), with the options that matter for loss recovery.

use std::net::SocketAddr;

use festina_units::EcnCodepoint;

use crate::ip::{Addresses, EncapsulationError};

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The next byte expected; `None` only in the first SYN.
    pub ack: Option<u32>,
    /// Opens the connection.
    pub syn: bool,
    /// The stream ends with this segment.
    pub fin: bool,
    /// ECN echo.
    pub ece: bool,
    /// Congestion window reduced.
    pub cwr: bool,
    /// Receive window, shifted right by the window scale.
    pub window: u16,
    /// Options, in this order.
    pub options: &'a [TcpOption],
    /// The payload.
    pub payload: &'a [u8],
    /// The ECN field of the IP header.
    pub ecn: EcnCodepoint,
}

/// A TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// Largest payload that the sender wants to receive (RFC 9293 §3.7.1).
    MaximumSegmentSize(u16),
    /// By how much windows are shifted (RFC 7323 §2).
    WindowScale(u8),
    /// SACK may be used (RFC 2018 §2).
    SackPermitted,
    /// Timestamps (RFC 7323 §3).
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// A selectively acknowledged range: first byte and the one behind the last (RFC 2018 §3). Adjacent ones in the
    /// list of options become one option.
    SackBlock(u32, u32),
}

/// Puts a TCP segment into an IP packet.
///
/// # Errors
/// If the addresses are of different families, the options take more than 40 bytes, or the payload is too long.
pub fn encapsulate_tcp(
    from: SocketAddr,
    to: SocketAddr,
    segment: &TcpSegment<'_>,
) -> Result<Vec<u8>, EncapsulationError> {
    const PROTOCOL_TCP: u8 = 6;
    const FIXED_BYTES: usize = 20;
    const OPTIONS_BYTES_MAX: usize = 40;

    let addresses = Addresses::of_one_family(from.ip(), to.ip())?;
    let too_long = EncapsulationError::TooLong { payload_bytes: segment.payload.len() };
    let options = options(segment.options);
    if options.len() > OPTIONS_BYTES_MAX {
        return Err(EncapsulationError::OptionsTooLong { options_bytes: options.len() });
    }
    let header_bytes = FIXED_BYTES + options.len();
    let len = u16::try_from(header_bytes + segment.payload.len()).map_err(|_| too_long)?;
    let words = u8::try_from(header_bytes / 4).map_err(|_| too_long)?;

    let mut header = Vec::with_capacity(header_bytes);
    header.extend(from.port().to_be_bytes());
    header.extend(to.port().to_be_bytes());
    header.extend(segment.sequence.to_be_bytes());
    header.extend(segment.ack.unwrap_or(0).to_be_bytes());
    header.extend([words << 4, flags(segment)]);
    header.extend(segment.window.to_be_bytes());
    // The checksum is filled in when the rest is known; the urgent pointer stays zero.
    header.extend([0; 4]);
    header.extend(options);

    let mut checksum = addresses.pseudo_header(PROTOCOL_TCP, len);
    checksum.add(&header);
    checksum.add(segment.payload);
    let checksum = checksum.value().to_be_bytes();
    for (byte, value) in header.iter_mut().skip(16).zip(checksum) {
        *byte = value;
    }
    addresses.encapsulate(PROTOCOL_TCP, segment.ecn, &[&header, segment.payload]).map_err(|_| too_long)
}

fn flags(segment: &TcpSegment<'_>) -> u8 {
    let bits = [
        (segment.fin, 0x01),
        (segment.syn, 0x02),
        (!segment.payload.is_empty(), 0x08),
        (segment.ack.is_some(), 0x10),
        (segment.ece, 0x40),
        (segment.cwr, 0x80),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// Returns the options, padded to whole words with no-operation options.
fn options(options: &[TcpOption]) -> Vec<u8> {
    const NOTHING: u8 = 1;
    const SACK: u8 = 5;

    let mut bytes = Vec::new();
    let mut rest = options;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match *first {
            TcpOption::MaximumSegmentSize(mss) => {
                bytes.extend([2, 4]);
                bytes.extend(mss.to_be_bytes());
            }
            TcpOption::WindowScale(shift) => bytes.extend([3, 3, shift]),
            TcpOption::SackPermitted => bytes.extend([4, 2]),
            TcpOption::Timestamps { value, echo } => {
                bytes.extend([8, 10]);
                bytes.extend(value.to_be_bytes());
                bytes.extend(echo.to_be_bytes());
            }
            TcpOption::SackBlock(start, end) => {
                let mut blocks = vec![(start, end)];
                while let Some((TcpOption::SackBlock(start, end), behind)) = rest.split_first() {
                    blocks.push((*start, *end));
                    rest = behind;
                }
                // More than 31 blocks do not fit into any header, which the caller detects by the length of all
                // options.
                bytes.extend([SACK, u8::try_from(2 + 8 * blocks.len()).unwrap_or(u8::MAX)]);
                for (start, end) in blocks {
                    bytes.extend(start.to_be_bytes());
                    bytes.extend(end.to_be_bytes());
                }
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), NOTHING);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "10.0.0.1:5000";
    const TO: &str = "10.0.0.2:80";

    fn packet(segment: &TcpSegment<'_>) -> Result<Vec<u8>, EncapsulationError> {
        encapsulate_tcp(FROM.parse().expect("an address"), TO.parse().expect("an address"), segment)
    }

    #[test]
    fn a_segment_has_its_numbers_flags_and_options() {
        let options = [
            TcpOption::SackBlock(10, 20),
            TcpOption::SackBlock(30, 40),
            TcpOption::Timestamps { value: 0x0102_0304, echo: 0x0506_0708 },
        ];
        let segment = TcpSegment {
            sequence: 7,
            ack: Some(9),
            fin: true,
            cwr: true,
            window: 512,
            options: &options,
            payload: b"odd",
            ecn: EcnCodepoint::Capable,
            ..TcpSegment::default()
        };
        let packet = packet(&segment).expect("short");
        assert_eq!(packet[1], 0b10, "ECT(0)");
        let tcp = &packet[20..];
        assert_eq!(tcp[..12], [0x13, 0x88, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9]);
        assert_eq!(tcp[12..16], [(5 + 7) << 4, 0x99, 2, 0]);
        #[rustfmt::skip]
        assert_eq!(tcp[20..48], [
            5, 18, 0, 0, 0, 10, 0, 0, 0, 20, 0, 0, 0, 30, 0, 0, 0, 40,
            8, 10, 1, 2, 3, 4, 5, 6, 7, 8,
        ]);
        assert_eq!(tcp[48..], *b"odd");
        // The receiver's sum over everything.
        let addresses = Addresses::of_one_family([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).expect("one family");
        let mut checksum = addresses.pseudo_header(6, 51);
        checksum.add(tcp);
        assert_eq!(checksum.value(), 0);
    }

    #[test]
    fn a_syn_has_no_acknowledgement_and_its_options_fill_words() {
        let options = [TcpOption::MaximumSegmentSize(1_460), TcpOption::SackPermitted, TcpOption::WindowScale(7)];
        let packet = packet(&TcpSegment { syn: true, options: &options, ..TcpSegment::default() }).expect("short");
        assert_eq!(packet[33], 0x02);
        assert_eq!(packet[40..], [2, 4, 0x05, 0xb4, 4, 2, 3, 3, 7, 1, 1, 1]);
    }

    #[test]
    fn too_many_options_and_too_long_a_payload_are_refused() {
        let blocks = [TcpOption::SackBlock(1, 2); 5];
        let error = packet(&TcpSegment { options: &blocks, ..TcpSegment::default() }).expect_err("44 bytes of options");
        assert_eq!(error, EncapsulationError::OptionsTooLong { options_bytes: 44 });
        let payload = vec![0; 65_535 - 39];
        assert!(packet(&TcpSegment { payload: &payload[1..], ..TcpSegment::default() }).is_ok());
        assert!(packet(&TcpSegment { payload: &payload, ..TcpSegment::default() }).is_err());
    }
}

//! Messages that open data channels (DCEP, RFC 8832 §5).

use bytes::Bytes;
use festina::Message;

/// PPID of DCEP messages (RFC 8831 §8).
pub(crate) const DCEP: u32 = 50;
pub(crate) const STRING: u32 = 51;
pub(crate) const BINARY: u32 = 53;
pub(crate) const STRING_EMPTY: u32 = 56;
pub(crate) const BINARY_EMPTY: u32 = 57;

const OPEN: u8 = 3;
const ACK: u8 = 2;
const UNORDERED: u8 = 0x80;
const RELIABLE: u8 = 0;
const RETRANSMISSIONS: u8 = 1;
const LIFETIME: u8 = 2;
const OPEN_BYTES: usize = 12;

/// Settings of a data channel (RFC 8832 §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Messages are delivered in the order in which they were sent.
    pub ordered: bool,
    /// Number of retransmissions of a message before it is abandoned; unlimited if `None`.
    pub max_retransmits: Option<u16>,
    /// Time in milliseconds after which a message is abandoned; unlimited if `None`. Ignored if `max_retransmits` is set.
    pub max_packet_life_time: Option<u16>,
    /// Name of the subprotocol.
    pub protocol: String,
    /// Priority of RFC 8831 §6.4: 128, 256, 512 or 1,024.
    pub priority: u16,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            ordered: true,
            max_retransmits: None,
            max_packet_life_time: None,
            protocol: String::new(),
            priority: 256,
        }
    }
}

impl ChannelOptions {
    /// Reads a message that opens a channel: its label and its settings. `None` if it is malformed.
    pub fn read_open(bytes: &[u8]) -> Option<(String, Self)> {
        match Dcep::parse(bytes)? {
            Dcep::Open { label, options } => Some((label, options)),
            Dcep::Ack => None,
        }
    }

    /// Writes the message that opens a channel with these settings.
    pub fn write_open(&self, label: &str) -> Bytes {
        Dcep::Open { label: label.to_owned(), options: self.clone() }.to_message().payload().clone()
    }
}

/// A message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dcep {
    Open { label: String, options: ChannelOptions },
    Ack,
}

impl Dcep {
    /// Reads a message; `None` if it is malformed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match *bytes.first()? {
            ACK => Some(Self::Ack),
            OPEN => {
                let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
                let kind = *bytes.get(1)?;
                let parameter = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
                let bounded = u16::try_from(parameter).unwrap_or(u16::MAX);
                let (label, protocol) = (usize::from(number(8)?), usize::from(number(10)?));
                if bytes.len() != OPEN_BYTES + label + protocol {
                    return None;
                }
                let text = |from: usize, length| String::from_utf8(bytes.get(from..from + length)?.to_vec()).ok();
                let options = ChannelOptions {
                    ordered: kind & UNORDERED == 0,
                    max_retransmits: (kind & !UNORDERED == RETRANSMISSIONS).then_some(bounded),
                    max_packet_life_time: (kind & !UNORDERED == LIFETIME).then_some(bounded),
                    protocol: text(OPEN_BYTES + label, protocol)?,
                    priority: number(2)?,
                };
                let label = text(OPEN_BYTES, label)?;
                (kind & !UNORDERED <= LIFETIME).then_some(Self::Open { label, options })
            }
            _ => None,
        }
    }

    /// The message on its stream. Both are sent ordered and reliably (RFC 8832 §6).
    pub(crate) fn to_message(&self) -> Message {
        let bytes = match self {
            Self::Ack => vec![ACK],
            Self::Open { label, options } => {
                let (kind, parameter) = match (options.max_retransmits, options.max_packet_life_time) {
                    (Some(retransmissions), _) => (RETRANSMISSIONS, retransmissions),
                    (None, Some(lifetime)) => (LIFETIME, lifetime),
                    (None, None) => (RELIABLE, 0),
                };
                let length = |text: &str| u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
                let mut bytes = vec![OPEN, kind | if options.ordered { 0 } else { UNORDERED }];
                bytes.extend(options.priority.to_be_bytes());
                bytes.extend(u32::from(parameter).to_be_bytes());
                bytes.extend(length(label));
                bytes.extend(length(&options.protocol));
                bytes.extend(label.as_bytes());
                bytes.extend(options.protocol.as_bytes());
                bytes
            }
        };
        Message::new(bytes).with_ppid(DCEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (max_retransmits, max_packet_life_time) in [(None, None), (Some(0), None), (None, Some(150))] {
            for ordered in [true, false] {
                let protocol = "chess".to_owned();
                let options =
                    ChannelOptions { ordered, max_retransmits, max_packet_life_time, protocol, priority: 512 };
                let open = Dcep::Open { label: "moves é".to_owned(), options };
                assert_eq!(Dcep::parse(open.to_message().payload()), Some(open));
            }
        }
        assert_eq!(Dcep::parse(Dcep::Ack.to_message().payload()), Some(Dcep::Ack));
    }

    /// A message of Chromium 156: `createDataChannel("state", {ordered: false, maxRetransmits: 0})`.
    #[test]
    fn a_browsers_message_is_read() {
        let bytes = b"\x03\x81\x01\x00\x00\x00\x00\x00\x00\x05\x00\x00state";
        let Some(Dcep::Open { label, options }) = Dcep::parse(bytes) else { panic!("it opens a channel") };
        assert_eq!(label, "state");
        assert_eq!((options.ordered, options.max_retransmits, options.max_packet_life_time), (false, Some(0), None));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let good = b"\x03\x00\x01\x00\x00\x00\x00\x00\x00\x05\x00\x00state";
        for end in 0..good.len() {
            assert_eq!(Dcep::parse(&good[..end]), None, "{end} bytes");
        }
        assert_eq!(Dcep::parse(b"\x03\x03\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), None, "an unknown kind");
        assert_eq!(
            Dcep::parse(b"\x03\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00\xff"),
            None,
            "a label that is not UTF-8"
        );
        assert_eq!(Dcep::parse(b"\x04"), None);
    }
}

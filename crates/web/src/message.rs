//! Messages of data channels (RFC 8831 §6.6).

use bytes::Bytes;
use festina::{Message, ReceivedMessage};

use crate::dcep;

/// A message of a data channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelMessage {
    /// A string. The UTF-8 of a received one is not checked.
    Text(Bytes),
    /// Bytes.
    Binary(Bytes),
}

impl ChannelMessage {
    /// Returns the bytes of either kind.
    pub fn into_bytes(self) -> Bytes {
        let (Self::Text(bytes) | Self::Binary(bytes)) = self;
        bytes
    }

    /// `None` if it is no message of a data channel.
    pub(crate) fn from_received(message: ReceivedMessage) -> Option<Self> {
        match message.ppid() {
            dcep::STRING => Some(Self::Text(message.into_payload())),
            dcep::BINARY => Some(Self::Binary(message.into_payload())),
            dcep::STRING_EMPTY => Some(Self::Text(Bytes::new())),
            dcep::BINARY_EMPTY => Some(Self::Binary(Bytes::new())),
            _ => None,
        }
    }

    /// Empty messages are sent as one byte, since SCTP has none (RFC 8831 §6.6).
    pub(crate) fn into_message(self) -> Message {
        let (full, empty) = match &self {
            Self::Text(_) => (dcep::STRING, dcep::STRING_EMPTY),
            Self::Binary(_) => (dcep::BINARY, dcep::BINARY_EMPTY),
        };
        let bytes = self.into_bytes();
        if bytes.is_empty() { Message::new(vec![0]).with_ppid(empty) } else { Message::new(bytes).with_ppid(full) }
    }
}

impl From<&str> for ChannelMessage {
    fn from(text: &str) -> Self {
        Self::Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for ChannelMessage {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Bytes> for ChannelMessage {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for ChannelMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

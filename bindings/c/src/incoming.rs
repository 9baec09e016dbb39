//! Messages that came, lent to programs.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use bytes::Bytes;
use festina::{ReceivedMessage, StreamId};

use crate::boundary::{lend, release};
use crate::message::Message;
use crate::options::UNORDERED;
use crate::status::{Status, guard};

impl Message {
    pub(crate) fn new(received: ReceivedMessage) -> Self {
        let (stream, ppid, unordered) = (received.stream(), received.ppid(), received.is_unordered());
        Self::holding(received.into_payload(), stream, ppid, unordered)
    }

    pub(crate) fn holding(payload: Bytes, stream: StreamId, ppid: u32, unordered: bool) -> Self {
        let (data, length) = (payload.as_ptr().cast(), payload.len());
        let flags = if unordered { UNORDERED } else { 0 };
        Self {
            data,
            length,
            owner: lend(payload),
            ppid,
            stream: stream.0,
            flags: u16::try_from(flags).unwrap_or_default(),
            ..Self::EMPTY
        }
    }
}

/// Gives back the bytes of a message and empties it.
#[unsafe(no_mangle)]
pub extern "C" fn festina_message_free(message: *mut Message) -> Status {
    guard(|| release(message))
}

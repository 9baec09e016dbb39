//! A message that came.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use bytes::Bytes;
use festina::{ReceivedMessage, StreamId};

use crate::boundary::{lend, release};
use crate::options::UNORDERED;
use crate::status::{Status, guard};

/// A message that came; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// `sizeof`.
    pub size: usize,
    /// Its bytes, until it is freed.
    pub data: *const c_void,
    /// Their number.
    pub length: usize,
    /// Owner of the bytes.
    pub owner: *mut c_void,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// The stream that carried it.
    pub stream: u16,
    /// `UNORDERED`, or 0.
    pub flags: u16,
}

impl Message {
    /// One that holds nothing.
    pub const EMPTY: Self =
        Self { size: size_of::<Self>(), data: null(), length: 0, owner: null_mut(), ppid: 0, stream: 0, flags: 0 };

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

//! How a message is delivered.

use std::ffi::c_void;

use bytes::Bytes;
use festina::{Duration, Instant, Message};

use crate::status::Failure;

/// Deliver without regard to the order of the stream.
pub const UNORDERED: u32 = 1;
/// Ask the peer to acknowledge at once.
pub const IMMEDIATE_ACK: u32 = 1 << 1;
/// Report what becomes of the message.
pub const CONFIRM: u32 = 1 << 2;
/// Take the place of an older message with the same key.
pub const REPLACE: u32 = 1 << 3;

const FLAGS: u32 = UNORDERED | IMMEDIATE_ACK | CONFIRM | REPLACE;

/// The number that stands for none.
const NONE: i64 = -1;

/// How a message is delivered; see the header. -1 stands for none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// `sizeof`.
    pub size: usize,
    /// The sum of the constants above.
    pub flags: u32,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// Microseconds after which it is abandoned.
    pub lifetime_us: i64,
    /// Time at which it is abandoned, on the clock of `festina_now_us`.
    pub deadline_us: i64,
    /// With `REPLACE`.
    pub key: u64,
    /// Maximum number of retransmissions.
    pub max_retransmissions: i32,
    /// 0 is the most important.
    pub priority: i32,
    /// The stream.
    pub stream: u16,
    /// So that nothing is left unsaid.
    pub reserved: [u16; 3],
}

/// One of several messages to send; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Its bytes.
    pub data: *const c_void,
    /// Their number.
    pub length: usize,
    /// How it is delivered; NULL for the default.
    pub options: *const SendOptions,
}

impl SendOptions {
    /// What holds if nothing is said.
    pub const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        flags: 0,
        ppid: 0,
        lifetime_us: -1,
        deadline_us: -1,
        key: 0,
        max_retransmissions: -1,
        priority: -1,
        stream: 0,
        reserved: [0; 3],
    };

    /// The message with these options.
    pub(crate) fn message(&self, payload: &[u8]) -> Result<Message, Failure> {
        if self.flags & !FLAGS != 0 {
            return Err(Failure::invalid(format_args!("unknown flags: {:#x}", self.flags & !FLAGS)));
        }
        let mut message = Message::new(Bytes::copy_from_slice(payload)).on_stream(self.stream).with_ppid(self.ppid);
        message.unordered = self.flags & UNORDERED != 0;
        message.immediate_ack = self.flags & IMMEDIATE_ACK != 0;
        message.confirm = self.flags & CONFIRM != 0;
        message.key = (self.flags & REPLACE != 0).then_some(self.key);
        let time = |name, value| at_most(i64::MAX, name, value).map(|us| us.map(Duration::from_micros));
        message.lifetime = time("lifetime_us", self.lifetime_us)?;
        message.deadline = time("deadline_us", self.deadline_us)?.map(|since| Instant::ZERO.saturating_add(since));
        let number = |name, value: i32| {
            at_most(u16::MAX.into(), name, value.into()).map(|number| number.and_then(|number| number.try_into().ok()))
        };
        message.max_retransmissions = number("max_retransmissions", self.max_retransmissions)?;
        message.priority = number("priority", self.priority)?;
        Ok(message)
    }
}

/// Converts a number; `None` for -1. Other negative numbers, usually miscalculations, are refused instead of taken for none.
fn at_most(max: i64, name: &str, value: i64) -> Result<Option<u64>, Failure> {
    match u64::try_from(value) {
        Ok(number) if value <= max => Ok(Some(number)),
        Err(_) if value == NONE => Ok(None),
        _ => Err(Failure::invalid(format_args!("{name} is {value}, but must be -1 for none or from 0 to {max}"))),
    }
}

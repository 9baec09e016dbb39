//! How a message is delivered.

use std::ffi::{c_char, c_void};
use std::ptr::null;

use bytes::Bytes;
use festina::{self as library, DEFAULT_SCTP_PORT, Duration, Instant, Message};

use crate::boundary::{bytes, outgoing, read, text};
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

/// Longest token of a client.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Longest early message. Only a short one fits into the first packet.
const EARLY_BYTES_MAX: usize = 1 << 20;

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

/// How an association is set up; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// `sizeof`.
    pub size: usize,
    /// The name that the server's certificate must have; NULL for the host.
    pub server_name: *const c_char,
    /// Bytes for the acceptor.
    pub token: *const c_void,
    /// Their number.
    pub token_length: usize,
    /// Messages to send with the first packet.
    pub early: *const Outgoing,
    /// Their number.
    pub early_count: usize,
    /// The peer's SCTP port; 0 for the usual one.
    pub sctp_port: u16,
    /// So that nothing is left unsaid.
    pub reserved: [u16; 3],
}

impl ConnectOptions {
    /// What holds if nothing is said.
    pub const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        server_name: null(),
        token: null(),
        token_length: 0,
        early: null(),
        early_count: 0,
        sctp_port: 0,
        reserved: [0; 3],
    };

    /// The options in the library's form.
    pub(crate) fn options(&self) -> Result<library::ConnectOptions, Failure> {
        let mut options = library::ConnectOptions::default().peer_port(port_or_default(self.sctp_port));
        if let Some(name) = text("server_name", self.server_name)? {
            options = options.server_name(name);
        }
        options = options.token(bytes("token", self.token, self.token_length, TOKEN_BYTES_MAX)?);
        for early in outgoing("early", self.early, self.early_count)? {
            let message = early.message(EARLY_BYTES_MAX)?;
            if message.has_confirmation() || message.key().is_some() {
                let problem = "early: FESTINA_CONFIRM and FESTINA_REPLACE are not for early messages";
                return Err(Failure::invalid(problem));
            }
            options = options.early_message(message);
        }
        Ok(options)
    }
}

/// The SCTP port with this number, where 0 stands for the usual one.
pub(crate) fn port_or_default(port: u16) -> u16 {
    if port == 0 { DEFAULT_SCTP_PORT } else { port }
}

impl Outgoing {
    /// Creates the message.
    pub(crate) fn message(&self, bytes_max: usize) -> Result<Message, Failure> {
        let options = read(self.options, SendOptions::DEFAULT)?;
        if self.length == 0 {
            return Err(Failure::invalid("an empty message cannot be sent"));
        }
        options.message(bytes("data", self.data, self.length, bytes_max)?)
    }
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
        let has = |flag| self.flags & flag != 0;
        let time = |name, value| at_most(i64::MAX, name, value).map(|us| us.map(Duration::from_micros));
        let deadline = time("deadline_us", self.deadline_us)?.map(|since| Instant::ZERO.saturating_add(since));
        let mut message = Message::new(Bytes::copy_from_slice(payload))
            .on_stream(self.stream)
            .with_ppid(self.ppid)
            .unordered_if(has(UNORDERED))
            .with_confirmation(has(CONFIRM))
            .with_lifetime(time("lifetime_us", self.lifetime_us)?)
            .with_deadline(deadline);
        if has(IMMEDIATE_ACK) {
            message = message.with_immediate_ack();
        }
        if has(REPLACE) {
            message = message.replacing(self.key);
        }
        let number = |name, value: i32| {
            at_most(u16::MAX.into(), name, value.into()).map(|number| number.and_then(|number| number.try_into().ok()))
        };
        let maximum = number("max_retransmissions", self.max_retransmissions)?;
        message = message.with_max_retransmissions(maximum.unwrap_or(u16::MAX));
        if let Some(priority) = number("priority", self.priority)? {
            message = message.with_priority(priority);
        }
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

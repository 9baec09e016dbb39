//! How associations are set up and messages delivered: structs of programs.

use std::ffi::{c_char, c_void};
use std::ptr::null;

/// Deliver without regard to the order of the stream.
pub const UNORDERED: u32 = 1;
/// Ask the peer to acknowledge at once.
pub const IMMEDIATE_ACK: u32 = 1 << 1;
/// Report what becomes of the message.
pub const CONFIRM: u32 = 1 << 2;
/// Take the place of an older message with the same key.
pub const REPLACING: u32 = 1 << 3;
/// Send the message twice, at once.
pub const DUPLICATE_AT_ONCE: u32 = 1 << 4;
/// Send the message twice, half an interval of its key later.
pub const DUPLICATE_HALF_INTERVAL: u32 = 1 << 5;

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
    /// With `REPLACING`.
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
    pub early_messages: *const Outgoing,
    /// Their number.
    pub early_messages_count: usize,
    /// The peer's SCTP port; 0 for the usual one.
    pub peer_port: u16,
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
        early_messages: null(),
        early_messages_count: 0,
        peer_port: 0,
        reserved: [0; 3],
    };
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
}

//! Options and messages of programs in the library's form.

use bytes::Bytes;
use festina::{self as library, DEFAULT_SCTP_PORT, Duplicate, Duration, Instant, Message};

use crate::boundary::{bytes, outgoing, read, text};
use crate::options::{
    CONFIRM, ConnectOptions, DUPLICATE_AT_ONCE, DUPLICATE_HALF_INTERVAL, IMMEDIATE_ACK, Outgoing, REPLACING,
    SendOptions, UNORDERED,
};
use crate::status::Failure;

const FLAGS: u32 = UNORDERED | IMMEDIATE_ACK | CONFIRM | REPLACING | DUPLICATE_AT_ONCE | DUPLICATE_HALF_INTERVAL;

/// Longest token of a client.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Longest early message. Only a short one fits into the first packet.
const EARLY_BYTES_MAX: usize = 1 << 20;

/// The number that stands for none.
const NONE: i64 = -1;

impl ConnectOptions {
    /// The options in the library's form.
    pub(crate) fn options(&self) -> Result<library::ConnectOptions, Failure> {
        let mut options = library::ConnectOptions::default().peer_port(port_or_default(self.peer_port));
        if let Some(name) = text("server_name", self.server_name)? {
            options = options.server_name(name);
        }
        options = options.token(bytes("token", self.token, self.token_length, TOKEN_BYTES_MAX)?);
        for early in outgoing("early_messages", self.early_messages, self.early_messages_count)? {
            let message = early.message(EARLY_BYTES_MAX)?;
            if message.has_confirmation() || message.key().is_some() {
                let problem = "early_messages: FESTINA_CONFIRM and FESTINA_REPLACING are not for early messages";
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
            .with_duplicate(self.duplicate()?)
            .with_lifetime(time("lifetime_us", self.lifetime_us)?)
            .with_deadline(deadline);
        if has(IMMEDIATE_ACK) {
            message = message.with_immediate_ack();
        }
        if has(REPLACING) {
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

    fn duplicate(&self) -> Result<Option<Duplicate>, Failure> {
        match [DUPLICATE_AT_ONCE, DUPLICATE_HALF_INTERVAL].map(|flag| self.flags & flag != 0) {
            [false, false] => Ok(None),
            [true, false] => Ok(Some(Duplicate::AtOnce)),
            [false, true] => Ok(Some(Duplicate::HalfInterval)),
            [true, true] => Err(Failure::invalid("FESTINA_DUPLICATE_AT_ONCE excludes FESTINA_DUPLICATE_HALF_INTERVAL")),
        }
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

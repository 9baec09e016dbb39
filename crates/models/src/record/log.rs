//! A host's log of one connection.

use festina_sctp::RetransmissionCause;
use festina_units::{Duration, Instant};

use super::RttRecord;

/// The log of one side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Messages that the application wrote, by sequence.
    pub(crate) written: Vec<Written>,
    /// Transmitted chunks, in order.
    pub(crate) transmissions: Vec<Transmission>,
    /// Delivered messages: sequence number and time.
    pub(crate) delivered: Vec<(u32, Instant)>,
    /// Received packets: serial and time.
    pub(crate) arrivals: Vec<(u64, Instant)>,
    /// Sent packets: serial and time.
    pub(crate) departures: Vec<(u64, Instant)>,
    /// Round-trip times measured by the transport.
    pub(crate) round_trips: Vec<RttRecord>,
}

/// A message accepted by the transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) due_at: Instant,
    pub(crate) sent_at: Instant,
    pub(crate) bytes: usize,
    pub(crate) lifetime: Option<Duration>,
}

/// One copy of a chunk in a sent packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transmission {
    /// Which chunk, counted from the start of the connection.
    pub(crate) chunk: u32,
    /// The message that it belongs to.
    pub(crate) sequence: u32,
    pub(crate) at: Instant,
    /// Which packet carried it.
    pub(crate) serial: u64,
    /// `None` for the first transmission.
    pub(crate) cause: Option<RetransmissionCause>,
}

impl Log {
    pub(crate) fn delivered(&mut self, now: Instant, sequence: u32) {
        self.delivered.push((sequence, now));
    }

    pub(crate) fn departed(&mut self, now: Instant, serial: u64) {
        self.departures.push((serial, now));
    }

    pub(crate) fn arrived(&mut self, now: Instant, serial: u64) {
        self.arrivals.push((serial, now));
    }
}

//! A measurement: its plan and its results.

use std::net::SocketAddr;
use std::time::Duration;

use super::tally::Stream;

/// The thin stream: a message of this size, this often.
pub(super) const THIN_BYTES: usize = 100;
pub(super) const THIN_INTERVAL: Duration = Duration::from_millis(20);

/// What to measure.
#[derive(Debug)]
pub(super) struct Plan {
    /// How long the server may take to answer at first.
    pub(super) patience: Duration,
    /// Whether the client sends.
    pub(super) upload: bool,
    /// Whether the server sends.
    pub(super) download: bool,
    /// How many associations do, each.
    pub(super) parallel: u16,
    pub(super) message_bytes: u32,
    pub(super) idle: Duration,
    pub(super) time: Duration,
    pub(super) interval: Option<Duration>,
}

/// The results.
#[derive(Debug)]
pub(super) struct Measured {
    /// The server's address that answered; the first one if none did.
    pub(super) remote: SocketAddr,
    /// How long the path was loaded.
    pub(super) loaded_for: Duration,
    /// Whether that is as long as planned.
    pub(super) is_whole: bool,
    /// Bytes of the load that arrived at the server and at the client.
    pub(super) bytes: [u64; 2],
    /// Retransmissions of the client's load.
    pub(super) retransmissions: u64,
    /// The thin stream without load and under load.
    pub(super) thin: [Stream; 2],
}

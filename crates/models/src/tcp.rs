//! A model of TCP: the sender's and receiver's algorithms, without bytes.
//!
//! It is sans-IO like the SCTP core: segments, time and the application's calls come in; segments,
//! events and the next deadline come out. Segments carry lengths, and stream offsets stand for the
//! payload, so messages are marked by the offset of their last byte.
//!
//! | item | purpose |
//! |---|---|
//! | [`TcpConnection`] | the facade: handshake, calls, polls |
//! | [`TcpConfig`] | the settings, and the [`Switches`] |
//! | [`Segment`] | a segment in transit |
//! | [`TcpEvent`] | notifications: retransmitted with the reason, delivered |
//! | `sender` | send buffer, transmission, scoreboard, loss recovery, timers |
//! | [`MinBuf`] | a send buffer whose limit follows cwnd (G02) |
//! | `sender/linux` | loss recovery as Linux does it: RACK, proportional reduction, F-RTO, undo |
//! | `receiver` | reassembly, windows, SACK and D-SACK, delayed acknowledgements |
//! | `congestion` | slow start, RFC 5681 and CUBIC |
//! | [`TimerClock`] | how late a timer is: exact, or as on Linux's timer wheel |
//!
//! Sources: RFC 9293, 5681, 6582, 6675, 3042, 9438, 3168, 6298, 5827, 7765, 8985, 6937, 5682, 3708, 4015,
//! 2018, 2883, 7323; Linux's behaviour where it says so. Not modelled: HyStart, pacing, compression of
//! duplicate ACKs, the cost of small segments in the send buffer, TIME-WAIT, simultaneous open and resets.
//! cwnd counts segments.
//!
//! [`TcpConfig::linux`] is compared with the real kernel by the lab's experiment `linux-thin`. On thin streams with
//! random losses the shares of late messages agree within a few per cent.
//!
//! ```
//! use festina_models::tcp::{TcpConfig, TcpConnection, TcpEvent};
//! use festina_units::{Duration, Instant};
//!
//! let (mut client, mut server) = (TcpConnection::client(TcpConfig::sack()), TcpConnection::server(TcpConfig::sack()));
//! client.write(100);
//! let mut now = Instant::ZERO;
//! for _ in 0..4 {
//!     while let Some(segment) = client.poll_transmit(now) {
//!         server.handle_segment(now + Duration::from_millis(10), &segment);
//!     }
//!     now += Duration::from_millis(10);
//!     while let Some(segment) = server.poll_transmit(now) {
//!         client.handle_segment(now + Duration::from_millis(10), &segment);
//!     }
//!     now += Duration::from_millis(10);
//! }
//! assert_eq!(server.bytes_delivered(), 100);
//! assert_eq!(server.poll_event(), Some(TcpEvent::Connected));
//! ```

mod clock;
mod config;
mod congestion;
mod connection;
mod event;
mod receiver;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub use clock::TimerClock;
pub use config::{
    CongestionControl, DelayedAck, Growth, LossRecovery, RtoConfig, RtoFloor, Switches, TailProbe, TcpConfig,
};
pub use connection::TcpConnection;
pub use event::{Cause, TcpEvent};
pub use festina_recovery::send_buffer::{MinBuf, SendBufferLimit};
pub use segment::{Flags, SACK_BLOCKS_MAX, SackBlocks, Segment, SynOptions, Timestamps};
pub use sender::TcpCounters;

//! Festina's SCTP core: RFC 9260 with loss recovery for thin streams. It has no clock, socket or random number generator. Inputs are
//! bytes, the time and a secret; outputs are packets, events, messages and the next deadline.
//!
//! | module | purpose |
//! |---|---|
//! | `association` | the public type; handshake, cookies, tags, heartbeats, shutdown |
//! | [`wire`] | encoding and decoding of packets, chunks, parameters and error causes |
//! | `send` | messages to chunks: buffer, scheduler, fragments, timers, packets |
//! | `outstanding` | outstanding chunks by TSN, and the effects of acknowledgements on them |
//! | [`congestion`] | the congestion window, and the trait for controllers from outside |
//! | `receive` | chunks to messages: TSNs, reassembly, order, SACK |
//!
//! Two endpoints connected by a loop:
//!
//! ```
//! use bytes::Bytes;
//! use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
//! use festina_units::{Duration, EcnCodepoint, Instant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut now = Instant::ZERO;
//! let (client_address, server_address) = ("192.0.2.1:9899".parse()?, "192.0.2.2:9899".parse()?);
//! // Real secrets must be random.
//! let client_context = Context::new(Config::default(), [1; 16])?;
//! let mut listener = Listener::new(&Context::new(Config::default(), [2; 16])?);
//! listener.listen(5000);
//!
//! let ports = Ports { local: 5001, peer: 5000 };
//! let mut client = Association::connect(now, &client_context, server_address, ports, 0);
//! let mut server: Option<Association> = None;
//! client.send(now, Message::new("hello"))?;
//!
//! let received = loop {
//!     now += Duration::from_millis(1);
//!     let mut packet = Vec::new();
//!     while client.poll_transmit(now, &mut packet).is_some() {
//!         let bytes = Bytes::from(std::mem::take(&mut packet));
//!         if let Some(server) = &mut server {
//!             server.handle_packet(now, client_address, EcnCodepoint::NotCapable, &bytes)?;
//!             continue;
//!         }
//!         let mut reply = Vec::new();
//!         match listener.handle_packet(now, client_address, &bytes, &|_tag| false, &mut reply) {
//!             Incoming::Reply => client.handle_packet(now, server_address, EcnCodepoint::NotCapable, &Bytes::from(reply))?,
//!             Incoming::Accepted(association) => server = Some(*association),
//!             Incoming::Ignored(reason) => return Err(reason.into()),
//!             _ => {}
//!         }
//!     }
//!     if let Some(message) = server.as_mut().and_then(Association::poll_message) {
//!         break message;
//!     }
//! };
//! assert_eq!(received.payload(), "hello");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod association;
mod bounds;
mod config;
pub mod congestion;
mod error;
mod event;
mod message;
mod outstanding;
mod path_id;
mod preview;
mod receive;
mod send;
mod stats;
mod stream_table;
pub mod wire;

pub use association::{
    Association, AssociationState, Context, Extensions, Fragmentation, Incoming, Listener, Multihoming,
    MultihomingError, OutOfBandError, OutOfBandInit, PathKnowledge, PathPolicy, PathState, PathStatus, Ports, Transmit,
    UnknownPathPolicy, beside, named_addresses, outstanding_tsns, reset_by_peer,
};
pub use config::{
    Admission, Carrier, Config, ConfigError, DestinationMemory, Expiry, Limits, PartialReliability, PeerRequests,
    PeerRestart, Retries, SackPolicy, SendBufferPolicy, StreamScheduler, Timers,
};
pub use congestion::{CongestionControl, UnknownCongestionControl};
pub use error::{ClosedReason, PacketDropped, ReconfigureError, SendError, SendErrorKind};
pub use event::{AbandonReason, Direction, Event, ProtocolEvent, RetransmissionCause, StreamRequest};
pub use festina_recovery::{self as recovery, Mechanisms, Profile};
pub use message::{Duplicate, Message, MessageId, ReceivedMessage};
pub use path_id::PathId;
pub use stats::{Abandoned, AbandonedStats, PathStats, Rates, ReceivedStats, RetransmittedStats, SentStats, Stats};
pub use wire::{ReConfigResult, StreamId};

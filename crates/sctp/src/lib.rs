//! Festina's SCTP core.
#![forbid(unsafe_code)]

mod association;
mod config;
mod congestion;
mod error;
mod event;
mod message;
mod outstanding;
mod receive;
mod send;
mod stats;
mod stream_table;
pub mod wire;

pub use association::{Association, AssociationState, Context, Extensions, Incoming, Listener, Ports, Transmit};
pub use config::{Config, ConfigError, Limits, Retries, SackPolicy, StreamScheduler, Timers};
pub use error::{ClosedReason, PacketDropped, SendError};
pub use festina_recovery::{Mechanisms, Profile};
pub use event::{AbandonReason, Event, RetransmissionCause};
pub use message::{Message, MessageId, ReceivedMessage};
pub use stats::{PathStats, ReceivedStats, RetransmittedStats, SentStats, Stats};
pub use wire::StreamId;

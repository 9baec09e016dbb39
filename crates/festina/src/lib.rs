//! Sends messages between two programs. Each message has its own delivery options. A lost message is recovered in about one round trip, even when
//! there is little to send.
//!
//! The protocol is SCTP (RFC 9260), over UDP (RFC 6951) or raw IP. It is implemented in `festina-sctp`, which has neither sockets nor clocks; this
//! crate provides both, on tokio or another [`runtime`].
//!
//! | item | purpose |
//! |---|---|
//! | [`Endpoint`] | one socket that carries any number of associations |
//! | [`Listener`] | accepts associations on one SCTP port |
//! | [`security`] | encryption and identity |
//! | [`Association`] | sends and receives messages; also as a [`Stream`](Messages) and a [`Sink`](MessageSink) |
//! | [`blocking`] | the same without `async`: calls that wait with a time limit or not at all, and file descriptors to poll |
//! | [`ClientConfig`], [`ServerConfig`] | settings of an endpoint: [`Transport`], [`Admission`] and security |
//! | [`ConnectOptions`], [`ListenOptions`] | settings for one association and for a listener |
//! | [`BindError`], [`ListenError`], [`ConnectError`] | errors when opening, listening and connecting |
//! | [`SendError`], [`ClosedReason`] | errors of an open association, and why it ended |
//!
//! **Associations are encrypted** with TLS 1.3, and each side decides whom it trusts: [`security`]. [`ServerConfig::plain`] and
//! [`ClientConfig::plain`] speak SCTP as unmodified peers do: anyone on the path can read, change and inject messages. `docs/security.md` in the repository describes attackers and limits.
//!
//! **Threads.** [`Association::send`] runs the protocol and makes the system call in the caller's thread, without a hand-over to another task. In a
//! burst (more than eight messages with less than 20 us between them), later messages are sent in groups, by the caller's thread or by the background
//! task, whichever comes first. One background task per endpoint receives in batches and runs timers.
//!
//! **Partial reliability** ([`Message`]): each message may have a lifetime or a deadline, a maximum number of retransmissions, a priority, and a key
//! by which a newer message replaces it, in any combination. Data channels (RFC 8831) call the lifetime `maxPacketLifeTime` and the maximum number of
//! retransmissions `maxRetransmits`. [`Association::send_confirmed`] reports the outcome of a message, and [`Stats::abandoned`] counts abandoned
//! ones.
//!
//! **Cost.** In addition to the protocol's own work, sending a message takes one lock. One system call sends all packets that are ready. Nothing is
//! allocated or copied. Receiving a message takes one copy. Consecutive packets of an association share two table look-ups. Nothing is allocated as
//! long as the application keeps up.
//!
//! **Logs** go to [`tracing`](https://docs.rs/tracing). The start and end of associations are at level INFO, with the reason. Failed handshakes,
//! reached limits and a socket that cannot receive are at WARN. Retransmissions, with [`Transport::with_message_events`], are at DEBUG.
//!
//! **Metrics**: with the feature `prometheus`, `Metrics` exports the counters of endpoints and associations to a registry of the crate
//! `prometheus-client`.
//!
//! ```
//! use festina::security::Identity;
//! use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed("game.example")?;
//! let known = identity.fingerprint();
//!
//! let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::new(identity)).await?;
//! let listener = server.listen(DEFAULT_SCTP_PORT)?;
//! let address = server.local_addr();
//!
//! let echo = tokio::spawn(async move {
//!     let association = listener.accept().await.expect("the endpoint is open");
//!     while let Ok(Some(message)) = association.recv().await {
//!         association.send(message).await?;
//!     }
//!     Ok::<_, festina::SendError>(())
//! });
//!
//! let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::new(known)).await?;
//! let association = client.connect(address).await?;
//! association.send(Message::new("make haste slowly").on_stream(7)).await?;
//! let answer = association.recv().await?.ok_or("the peer has left")?;
//! assert_eq!(answer.payload(), "make haste slowly");
//! assert_eq!(answer.stream(), 7);
//!
//! association.shutdown().await?;
//! echo.await??;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod address;
mod association;
pub mod blocking;
mod clock;
mod config;
mod endpoint;
mod error;
mod locks;
pub mod logs;
pub mod lower {
    //! Lower layers that carry the packets of an endpoint, for [`Endpoint::bind_on`](crate::Endpoint::bind_on).
    pub use crate::endpoint::{LowerLayer, Received, Several, Transmit};
}
#[cfg(feature = "prometheus")]
mod metrics;
mod program;
mod recovery;
pub mod runtime;
pub mod security;

pub use address::{AddressError, Host, parse_address};
pub use association::{Association, Delivery, MessageSink, Messages, Outcome, StreamHandle, StreamReader, Streams};
pub use clock::now;
pub use config::{Admission, ClientConfig, EndpointConfig, Expert, ServerConfig, Transport};
pub use endpoint::{
    Answer, ConnectOptions, Endpoint, EndpointStats, ListenOptions, Listener, PendingRequest, Request, Requests,
    SeenPacket,
};
pub use endpoint::{MemoryNetwork, MemorySocket};
pub use error::{BindError, ConnectError, ListenError, StreamTaken, TryRecvError, WrongScheduler};
#[cfg(feature = "prometheus")]
pub use metrics::{ASSOCIATIONS_SHOWN_MAX, Metrics};
pub use recovery::{Profile, UnknownProfile};

pub use festina_sctp::congestion;
pub use festina_sctp::recovery::redundancy::{Budget, Redundancy, Spaced};
pub use festina_sctp::{
    AbandonReason, Abandoned, AbandonedStats, AssociationState, ClosedReason, ConfigError, CongestionControl,
    Direction, Duplicate, Event, Expiry, Message, MessageId, MultihomingError, PathId, PathPolicy, PathState,
    PathStats, PathStatus, PeerRestart, Ports, ProtocolEvent, Rates, ReConfigResult, ReceivedMessage, ReceivedStats,
    ReconfigureError, RetransmissionCause, RetransmittedStats, SendBufferPolicy, SendError, SendErrorKind, SentStats,
    Stats, StreamId, StreamRequest, StreamScheduler, UnknownCongestionControl, UnknownPathPolicy,
};
pub use festina_units::{Duration, EcnCodepoint, Instant};

/// Compiles and runs the examples of the README and of the guides.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/start/rust.md")]
    struct Start;
    #[doc = include_str!("../../../docs/guides/two-hosts.md")]
    struct TwoHosts;
    #[doc = include_str!("../../../docs/guides/reliability.md")]
    struct Reliability;
    #[doc = include_str!("../../../docs/guides/tuning.md")]
    struct Tuning;
    #[doc = include_str!("../../../docs/guides/integrating.md")]
    struct Integrating;
    #[doc = include_str!("../../../docs/guides/game-server.md")]
    struct GameServer;
    #[doc = include_str!("../../../docs/guides/several-addresses.md")]
    struct SeveralAddresses;
}

/// Handles may go to other threads and be used by several at a time.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    const fn is_sent<T: Send>() {}
    is_shared::<Endpoint>();
    is_shared::<Listener>();
    is_shared::<Association>();
    is_shared::<Delivery>();
    is_shared::<EndpointConfig>();
    is_shared::<Message>();
    is_sent::<Messages>();
    is_sent::<MessageSink>();
};

/// The default SCTP port, 5000, which WebRTC data channels use as well (RFC 8841).
pub const DEFAULT_SCTP_PORT: u16 = 5_000;

/// Events kept for an application that does not take them with [`Association::event`].
pub const EVENTS_QUEUED_MAX: usize = 4_096;

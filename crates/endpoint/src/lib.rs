//! An endpoint of associations, plain or encrypted, without sockets, clocks, locks and threads.
//!
//! | module | contents |
//! |---|---|
//! | [`channel`] | an association and the layer that its packets pass: nothing, or TLS 1.3 |
//! | [`demux`] | finds the association that a packet belongs to, and limits their number |
//! | [`protocols`] | which packets are plain and which protected |
//! | [`strays`] | packets without an association: which are looked at, and their answers |
//! | [`handshakes`] | half-open handshakes of encrypted clients: order, limits, shares of CPU time |
//! | [`owner`] | what strays and handshakes ask of the owner of the associations |
//! | [`request`] | what a client asks for, and the verdict |
//! | [`destinations`] | path state of earlier associations |
//! | [`sources`] | the own addresses that packets leave from |
//! | [`endpoint`] | all of it as one value, for simulations, tests and browsers |
//!
//! The crate `festina` uses the parts, with a lock for each association; [`Endpoint`] owns its associations.
//!
//! Two plain endpoints; with a [`Listener`](festina_secure::Listener) and [`Endpoint::connect`] they are encrypted:
//!
//! ```
//! use bytes::BytesMut;
//! use festina_endpoint::endpoint::{EndpointEvent, Setup};
//! use festina_endpoint::{Datagram, Endpoint, Protocols};
//! use festina_sctp::{Config, Context, Message, Ports};
//! use festina_units::{Duration, EcnCodepoint, Instant};
//!
//! let endpoint = |secret| {
//!     let context = Context::new(Config::default(), [secret; 16])?;
//!     let (protocols, cpu_time) = (Protocols::Plain, || Duration::ZERO);
//!     Ok::<_, festina_sctp::ConfigError>(Endpoint::new(Setup { context, protocols, listener: None, secret: [secret; 16], cpu_time }))
//! };
//! let (mut client, mut server) = (endpoint(1)?, endpoint(2)?);
//! server.listen(5_000)?;
//! let [near, far] = [([192, 0, 2, 1], 9_899), ([192, 0, 2, 2], 9_899)].map(std::net::SocketAddr::from);
//! let now = Instant::from_secs(1);
//! let there = client.connect_plain(now, far, Ports { local: 5_001, peer: 5_000 }, 1)?;
//! client.change(there, |association| association.send(now, Message::new("make haste"))).expect("it lives")?;
//!
//! let carry = |from: &mut Endpoint, at, to: &mut Endpoint| {
//!     let mut bytes = Vec::new();
//!     let mut packets = 0;
//!     while from.poll_transmit(now, &mut bytes).is_some() {
//!         let packet = BytesMut::from(&std::mem::take(&mut bytes)[..]);
//!         to.handle_datagram(now, Datagram { from: at, source: None, ecn: EcnCodepoint::NotCapable, packet });
//!         packets += 1;
//!     }
//!     packets
//! };
//! while carry(&mut client, near, &mut server) + carry(&mut server, far, &mut client) > 0 {}
//! let Some(EndpointEvent::Accepted(here)) = server.poll_event() else { panic!("a client has come") };
//! assert_eq!(server.poll_message(here).expect("it was sent").payload(), "make haste");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod allowance;
pub mod channel;
pub mod demux;
pub mod destinations;
pub mod endpoint;
pub mod handshakes;
pub mod owner;
pub mod protocols;
pub mod request;
pub mod sources;
pub mod strays;

pub use channel::{Channel, Core, Handled, Plain, Secure};
pub use demux::{Demux, Key, Name, Origin};
pub use endpoint::Endpoint;
pub use owner::{Datagram, Owner};
pub use protocols::Protocols;
pub use request::{PlainVerdict, Request, Verdict};
pub use sources::Sources;

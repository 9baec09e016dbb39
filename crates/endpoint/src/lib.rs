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
//! | [`endpoint`] | all of it as one value, for simulations, tests and browsers |
//!
//! The crate `festina` uses the parts, with a lock for each association; [`Endpoint`] owns its associations.
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
pub mod strays;

pub use channel::{Channel, Core, Handled, Plain, Secure};
pub use demux::{Demux, Key, Name, Origin};
pub use endpoint::Endpoint;
pub use owner::{Datagram, Owner};
pub use protocols::Protocols;
pub use request::{PlainVerdict, Request, Verdict};

//! Packet protection for SCTP below TLS 1.3, without a clock or a socket.
//!
//! **Unstable**: the interface and the bytes may change with any version. A client may change its address, a server may not.
//! Applications use the crate `festina`.
//!
//! rustls derives all keys by the rules of QUIC (RFC 9001); this crate contains no cryptography. `docs/secure-format.md` shows every bit.
//!
//! | module | content |
//! |---|---|
//! | [`SecureAssociation`] | an SCTP association over a protected channel |
//! | [`Listener`] | makes half-open associations of hellos, in bounded number |
//! | [`wire`] | headers and the frames of the handshake |
//! | [`LongKeys`] | protects and opens packets of the handshake, for tests that forge them |
//! | [`sessions`] | sessions for resumption, in bounded number |
//! | [`pinned`] | peers known by the fingerprint of their key |
//! | [`reset`] | ends connections whose server has lost its state |
//! | [`reading`] | opens the packets of captures with the secrets of a key log |
//! | [`parameters`] | the blob that each side adds to its TLS handshake |
#![forbid(unsafe_code)]

mod address;
mod association;
mod bounds;
mod channel;
mod error;
mod foreign;
mod listener;
mod messages;
pub mod parameters;
mod path;
pub mod pinned;
pub mod reading;
mod reassembly;
mod record;
pub mod reset;
pub mod sessions;
mod spare;
mod tls;
mod versions;
pub mod wire;

pub use association::{Connect, HALF_OPEN_LIFETIME, Hello, LINGER, OVERHEAD_BYTES, SecureAssociation, further_ids};
pub use bounds::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX};
pub use error::{
    APPLICATION_CODES, DatagramDropped, FULL, HandshakeError, NO_SUCH_PORT, REFUSED, TOO_LONG, UNUSABLE_PARAMETERS,
};
pub use foreign::Foreign;
pub use listener::{Checked, HalfOpenLimits, Incoming, Listener};
pub use path::Path;
pub use record::{LongKeys, OpenError, SealError, initial_keys};
pub use spare::{next_id, previous_id};
pub use tls::ALPN_BYTES_MAX;
pub use versions::{Versions, write_plain_sctp};

#[cfg(test)]
mod testing;

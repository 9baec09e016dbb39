//! Packet protection for SCTP below TLS 1.3, without a clock or a socket.
//!
//! **Unstable**: the interface and the bytes may change with any version, and `festina` does not use this crate yet. It has the packets and
//! their protection so far. The handshake that drives them, address validation and connection migration are to follow.
//!
//! rustls derives all keys by the rules of QUIC (RFC 9001); there is no cryptography in here. `docs/secure-format.md` shows every bit.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | headers and the frames of the handshake |
//! | [`record`] | protects and opens packets, finds duplicates, updates keys |
//! | [`reassembly`] | puts handshake bytes in order, in bounded memory |
//! | [`parameters`] | the blob that each side adds to its TLS handshake |
#![forbid(unsafe_code)]

pub mod parameters;
pub mod reassembly;
pub mod record;
pub mod wire;

#[cfg(test)]
mod testing;

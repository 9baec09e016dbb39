//! SCTP sockets (RFC 6458) for unmodified programs.
//!
//! A program's library, `libfestina-sockets.so`, takes over the system calls on SCTP sockets. The associations live in another process, the
//! engine, which `festina sctp run` contains. Each SCTP socket of a program is one end of a Unix socket pair (`SOCK_SEQPACKET`), whose other end
//! the engine holds, so that `poll`, `dup`, `fork`, `close` and time limits are the kernel's own.
//!
//! | module | purpose |
//! |---|---|
//! | [`address`] | socket addresses as programs pass them |
//! | [`wire`] | the datagrams on the socket pair, and requests to the engine |
//! | [`ancillary`] | the control messages of RFC 6458 §5.3 |
//! | [`numbers`] | Linux's numbers of options, events, flags and errors |
//! | `engine` | the associations behind the sockets, with the feature `engine` |
//!
//! Everything here is safe code on byte slices. Pointers of programs are the business of the library alone.
#![forbid(unsafe_code)]

pub mod address;
pub mod ancillary;
#[cfg(feature = "engine")]
pub mod engine;
pub mod numbers;
pub mod wire;

/// The environment variable by which a program's library finds the engine.
pub const ENGINE_VARIABLE: &str = "FESTINA_SCTP";

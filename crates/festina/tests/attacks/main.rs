//! Hostile peers over real sockets. The endpoint under attack runs in a separate process, a second run of this program, so that its memory can be
//! measured; a well-behaved peer in this process measures round trips meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod friend;
mod hostile;
mod pings;
mod pins;
mod readers;
mod resident;
mod victim;

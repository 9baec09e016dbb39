//! Hostile peers over real sockets. The endpoint under attack runs in a process of its own, this program started once more, so that
//! its memory can be measured; a friend of it in this process measures round trips meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod friend;
mod hostile;
mod pings;
mod pins;
mod readers;
mod resident;
mod victim;

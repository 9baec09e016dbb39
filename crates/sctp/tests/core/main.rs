//! The core from outside: two endpoints and a link in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod after_silence;
mod amplification;
mod backlog;
mod bounds;
mod bulk;
mod early_copies;
mod extensions;
mod hostile;
mod multihoming;
mod networks;
mod out_of_band;
mod outages;
mod packet_sizes;
mod pair;
mod promises;
mod random_walk;
mod reordering;
mod rfc9260;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod silence;
mod stalled_reader;
mod thin;
mod timing;
mod tiny_buffer;
mod unread;

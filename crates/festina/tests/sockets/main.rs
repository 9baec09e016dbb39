//! Endpoints and associations over real sockets on the loopback interface.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocking;
mod both;
mod crossing;
#[cfg(target_os = "linux")]
mod ecn;
mod encrypted;
mod ending;
mod failing;
mod fates;
mod forged;
mod identity;
mod limits;
mod living;
mod memory;
mod moving;
#[cfg(target_os = "linux")]
mod path_mtu;
mod platform;
mod raw;
mod requests;
mod sending;
mod sessions;
mod streams;
mod support;

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
mod forged;
mod frame_loop;
mod identity;
mod limits;
#[cfg(target_os = "linux")]
mod link_local;
mod lossy;
mod memory;
mod moving;
mod networks;
mod over_plain;
mod over_secure;
#[cfg(target_os = "linux")]
mod path_mtu;
mod paths;
mod platform;
mod raw;
mod requests;
mod restarting;
mod sessions;
mod support;

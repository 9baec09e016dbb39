//! Relays and collectors: in virtual time, on real sockets and files, and as processes that are killed.

mod activation;
mod broker;
mod exactly_once;
mod full_disk;
mod full_output;
mod group;
mod hostile;
#[cfg(feature = "kafka")]
mod kafka;
mod kill;
mod loopback;
mod processes;
mod rotation;
#[path = "../../../../tests/seeds.rs"]
mod seeds;

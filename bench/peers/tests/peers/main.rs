//! Festina with other SCTP stacks, in virtual time and as processes.

mod interop;
#[cfg(target_os = "linux")]
mod multipath;
mod out_of_process;
mod policies;
mod replace;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod thin_document;

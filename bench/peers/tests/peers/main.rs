//! Festina with other SCTP stacks, in virtual time and as processes.

mod interop;
mod out_of_process;
mod policies;
mod replace;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod thin_document;

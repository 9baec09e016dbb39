//! Compares Festina with other stacks: the same work in one process, and the same wire.
//!
//! - [`peer`]: the interface of every stack ([`Peer`], [`Stack`]), in virtual time and without sockets;
//! - [`stack`]: one adapter per stack;
//! - [`simulation`]: two endpoints over two of the simulator's links, a workload, and the checks of interoperability; and
//!   conversations with abandoned messages ([`simulation::conversation`]);
//! - [`measure`]: CPU time of bulk transfer and memory of idle associations;
//! - [`programs`]: the stacks that run as processes;
//! - [`report`]: the table and the JSON document of the measurements;
//! - [`multipath`]: thin streams over two networks, beside the kernel's MPTCP; with real sockets, on Linux alone;
//! - [`thin`]: delay and cost of thin streams over a lossy path, with stacks of other protocols as well.
//!
//! Time is virtual: a [`std::time::Duration`] since the start of the run. Only [`measure`] reads the thread's CPU clock, and [`multipath`]
//! the real one.

#![forbid(unsafe_code)]

pub mod measure;
#[cfg(target_os = "linux")]
pub mod multipath;
pub mod peer;
pub mod programs;
pub mod report;
pub mod simulation;
pub mod stack;
pub mod thin;

pub use peer::{InReturn, Message, PartiallyReliable, Peer, Policy, SendError, Settings, Stack};

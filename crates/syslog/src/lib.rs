//! Syslog over partially reliable SCTP: important lines are kept until they have arrived; all others are sent only while they are fresh.
//!
//! | modules | purpose |
//! |---|---|
//! | [`framing`], [`line`](mod@line) | split a stream into lines, and read their headers |
//! | [`policy`] | rules that choose the treatment of a line |
//! | [`config`] | configuration files of relay and collector |
//! | [`record`], [`wire`] | lines in transit, and the protocol between relay and collector |
//! | [`spool`], [`sender`] | the relay: lines on disk until the collector has them |
//! | [`collector`], [`render`] | the collector: writes each line once to its files |
//! | [`disk`] | file operations, and a faulty disk for tests |
//! | [`ranges`] | sets of sequence numbers |
//! | [`delays`] | histograms of delays |
//! | [`tls`] | certificates and keys of inputs and outputs |
//! | [`keys`] | keys of relay and collector, and the peers that each trusts |
//! | [`notice`] | messages for the operator |
//! | [`relay`], [`collect`] | both as running programs: sockets, clocks, threads |
//! | [`snapshot`], [`serve`] | their counters, as text and for Prometheus |
//!
//! Only the last two rows use sockets and clocks.
//!
//! ```
//! use festina_syslog::line::read_header;
//! use festina_syslog::policy::{Policy, Treatment};
//!
//! let line = b"<11>Oct 11 22:14:15 web1 backup: the disk is full";
//! let treatment = Policy::default().treatment(&read_header(line), line);
//! assert_eq!(treatment, Treatment::Reliable { priority: 0, ordered: true });
//! ```
#![forbid(unsafe_code)]

mod clock;
pub mod collect;
pub mod collector;
pub mod config;
pub mod delays;
mod descriptors;
pub mod disk;
pub mod framing;
mod kafka_topic;
pub mod keys;
pub mod line;
pub mod notice;
pub mod policy;
mod positions;
pub mod ranges;
pub mod record;
pub mod relay;
pub mod render;
#[cfg(test)]
mod scratch;
pub mod sender;
pub mod serve;
pub mod snapshot;
pub mod spool;
mod state_lock;
pub mod tls;
mod transport;
mod unix_socket;
pub mod wire;

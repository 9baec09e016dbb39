//! Syslog over partially reliable SCTP: important lines are kept until they have arrived, the others are sent as long as they are fresh.
//!
//! | room | what lives there |
//! |---|---|
//! | [`framing`], [`line`](mod@line) | lines out of a stream, and what they say about themselves |
//! | [`policy`] | what a line is worth |
//! | [`config`] | the files of relay and collector |
//! | [`record`], [`wire`] | a line on its way, and what relay and collector say to each other |
//! | [`spool`], [`sender`] | the relay: lines on disk until the collector has them |
//! | [`collector`], [`render`] | the collector: each line once in its files |
//! | [`disk`] | the files below, and a disk that fails for tests |
//! | [`ranges`] | sets of sequence numbers |
//! | [`delays`] | how long lines take, in classes |
//! | [`tls`] | certificates and keys of inputs and outputs |
//! | [`relay`], [`collect`] | both at work: sockets, clocks, threads |
//! | [`snapshot`], [`serve`] | what they counted, for people and for Prometheus |
//!
//! All but the last two rows know neither sockets nor clocks.
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
pub mod line;
pub mod policy;
mod positions;
pub mod ranges;
pub mod record;
pub mod relay;
pub mod render;
pub mod sender;
pub mod serve;
pub mod snapshot;
pub mod spool;
pub mod tls;
mod transport;
pub mod wire;

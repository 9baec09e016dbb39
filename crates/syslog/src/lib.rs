//! Syslog over partially reliable SCTP.
#![forbid(unsafe_code)]

pub mod config;
pub mod framing;
pub mod line;
pub mod policy;

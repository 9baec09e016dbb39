//! Time, bandwidth, byte counts and probabilities with their units in the type.
//!
//! Everything is an integer underneath, so that arithmetic gives the same result on every machine.
//! Every quantity is read from and printed as text that carries its unit, and printing is exact:
//! what [`Display`](std::fmt::Display) writes is read back as the same value.
//!
//! - [`Instant`] is a point in time, in nanoseconds since an epoch that the driver of the clock chooses
//! - [`Duration`] is the standard library's; [`duration`] reads and prints it
//! - [`Bandwidth`] is bits per second
//! - [`ByteCount`] is bytes
//! - [`Probability`] is parts per billion
//! - [`EcnCodepoint`] is the ECN field of the IP header
//! - [`ParseError`] says which text was refused, what was expected instead, and an example
//!
//! ```
//! use festina_units::{Bandwidth, ByteCount, Duration, Instant};
//!
//! let rate: Bandwidth = "12Mbit/s".parse()?;
//! let packet = ByteCount::from_bytes(1500);
//! let departure = Instant::ZERO + rate.transmission_time(packet);
//! assert_eq!(departure, Instant::from_millis(1));
//! assert_eq!(festina_units::duration::parse("250ms")?, Duration::from_millis(250));
//! # Ok::<(), festina_units::ParseError>(())
//! ```
#![forbid(unsafe_code)]

mod bandwidth;
mod byte_count;
pub mod duration;
mod ecn;
mod instant;
mod parse_error;
mod probability;
mod quantity;

pub use bandwidth::Bandwidth;
pub use byte_count::ByteCount;
pub use core::time::Duration;
pub use ecn::EcnCodepoint;
pub use instant::{Instant, OptionalInstant};
pub use parse_error::ParseError;
pub use probability::Probability;

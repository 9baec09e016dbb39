//! Time, bandwidth, byte counts and probabilities with their units in the type.
//!
//! All types are integers internally, so arithmetic gives the same result on every machine. Every quantity is parsed
//! from and printed as text with its unit. Printing is exact: parsing the output of [`Display`](std::fmt::Display)
//! gives the same value.
//!
//! - [`Instant`] is a point in time, in nanoseconds since an epoch chosen by the driver of the clock
//! - [`Duration`] is the standard library's; [`duration`] parses and prints it
//! - [`Bandwidth`] is a rate in bits per second
//! - [`ByteCount`] is an amount in bytes
//! - [`Probability`] is a fraction in parts per billion
//! - [`EcnCodepoint`] is the ECN field of the IP header
//! - [`Preview`] shortens bytes in debug output
//! - [`ParseError`] names the rejected text, the expected form and an example
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
mod named;
mod parse_error;
mod preview;
mod probability;
mod quantity;

pub use bandwidth::Bandwidth;
pub use byte_count::ByteCount;
pub use core::time::Duration;
pub use ecn::EcnCodepoint;
pub use instant::{Instant, OptionalInstant};
pub use parse_error::ParseError;
pub use preview::Preview;
pub use probability::Probability;

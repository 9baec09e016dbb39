//! Statistics and figures of Festina's experiments.
//!
//! - [`statistics`] gathers delays and tells their mean, percentiles and distribution
//! - [`figure`] draws curves on logarithmic axes as SVG
//!
//! ```
//! use std::time::Duration;
//! use festina_lab::figure::{DelayDistribution, Threshold};
//! use festina_lab::statistics::DelayStatistics;
//!
//! let mut delays = DelayStatistics::new();
//! for delay_ms in [50, 51, 52, 250] {
//!     delays.record(Duration::from_millis(delay_ms));
//! }
//! assert_eq!(delays.max(), Some(Duration::from_millis(250)));
//!
//! let mut distribution = DelayDistribution::new("Delivery delay", "four messages");
//! distribution.threshold(Threshold::new(Duration::from_millis(100), "100 ms"));
//! distribution.curve("rfc9260", &delays);
//! let svg = distribution.figure().to_svg()?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), festina_lab::figure::FigureError>(())
//! ```
#![forbid(unsafe_code)]

pub mod figure;
pub mod statistics;

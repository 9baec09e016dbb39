//! The laboratory: experiments as code, from a plan to a report.
//!
//! ```text
//!  plan (TOML) ──> runner ──> store ──> summary ──> report: page, figures, JSON, CSV
//!                    │                     │
//!                experiment: run      experiment: published numbers, checks
//! ```
//!
//! - [`plan`]: the points to run, and how often; errors in plans name the place and the expected value
//! - [`experiment`]: the interface of an experiment; [`experiments`] has them all
//! - [`evidence`]: how repetitions support a statement: estimates with intervals, bounds, judgements
//! - [`assumption`]: sources of a plan's values: stated, chosen or fitted
//! - [`scoreboard`]: published numbers and inequalities next to ours
//! - [`ledger`]: every quantitative statement of the papers, with its test and result; [`readings`]: which of them survive
//!   under each reading of the papers
//! - [`scenario`]: shared set-ups: transports by their settings, the thin stream over a path
//! - [`samples`]: the measurements of one run
//! - [`runner`]: runs a plan in parallel, resumes it, divides it among machines
//! - [`summary`]: means with confidence intervals, percentiles
//! - [`report`]: the files written about a run; [`page`]: the common parts of all pages
//! - [`figure`] draws curves, points, bars and the life of packets as SVG; [`png`] makes pictures of them
//! - [`capture`] writes the packets of a run for Wireshark
//! - [`traces`] draws the statistics of a capture's streams
//!
//! ```
//! use std::time::Duration;
//! use festina_lab::figure::{DelayDistribution, Threshold};
//! use festina_models::statistics::DelayStatistics;
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

pub mod assumption;
pub mod capture;
mod count;
pub mod evidence;
pub mod experiment;
pub mod experiments;
pub mod figure;
pub mod ledger;
pub mod memory;
pub mod page;
pub mod plan;
pub mod png;
pub mod readings;
pub mod report;
pub mod runner;
pub mod samples;
pub mod scenario;
pub mod scoreboard;
mod store;
pub mod summary;
pub mod traces;

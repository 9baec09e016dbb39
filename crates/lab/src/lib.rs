//! The laboratory: experiments as code, from a plan to a report.
//!
//! ```text
//!  plan (TOML) ──> runner ──> store ──> summary ──> report: page, figures, JSON, CSV
//!                    │                     │
//!                experiment: run      experiment: published numbers, checks
//! ```
//!
//! - [`plan`]: what is run, at which values, how often; bad plans are told what was expected where
//! - [`experiment`]: what an experiment is; [`experiments`] has them all
//! - [`evidence`]: what repetitions say about a statement: estimates with intervals, bounds, judgements
//! - [`assumption`]: where the values of a plan come from: stated, chosen or fitted
//! - [`scoreboard`]: published numbers and inequalities beside ours
//! - [`ledger`]: every quantitative statement of the papers, what tests it and what came of it; [`readings`]: which of them survive
//!   which reading of the papers
//! - [`scenario`]: what many experiments have in common: transports by their settings, the thin stream over a path
//! - [`samples`]: what one run measures
//! - [`runner`]: runs a plan in parallel, resumes it, divides it among machines
//! - [`summary`]: means with confidence intervals, percentiles
//! - [`report`]: everything that is written about a run; [`page`]: what all pages have in common
//! - [`statistics`] gathers delays and tells their mean, percentiles and distribution
//! - [`figure`] draws curves, points, bars and the life of packets as SVG; [`png`] makes pictures of them
//! - [`capture`] writes the packets of a run for Wireshark
//! - [`traces`] draws what a capture says about its streams
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

pub mod assumption;
pub mod capture;
mod count;
pub mod evidence;
pub mod experiment;
pub mod experiments;
pub mod figure;
pub mod ledger;
pub mod page;
pub mod plan;
pub mod png;
pub mod readings;
pub mod report;
pub mod runner;
pub mod samples;
pub mod scenario;
pub mod scoreboard;
pub mod statistics;
mod store;
pub mod summary;
pub mod traces;

//! A rate that changes over time: when a link may send, and how much.
//!
//! The text form is that of Mahimahi's link emulator: one integer of milliseconds per line, in non-decreasing order,
//! each an opportunity to send [`OPPORTUNITY_BYTES`]. After the last line the trace repeats. The unused part of an
//! opportunity serves the next packet if that waits already, and is lost otherwise; a larger packet takes several
//! opportunities.
//!
//! ```
//! use festina_netsim::RateTrace;
//! use festina_units::Duration;
//!
//! let trace = RateTrace::parse("2\n2\n5\n10\n")?;
//! assert_eq!(trace.period(), Duration::from_millis(10));
//! assert_eq!(trace.mean_rate().bits_per_second(), 4 * 1504 * 8 * 100);
//! assert_eq!(RateTrace::parse("2\n1\n").unwrap_err().to_string(), "line 2: 1 comes after 2; expected times that never fall");
//! # Ok::<(), festina_netsim::rate_trace::TraceError>(())
//! ```

mod made;
mod opportunities;

use std::fmt;
use std::sync::Arc;

use festina_units::{Bandwidth, Duration};

pub use made::MadeTrace;
pub(crate) use opportunities::Opportunities;

/// Bytes per opportunity.
pub const OPPORTUNITY_BYTES: u64 = 1_504;
/// Maximum length of a trace's text, in bytes.
pub const TRACE_BYTES_MAX: usize = 16 << 20;
/// The latest time in a trace, in milliseconds: a week.
pub const TRACE_MILLIS_MAX: u32 = 7 * 24 * 3_600 * 1_000;

/// The opportunities of a link, repeated for ever. Clones share them.
#[derive(Clone, PartialEq, Eq)]
pub struct RateTrace {
    /// Non-decreasing, at least one, the last above zero.
    opportunities_ms: Arc<[u32]>,
}

/// Error of the caller: the text is not a valid trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// The text has more than [`TRACE_BYTES_MAX`] bytes.
    TooLong,
    /// The trace has no opportunity.
    Empty,
    /// All opportunities are at zero, so the period would be zero.
    TakesNoTime,
    /// A line is not an integer of milliseconds up to [`TRACE_MILLIS_MAX`].
    NoTime {
        /// The line, counted from 1.
        line: usize,
        /// Its text, truncated if it is long.
        text: String,
    },
    /// A line has an earlier time than the previous one.
    Falls {
        /// The line, counted from 1.
        line: usize,
        /// Its time in milliseconds.
        time_ms: u32,
        /// The time of the previous line.
        before_ms: u32,
    },
}

/// Maximum number of characters of an invalid line in an error message.
const SHOWN_CHARS_MAX: usize = 40;

impl RateTrace {
    /// Parses the text form. Empty lines at the end, blanks at the end of a line and Windows line endings are accepted.
    ///
    /// # Errors
    /// The first problem, with its line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        if text.len() > TRACE_BYTES_MAX {
            return Err(TraceError::TooLong);
        }
        let mut times_ms: Vec<u32> = Vec::new();
        for (line, content) in (1..).zip(text.trim_end().lines()) {
            let content = content.trim();
            let time_ms = content.parse().ok().filter(|time_ms| *time_ms <= TRACE_MILLIS_MAX);
            let shown = || content.chars().take(SHOWN_CHARS_MAX).collect();
            let time_ms: u32 = time_ms.ok_or_else(|| TraceError::NoTime { line, text: shown() })?;
            if let Some(&before_ms) = times_ms.last()
                && time_ms < before_ms
            {
                return Err(TraceError::Falls { line, time_ms, before_ms });
            }
            times_ms.push(time_ms);
        }
        match times_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::TakesNoTime),
            Some(_) => Ok(Self { opportunities_ms: times_ms.into() }),
        }
    }

    /// Returns the text form.
    pub fn text(&self) -> String {
        self.opportunities_ms.iter().map(|time_ms| format!("{time_ms}\n")).collect()
    }

    /// Returns the period after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms().into())
    }

    /// Returns the mean rate.
    pub fn mean_rate(&self) -> Bandwidth {
        let bits = self.opportunities_ms.len() as u64 * OPPORTUNITY_BYTES * 8;
        Bandwidth::from_bits_per_second(bits * 1_000 / u64::from(self.period_ms()))
    }

    /// Returns the opportunities of one period, in milliseconds, in non-decreasing order.
    pub fn opportunities_ms(&self) -> &[u32] {
        &self.opportunities_ms
    }

    fn period_ms(&self) -> u32 {
        *self.opportunities_ms.last().expect("a trace has an opportunity")
    }
}

/// A trace is long; its mean rate is sufficient.
impl fmt::Debug for RateTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateTrace({} in {:?})", self.mean_rate(), self.period())
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it has more than {TRACE_BYTES_MAX} bytes"),
            Self::Empty => f.write_str("it has no line; expected one time in milliseconds a line"),
            Self::TakesNoTime => f.write_str("all its times are 0; expected the last one above 0"),
            Self::NoTime { line, text } => {
                write!(
                    f,
                    "line {line}: {text:?} is no time; expected a whole number of milliseconds up to {TRACE_MILLIS_MAX}"
                )
            }
            Self::Falls { line, time_ms, before_ms } => {
                write!(f, "line {line}: {time_ms} comes after {before_ms}; expected times that never fall")
            }
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_and_written_alike() {
        let text = "0\n3\n3\n7\n";
        let trace = RateTrace::parse(text).expect("it is one");
        assert_eq!(trace.opportunities_ms(), [0, 3, 3, 7]);
        assert_eq!(trace.text(), text);
        assert_eq!(RateTrace::parse("0\r\n3 \r\n3\r\n7\r\n\r\n"), Ok(trace));
    }

    #[test]
    fn invalid_traces_are_refused_with_their_line() {
        let refused = |text: &str| RateTrace::parse(text).expect_err(text).to_string();
        assert!(refused("").contains("no line"));
        assert!(refused("0\n0\n").contains("all its times are 0"));
        assert!(refused("1\nx2\n").starts_with("line 2: \"x2\" is no time"));
        assert!(refused("1\n\n2\n").starts_with("line 2: \"\" is no time"));
        assert!(refused("-1\n").starts_with("line 1: \"-1\""));
        assert!(refused("1.5\n").starts_with("line 1: \"1.5\""));
        assert!(refused("604800001\n").starts_with("line 1: \"604800001\""));
        assert!(refused("5\n4\n").starts_with("line 2: 4 comes after 5"));
        assert!(refused(&"9".repeat(1_000)).len() < 200);
        assert!(refused(&"1\n".repeat(TRACE_BYTES_MAX / 2 + 1)).contains("more than 16777216 bytes"));
    }
}

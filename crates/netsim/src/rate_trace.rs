//! A rate that changes over time: when a link may send how much.
//!
//! The text form is that of Mahimahi's link emulator: one whole number of milliseconds a line, never falling, each an
//! opportunity to send [`OPPORTUNITY_BYTES`]. The trace begins anew after the last one. What an opportunity has left over serves the
//! next packet if that waits already, and is gone otherwise; a packet that is larger takes several.
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

/// What one opportunity carries.
pub const OPPORTUNITY_BYTES: u64 = 1_504;
/// The longest text that is read as a trace, in bytes.
pub const TRACE_BYTES_MAX: usize = 16 << 20;
/// The latest time in a trace, in milliseconds: a week.
pub const TRACE_MILLIS_MAX: u32 = 7 * 24 * 3_600 * 1_000;

/// The opportunities of a link, repeated for ever. Copies share them.
#[derive(Clone, PartialEq, Eq)]
pub struct RateTrace {
    /// Never falling, at least one, the last above zero.
    opportunities_ms: Arc<[u32]>,
}

/// Caller: a text that is no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// It has more than [`TRACE_BYTES_MAX`] bytes.
    TooLong,
    /// It has no opportunity.
    Empty,
    /// All opportunities are at zero, so that it would take no time.
    TakesNoTime,
    /// A line is no whole number of milliseconds up to [`TRACE_MILLIS_MAX`].
    NoTime {
        /// The line, counted from 1.
        line: usize,
        /// What it says, cut if it is long.
        text: String,
    },
    /// A line has an earlier time than the one before it.
    Falls {
        /// The line, counted from 1.
        line: usize,
        /// Its time in milliseconds.
        time_ms: u32,
        /// The time before it.
        before_ms: u32,
    },
}

/// At most so many characters of a wrong line are shown.
const SHOWN_CHARS_MAX: usize = 40;

impl RateTrace {
    /// Reads the text form. Empty lines at the end, blanks at the end of a line and Windows' line ends do no harm.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
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

    /// The text form.
    pub fn text(&self) -> String {
        self.opportunities_ms.iter().map(|time_ms| format!("{time_ms}\n")).collect()
    }

    /// After what time it begins anew.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms().into())
    }

    /// What it carries on average.
    pub fn mean_rate(&self) -> Bandwidth {
        let bits = self.opportunities_ms.len() as u64 * OPPORTUNITY_BYTES * 8;
        Bandwidth::from_bits_per_second(bits * 1_000 / u64::from(self.period_ms()))
    }

    /// When there is something to send within one period, in milliseconds, never falling.
    pub fn opportunities_ms(&self) -> &[u32] {
        &self.opportunities_ms
    }

    fn period_ms(&self) -> u32 {
        *self.opportunities_ms.last().expect("a trace has an opportunity")
    }
}

/// A trace is long; what it carries says enough.
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
    fn what_is_no_trace_is_refused_with_its_line() {
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

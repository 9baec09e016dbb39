//! Parameters of experiments, and their values.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use festina_units::{Bandwidth, ByteCount, Duration, ParseError, Probability, duration};

use super::tables::{NAME_CHARS_MAX, interned, is_name};
use super::{LinkTrace, Recording};
use crate::count::as_f64;

/// A parameter that a plan can set.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The key in the plan.
    pub name: &'static str,
    /// Its meaning, as half a sentence.
    pub about: &'static str,
    /// Which values make sense.
    pub kind: Kind,
}

/// The values that a parameter can have.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A duration, in a plan `"250ms"`.
    Duration(RangeInclusive<Duration>),
    /// A bandwidth, in a plan `"10Mbit/s"`.
    Bandwidth(RangeInclusive<Bandwidth>),
    /// A size, in a plan `"64KiB"`.
    Bytes(RangeInclusive<ByteCount>),
    /// A probability or share, in a plan `"5%"`.
    Probability(RangeInclusive<Probability>),
    /// A whole number without a unit, in a plan `100` and not in quotes.
    Count(RangeInclusive<u64>),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A capture (pcap or pcapng) whose packet times and sizes are replayed, named from the plan's own folder; in a plan
    /// `"game.pcapng"`, or `"none"`.
    Recording,
    /// A trace of a link's rate: one that was made, or a file in Mahimahi's format, named from the plan's own folder; in a plan
    /// `"lte"` or `"my.trace"`, or `"none"`.
    Trace,
    /// The name of a node, a link or of flows: lower case letters, digits and hyphens.
    Name,
}

/// No capture, no trace.
const NONE: &str = "none";

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A duration.
    Duration(Duration),
    /// A bandwidth.
    Bandwidth(Bandwidth),
    /// A size.
    Bytes(ByteCount),
    /// A probability or share.
    Probability(Probability),
    /// A whole number.
    Count(u64),
    /// One of the words of [`Kind::Choice`], or a [`Kind::Name`].
    Choice(&'static str),
    /// A capture, if there is one.
    Recording(Option<Recording>),
    /// A trace of a link's rate, if there is one.
    Trace(Option<LinkTrace>),
}

impl Value {
    /// The value in milliseconds, bit/s, bytes or as a share of one; `None` if it is no number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Duration(value) => Some(value.as_secs_f64() * 1e3),
            Self::Bandwidth(value) => Some(as_f64(value.bits_per_second())),
            Self::Bytes(value) => Some(as_f64(value.bytes())),
            Self::Probability(value) => Some(value.as_fraction()),
            Self::Count(value) => Some(as_f64(*value)),
            Self::Choice(_) | Self::Recording(_) | Self::Trace(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// The form that a plan accepts, exact: two values print alike only if they are equal, or captures of the same name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration(value) => write!(f, "{}", duration::display(*value)),
            Self::Bandwidth(value) => write!(f, "{value}"),
            Self::Bytes(value) => write!(f, "{value}"),
            Self::Probability(value) => write!(f, "{value}"),
            Self::Count(value) => write!(f, "{value}"),
            Self::Choice(value) => f.write_str(value),
            Self::Recording(None) | Self::Trace(None) => f.write_str(NONE),
            Self::Recording(Some(value)) => write!(f, "{value}"),
            Self::Trace(Some(value)) => write!(f, "{value}"),
        }
    }
}

impl Kind {
    /// Returns the value of `text`, written in quotes in a plan in `folder`.
    ///
    /// # Errors
    /// The problem and the expected value, as the end of a sentence.
    pub(super) fn value_of_text(&self, text: &str, folder: &Path) -> Result<Value, String> {
        match self {
            Self::Duration(range) => {
                let value = duration::parse(text).map_err(|error| error.to_string())?;
                within(range, value, |value| duration::display(value).to_string()).map(Value::Duration)
            }
            Self::Bandwidth(range) => quantity(range, text).map(Value::Bandwidth),
            Self::Bytes(range) => quantity(range, text).map(Value::Bytes),
            Self::Probability(range) => quantity(range, text).map(Value::Probability),
            Self::Count(_) => Err(format!("\"{text}\" is in quotes; expected {self}")),
            Self::Choice(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Choice(word)),
                None => Err(format!("\"{text}\" is unknown; expected {self}")),
            },
            Self::Recording if text == NONE => Ok(Value::Recording(None)),
            Self::Recording => match Recording::load(folder, text) {
                Ok(recording) => Ok(Value::Recording(Some(recording))),
                Err(problem) => Err(format!("{problem}; expected {self}")),
            },
            Self::Trace if text == NONE => Ok(Value::Trace(None)),
            Self::Trace => LinkTrace::load(folder, text).map(|trace| Value::Trace(Some(trace))),
            Self::Name if is_name(text) => Ok(Value::Choice(interned(text))),
            Self::Name => Err(format!("\"{text}\" is no name; expected {self}")),
        }
    }

    /// Returns the value of a number without quotes.
    ///
    /// # Errors
    /// The problem and the expected value, as the end of a sentence.
    pub(super) fn value_of_integer(&self, number: i64) -> Result<Value, String> {
        match self {
            Self::Count(range) => match u64::try_from(number) {
                Ok(count) => within(range, count, |count| count.to_string()).map(Value::Count),
                Err(_) => Err(format!("{number} is below zero; expected {self}")),
            },
            Self::Choice(_) | Self::Recording | Self::Trace | Self::Name => {
                Err(format!("{number} is a number; expected {self}"))
            }
            _ => Err(format!("{number} has no unit; expected {self}")),
        }
    }
}

impl Kind {
    /// The least and the largest value, as `1ms to 10s`; `None` of words and files.
    pub fn range(&self) -> Option<String> {
        let text = |low: String, high: String| Some(format!("{low} to {high}"));
        match self {
            Self::Duration(range) => {
                let [low, high] = [range.start(), range.end()].map(|value| duration::display(*value).to_string());
                text(low, high)
            }
            Self::Bandwidth(range) => text(range.start().to_string(), range.end().to_string()),
            Self::Bytes(range) => text(range.start().to_string(), range.end().to_string()),
            Self::Probability(range) => text(range.start().to_string(), range.end().to_string()),
            Self::Count(range) => text(range.start().to_string(), range.end().to_string()),
            Self::Choice(_) | Self::Recording | Self::Trace | Self::Name => None,
        }
    }
}

impl fmt::Display for Kind {
    /// Writes the expected value as a noun with its article.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration(_) => f.write_str("a duration with its unit such as \"250ms\""),
            Self::Bandwidth(_) => f.write_str("a bandwidth with its unit such as \"10Mbit/s\""),
            Self::Bytes(_) => f.write_str("a size with its unit such as \"64KiB\""),
            Self::Probability(_) => f.write_str("a share in quotes such as \"5%\""),
            Self::Count(_) => f.write_str("a whole number such as 100"),
            Self::Choice(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
            Self::Trace => f.write_str("a trace such as \"lte\" or \"my.trace\", or \"none\""),
            Self::Name => {
                write!(f, "a name of lower case letters, digits and hyphens, at most {NAME_CHARS_MAX} of them")
            }
            Self::Recording => f.write_str("a capture file (pcap or pcapng) such as \"game.pcapng\", or \"none\""),
        }
    }
}

fn quantity<T>(range: &RangeInclusive<T>, text: &str) -> Result<T, String>
where
    T: FromStr<Err = ParseError> + PartialOrd + Copy + fmt::Display,
{
    let value = text.parse::<T>().map_err(|error| error.to_string())?;
    within(range, value, |value| value.to_string())
}

fn within<T: PartialOrd + Copy>(range: &RangeInclusive<T>, value: T, print: impl Fn(T) -> String) -> Result<T, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let [value, low, high] = [value, *range.start(), *range.end()].map(print);
    Err(format!("{value} makes no sense here; expected {low} to {high}"))
}

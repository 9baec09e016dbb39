//! A broker that takes part in each commit: it takes all lines of a commit or none.
//!
//! After a crash, files are truncated to the length in the journal, but a broker keeps the lines that it has taken. So the broker decides whether a
//! commit counts, and the journal is prepared for either answer:
//!
//! 1. The lines are written to their files and synced. A synced journal entry contains the commit's number and changes.
//! 2. The broker takes the lines and the number in one transaction. From here on the commit counts.
//! 3. A second entry says that it counts. It is not synced: if it is missing after a crash, the collector asks the broker.
//!
//! If the collector does not know whether the broker has taken a commit, it takes over: the broker aborts the unfinished transactions of this
//! collector's earlier processes and attempts, and then reports its last commit. If that is the commit in doubt, it counts and is not handed over
//! again. Otherwise it can no longer arrive, and is handed over again. After a crash it is discarded instead: its lines were not acknowledged, so
//! relays send them again.

use std::fmt;
use std::io;

use bytes::Bytes;
use festina_units::Preview;

use crate::record::{MARK_CUT, Record};
use crate::render::{self, Format};
use crate::wire::SenderId;

/// A line for a broker.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerLine {
    /// Source of the line. Lines of one source stay in order.
    pub source: Bytes,
    /// Its text.
    pub value: Vec<u8>,
    /// The relay that sent it.
    pub sender: SenderId,
    /// Priority and number of a line that is repeated until it is here: with the sender, no two lines have the same.
    pub number: Option<(u8, u64)>,
    /// Microseconds since 1970 when the relay got it.
    pub received_us: u64,
    /// It was too long for the broker.
    pub is_cut: bool,
}

impl fmt::Debug for BrokerLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, value, sender, number, received_us, is_cut } = self;
        formatter
            .debug_struct("BrokerLine")
            .field("source", &Preview(source))
            .field("value", &Preview(value))
            .field("sender", sender)
            .field("number", number)
            .field("received_us", received_us)
            .field("is_cut", is_cut)
            .finish()
    }
}

/// Takes all lines of a commit or none, and remembers the number of its last commit.
pub trait Broker: Send {
    /// Aborts, for good, the unfinished transactions of earlier processes and attempts of this name. Returns the number of the last commit of this
    /// name, if there is one.
    ///
    /// # Errors
    /// If the broker cannot be reached, or refuses.
    fn take_over(&mut self, name: &str) -> io::Result<Option<u64>>;

    /// Takes the lines of a commit and its number. Call [`take_over`](Self::take_over) first.
    ///
    /// # Errors
    /// The commit is then in doubt: the broker may have it, or may still get it until the next takeover.
    fn commit(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()>;

    /// Waits for a while after an error. Returns whether it is to be tried again; if not, the collector ends.
    fn pause(&mut self, error: &io::Error) -> bool;
}

/// A broker as an output of a collector.
pub struct BrokerOutput {
    /// The broker.
    pub broker: Box<dyn Broker>,
    /// Format of its lines.
    pub format: Format,
    /// The name to use if the collector has none yet: drawn at random.
    pub new_name: [u8; 16],
}

/// The longest text for a broker. Kafka's messages are limited to 1 MiB by default, including their headers.
const VALUE_BYTES_MAX: usize = 900_000;

/// Bytes kept of a line whose JSON text would be too long: each byte is escaped to at most six.
const CUT_LINE_BYTES: usize = VALUE_BYTES_MAX / 8;

impl BrokerLine {
    pub(super) fn new(record: &Record, format: Format, sender: SenderId, priority: Option<u8>) -> Self {
        let text = |record: &Record| {
            let mut text = Vec::new();
            render::render(record, format, &mut text);
            text.pop();
            text
        };
        let mut value = text(record);
        let is_cut = value.len() > VALUE_BYTES_MAX;
        if is_cut {
            let line = record.line.slice(..record.line.len().min(CUT_LINE_BYTES));
            value = text(&Record { line, marks: record.marks | MARK_CUT, ..record.clone() });
        }
        let number = priority.map(|priority| (priority, record.sequence));
        Self { source: record.source.clone(), value, sender, number, received_us: record.received_us, is_cut }
    }

    /// The time for the broker in milliseconds since 1970: not after the present, as brokers reject lines from the future.
    pub fn timestamp_ms(&self, now_us: u64) -> i64 {
        i64::try_from(self.received_us.min(now_us) / 1_000).unwrap_or_default()
    }
}

/// The broker, and whether it is this process that it listens to.
pub(super) struct Handover {
    broker: Box<dyn Broker>,
    name: String,
    is_ours: bool,
    /// The last number that it was asked to take.
    tried: u64,
}

impl Handover {
    /// Creates the handover of a collector whose last commit may have this number.
    pub(super) fn new(broker: Box<dyn Broker>, name: [u8; 16], number: u64) -> Self {
        let name = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { broker, name, is_ours: false, tried: number }
    }

    /// The last commit that the broker has. Nothing of an earlier one will follow.
    pub(super) fn last(&mut self) -> io::Result<u64> {
        self.is_ours = false;
        let last = self.broker.take_over(&self.name)?.unwrap_or_default();
        if last > self.tried {
            let problem = format!(
                "the broker has commit {last} of collector {}, whose state ends at {}: the state was restored from an older copy",
                self.name, self.tried
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.is_ours = true;
        Ok(last)
    }

    /// Has the broker take a commit, however often it takes.
    ///
    /// # Errors
    /// If it is to be tried no more. Then nothing is known.
    pub(super) fn hand(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()> {
        while let Err(error) = self.attempt(number, lines) {
            self.is_ours = false;
            if error.kind() == io::ErrorKind::InvalidData || !self.broker.pause(&error) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn attempt(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()> {
        if !self.is_ours && self.last()? == number {
            return Ok(());
        }
        self.tried = number;
        self.broker.commit(number, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Severity;

    #[test]
    fn a_line_from_the_future_gets_the_present_as_its_time_for_a_broker() {
        let (line, now_us) = (Bytes::from_static(b"a line"), 1_700_000_000_000_000);
        let record = |received_us| {
            let (severity, source) = (Severity::new(3), Bytes::from_static(b"here"));
            Record { sequence: 7, received_us, marks: 0, severity, source, line: line.clone() }
        };
        for (received_us, timestamp_ms) in [
            (1_600_000_000_000_999, 1_600_000_000_000),
            (now_us + 7_200_000_000, 1_700_000_000_000),
            (u64::MAX, 1_700_000_000_000),
        ] {
            let line = BrokerLine::new(&record(received_us), Format::Raw, SenderId([1; 16]), None);
            assert_eq!(line.timestamp_ms(now_us), timestamp_ms);
        }
    }

    #[test]
    fn a_line_whose_text_is_too_long_for_a_broker_is_cut_and_marked_and_no_other_is() {
        for (byte, bytes, is_cut) in [(b'x', 256 << 10, false), (b'\x01', 140_000, false), (b'\x01', 256 << 10, true)] {
            for format in [Format::Raw, Format::Json] {
                let record = Record {
                    sequence: 7,
                    received_us: 1,
                    marks: 0,
                    severity: Severity::new(3),
                    source: Bytes::from_static(b"here"),
                    line: Bytes::from(vec![byte; bytes]),
                };
                let line = BrokerLine::new(&record, format, SenderId([1; 16]), Some(2));
                assert!(line.value.len() <= VALUE_BYTES_MAX, "{}", line.value.len());
                assert_eq!((line.is_cut, line.number), (is_cut, Some((2, 7))));
                let text = String::from_utf8(line.value).expect("text");
                let marked = match format {
                    Format::Raw => text.ends_with(" [cut]"),
                    Format::Json => text.contains("\"cut\":true"),
                };
                assert_eq!(marked, is_cut);
            }
        }
    }
}

//! A broker that has a part in each commit: it takes the lines as a whole or not at all.
//!
//! Files are cut after a crash to what the journal says, but what a broker has taken it keeps. So whether a commit counts is decided by the
//! broker, and the journal is prepared for either answer:
//!
//! 1. The lines are in their files, synced. An entry in the journal, synced, says what the commit would change, and its number.
//! 2. The broker takes the lines and the number, in one transaction. From here on the commit counts.
//! 3. An entry says that it counts. It is not synced: who does not find it asks the broker.
//!
//! Whoever does not know whether the broker has taken a commit takes over: the broker ends whatever an earlier process or attempt of this
//! collector still has under way, and then says which commit is the last that it has. If it is the one in doubt, it counts, and is not handed
//! over again; otherwise it never will be there, and is handed over again or, after a crash, forgotten: relays were not answered
//! and send its lines again.

use std::io;

use bytes::Bytes;

use crate::config::Format;
use crate::record::{MARK_CUT, Record};
use crate::render;
use crate::wire::SenderId;

/// A line for a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerLine {
    /// Its source: what is of one source stays in order.
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

/// Who takes the lines of a commit as a whole or not at all, and remembers the number of the last commit that it has.
pub trait Broker: Send {
    /// Ends, for good, whatever earlier processes and attempts of this name have under way. Returns the number of the last commit of this
    /// name, if there is any.
    ///
    /// # Errors
    /// If it cannot be reached, or does not want to.
    fn take_over(&mut self, name: &str) -> io::Result<Option<u64>>;

    /// Takes the lines of a commit and its number. Only who has taken over may ask.
    ///
    /// # Errors
    /// Then nothing is known: the commit may be there, and it may come to be there until it is taken over.
    fn commit(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()>;

    /// Waits for a while after an error. Returns whether it is to be tried again; if not, the collector ends.
    fn pause(&mut self, error: &io::Error) -> bool;
}

/// A broker as an output of a collector.
pub struct BrokerOutput {
    /// The broker.
    pub broker: Box<dyn Broker>,
    /// What a line looks like there.
    pub format: Format,
    /// What the broker will know this collector by if it has no name yet: drawn at random.
    pub new_name: [u8; 16],
}

/// The longest text for a broker. Kafka's messages have 1 MiB at most, unless somebody says otherwise, with all that is around them.
const VALUE_BYTES_MAX: usize = 900_000;

/// What is kept of a line whose text would be longer: no byte of it becomes more than six.
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
    /// For a collector whose last commit, perhaps, has this number.
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
                "the broker has commit {last} of collector {}, which knows of {} only: what it remembers was put back from a copy",
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

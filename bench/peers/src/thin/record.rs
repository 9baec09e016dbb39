//! One row of the results, in CSV.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::contender::Contender;
use super::delays::Percentile;
use super::task::{Outcome, Scale, Task};

/// What one contender made of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its name.
    pub contender: String,
    /// The task.
    pub task: Task,
    /// Messages written.
    pub messages: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Their delays.
    pub delay: Delay,
    /// Cost per message written.
    pub cost: Cost,
    /// What stopped connections, in words; empty if nothing did.
    pub failures: String,
}

/// From the application's write, or from `connect`, to the delivery in order, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// Mean of the arrived messages.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99: Percentile,
    /// The 99.9th percentile.
    pub p999: Percentile,
    /// The longest.
    pub max_ms: f64,
}

/// Packets, and bytes with the headers of IP and UDP, for each message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Packets there and back.
    pub packets: [f64; 2],
    /// Bytes there and back.
    pub bytes: [f64; 2],
}

impl Cost {
    /// Bytes of both ends.
    #[must_use]
    pub fn bytes_of_both(&self) -> f64 {
        self.bytes[0] + self.bytes[1]
    }
}

/// The file about the path that changes.
pub const CHANGING_FILE: &str = "thin-peers-changing.csv";

/// The first line of the file.
const HEAD: &str = "rtt_ms,iat_ms,loss_percent,contender,messages,delivered,mean_ms,p50_ms,p99_ms,p99_low_ms,p99_high_ms,p999_ms,\
                    p999_low_ms,p999_high_ms,max_ms,packets_there,packets_back,bytes_there,bytes_back,failures";

impl Record {
    /// Sums up an outcome.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn of(contender: &Contender, task: Task, outcome: &Outcome) -> Self {
        let share = |sum: u64| sum as f64 / outcome.messages.max(1) as f64;
        let mut reasons = outcome.failures.clone();
        reasons.sort_unstable();
        reasons.dedup();
        let failures = match outcome.failures.len() {
            0 => String::new(),
            count => format!("{count} connections: {}", reasons.join("; ")).replace([',', '\n'], " "),
        };
        Record {
            contender: contender.name.to_owned(),
            task,
            messages: outcome.messages,
            delivered: outcome.delays.delivered(),
            delay: Delay {
                mean_ms: outcome.delays.mean_ms(),
                p50_ms: outcome.delays.percentile(0.5).ms,
                p99: outcome.delays.percentile(0.99),
                p999: outcome.delays.percentile(0.999),
                max_ms: outcome.delays.max_ms(),
            },
            cost: Cost { packets: outcome.packets.map(share), bytes: outcome.bytes.map(share) },
            failures,
        }
    }

    fn line(&self) -> String {
        let Record { contender, task, messages, delivered, delay, cost, failures } = self;
        let interval_ms = task.interval.map_or("first".to_owned(), |interval| interval.as_millis().to_string());
        let Delay { mean_ms, p50_ms, p99, p999, max_ms } = delay;
        let numbers = [
            *mean_ms,
            *p50_ms,
            p99.ms,
            p99.low_ms,
            p99.high_ms,
            p999.ms,
            p999.low_ms,
            p999.high_ms,
            *max_ms,
            cost.packets[0],
            cost.packets[1],
            cost.bytes[0],
            cost.bytes[1],
        ];
        let numbers = numbers.map(|number| format!("{number:.3}")).join(",");
        let (rtt_ms, loss) = (task.round_trip.as_millis(), task.loss_percent);
        format!("{rtt_ms},{interval_ms},{loss},{contender},{messages},{delivered},{numbers},{failures}")
    }

    fn read(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split(',').collect();
        let milliseconds = |text: &str| text.parse().ok().map(Duration::from_millis);
        let number = |index: usize| cells.get(index).and_then(|cell| cell.parse::<f64>().ok());
        let percentile = |first: usize| {
            Some(Percentile { ms: number(first)?, low_ms: number(first + 1)?, high_ms: number(first + 2)? })
        };
        let interval = match *cells.get(1)? {
            "first" => None,
            text => Some(milliseconds(text)?),
        };
        Some(Record {
            contender: (*cells.get(3)?).to_owned(),
            task: Task { round_trip: milliseconds(cells[0])?, interval, loss_percent: cells[2].parse().ok()? },
            messages: cells.get(4)?.parse().ok()?,
            delivered: cells.get(5)?.parse().ok()?,
            delay: Delay {
                mean_ms: number(6)?,
                p50_ms: number(7)?,
                p99: percentile(8)?,
                p999: percentile(11)?,
                max_ms: number(14)?,
            },
            cost: Cost { packets: [number(15)?, number(16)?], bytes: [number(17)?, number(18)?] },
            failures: (*cells.get(19)?).to_owned(),
        })
    }
}

/// Records as the lines of a CSV file.
#[must_use]
pub fn to_csv(records: &[Record]) -> String {
    let lines = records.iter().map(|record| record.line() + "\n");
    std::iter::once(format!("{HEAD}\n")).chain(lines).collect()
}

/// Reads what [`to_csv`] wrote.
///
/// # Errors
/// The first line that is no record.
pub fn from_csv(text: &str) -> Result<Vec<Record>, String> {
    let lines = text.lines().skip(1);
    lines.map(|line| Record::read(line).ok_or_else(|| format!("no record: {line}"))).collect()
}

/// Reads all files of a folder that the command wrote, in the order of their names.
///
/// # Errors
/// If the folder or a file cannot be read, or a file has a line that is no record.
pub fn from_folder(folder: &Path) -> io::Result<Vec<Record>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("thin-peers-") && name.ends_with("ms.csv")) {
            files.push(folder.join(name));
        }
    }
    files.sort();
    let mut records = Vec::new();
    for file in files {
        records.extend(from_csv(&fs::read_to_string(file)?).map_err(io::Error::other)?);
    }
    Ok(records)
}

/// Reads the file of a folder about the path that changes; nothing if there is none.
///
/// # Errors
/// If the file cannot be read or has a line that is no record.
pub fn over_changes(folder: &Path) -> io::Result<Vec<Record>> {
    match fs::read_to_string(folder.join(CHANGING_FILE)) {
        Ok(text) => from_csv(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Checks that records were measured at this scale, so that rows measured now may stand beside them. A contender whose connections failed has fewer
/// messages than the others.
///
/// # Errors
/// The scale of the records.
pub fn check_scale(records: &[Record], scale: Scale) -> Result<(), String> {
    for (is_first, messages) in [(false, scale.connections * scale.messages), (true, scale.first_messages)] {
        let of_task = |record: &&Record| record.task.interval.is_none() == is_first;
        let complete = |record: &&Record| record.failures.is_empty() && record.messages != messages;
        if let Some(other) = records.iter().filter(of_task).find(complete) {
            return Err(format!(
                "the file has rows of {} messages, not of {messages}: measure all of them, or none",
                other.messages
            ));
        }
    }
    Ok(())
}

/// Replaces those of the old records that have been measured again, and adds the others.
#[must_use]
pub fn merge(old: Vec<Record>, new: &[Record], contenders: &[Contender]) -> Vec<Record> {
    let is_new = |old: &Record| new.iter().any(|new| (&new.contender, new.task) == (&old.contender, old.task));
    let mut records: Vec<Record> = old.into_iter().filter(|old| !is_new(old)).collect();
    records.extend(new.iter().cloned());
    let place = |record: &Record| contenders.iter().position(|contender| contender.name == record.contender);
    records.sort_by_key(|record| (record.task.interval.is_none(), record.task, place(record)));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let never = Percentile { ms: f64::INFINITY, low_ms: 120.5, high_ms: f64::INFINITY };
        let some = Percentile { ms: 60.125, low_ms: 60.0, high_ms: 61.0 };
        let record = |interval, failures: &str| Record {
            contender: "a-stack".to_owned(),
            task: Task { round_trip: Duration::from_millis(100), interval, loss_percent: 5 },
            messages: 10,
            delivered: 9,
            delay: Delay { mean_ms: 55.5, p50_ms: 50.0, p99: some, p999: never, max_ms: f64::INFINITY },
            cost: Cost { packets: [1.25, 0.5], bytes: [200.5, 60.0] },
            failures: failures.to_owned(),
        };
        let records = vec![record(None, ""), record(Some(Duration::from_millis(250)), "1 connections: it ended")];
        assert_eq!(from_csv(&to_csv(&records)), Ok(records));
        assert!(from_csv("head\n1,2,3\n").is_err());
    }

    #[test]
    fn rows_that_are_measured_again_replace_the_old_ones_and_the_others_stay() {
        let contenders = super::super::contender::all();
        let record = |place: usize, interval_ms: Option<u64>, mean_ms| Record {
            contender: contenders[place].name.to_owned(),
            task: Task {
                round_trip: Duration::from_millis(100),
                interval: interval_ms.map(Duration::from_millis),
                loss_percent: 5,
            },
            messages: 10,
            delivered: 10,
            delay: Delay { mean_ms, ..Delay::default() },
            cost: Cost::default(),
            failures: String::new(),
        };
        let old = vec![record(0, Some(10), 1.0), record(2, Some(10), 1.0), record(0, None, 1.0)];
        let new = vec![record(2, Some(10), 2.0), record(1, Some(10), 2.0)];
        let merged = merge(old.clone(), &new, &contenders);
        let [first, replaced, last] = <[Record; 3]>::try_from(old).expect("there are three");
        assert_eq!(merged, [first, new[1].clone(), new[0].clone(), last]);
        assert_ne!(replaced, new[0]);
    }

    #[test]
    fn rows_of_another_number_of_messages_are_refused_before_anything_is_measured_but_not_those_of_failed_connections()
    {
        let record = |interval, messages, failures: &str| Record {
            contender: "a-stack".to_owned(),
            task: Task { round_trip: Duration::from_millis(100), interval, loss_percent: 5 },
            messages,
            delivered: messages,
            delay: Delay::default(),
            cost: Cost::default(),
            failures: failures.to_owned(),
        };
        let interval = Some(Duration::from_millis(10));
        let old = [record(interval, 20, ""), record(interval, 17, "1 connections: it ended"), record(None, 30, "")];
        let scale = Scale { connections: 2, messages: 10, first_messages: 30 };
        assert_eq!(check_scale(&old, scale), Ok(()));
        assert!(check_scale(&old, Scale { messages: 11, ..scale }).is_err_and(|error| error.contains("20 messages")));
        assert!(check_scale(&old, Scale { first_messages: 20, ..scale }).is_err());
        // A smaller scale does not hide behind a larger one.
        let mixed = [record(interval, 20, ""), record(interval, 10, "")];
        assert!(check_scale(&mixed, scale).is_err_and(|error| error.contains("10 messages")));
    }
}

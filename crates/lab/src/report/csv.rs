//! Every sample and every number of every repetition, as tables for other programs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::ReportError;
use super::files::{Files, SAMPLES, TALLIES, VALUES};
use crate::plan::{Plan, Point};
use crate::samples::Samples;

/// The tables of a run. The first columns of each are the swept parameters and the repetition.
pub(super) struct Tables<'p> {
    plan: &'p Plan,
    /// One line per delay: series, send time and delay, in nanoseconds. Only written on request.
    samples: Option<Table>,
    /// Number of delays in it.
    sample_count: u64,
    /// One line per delay of a tallied series: the delay in nanoseconds, and its count. Only written if anything was tallied.
    tallies: Option<Table>,
    /// One line per number: name and value.
    values: Table,
    tallies_path: PathBuf,
}

impl<'p> Tables<'p> {
    /// Starts the tables.
    pub(super) fn create(plan: &'p Plan, files: &mut Files<'_>, with_samples: bool) -> Result<Self, ReportError> {
        let samples = with_samples.then(|| files.begin(SAMPLES));
        let samples = samples.map(|path| Table::create(path, plan, "series,sent_ns,delay_ns"));
        Ok(Self {
            plan,
            samples: samples.transpose()?,
            sample_count: 0,
            tallies: None,
            values: Table::create(files.begin(VALUES), plan, "name,value")?,
            tallies_path: files.begin(TALLIES),
        })
    }

    /// Adds the measurements of a repetition, counted from zero, of a point. Neither values nor names contain characters that a comma-separated table
    /// would have to quote.
    pub(super) fn add(&mut self, point: &Point, repetition: u32, samples: &Samples) -> Result<(), ReportError> {
        let mut start = String::new();
        for value in self.plan.swept().filter_map(|name| point.value(name)) {
            start += &format!("{value},");
        }
        start += &format!("{},", repetition + 1);
        if let Some(table) = &mut self.samples {
            table.write(|out| {
                for (series, samples) in samples.series() {
                    for sample in samples {
                        let (sent_ns, delay_ns) = (sample.sent_at.as_nanos(), sample.delay.as_nanos());
                        writeln!(out, "{start}{series},{sent_ns},{delay_ns}")?;
                        self.sample_count += 1;
                    }
                }
                Ok(())
            })?;
        }
        if !samples.tallies().is_empty() && self.tallies.is_none() {
            self.tallies = Some(Table::create(self.tallies_path.clone(), self.plan, "series,delay_ns,count")?);
        }
        if let Some(table) = &mut self.tallies {
            table.write(|out| {
                for (series, tally) in samples.tallies() {
                    for (delay_ns, count) in tally.buckets() {
                        writeln!(out, "{start}{series},{delay_ns},{count}")?;
                    }
                }
                Ok(())
            })?;
        }
        self.values
            .write(|out| samples.values().iter().try_for_each(|(name, value)| writeln!(out, "{start}{name},{value}")))
    }

    /// Ends the tables. Returns the number of delays in samples.csv, if it was asked for.
    pub(super) fn finish(self) -> Result<Option<u64>, ReportError> {
        let count = self.samples.as_ref().map(|_| self.sample_count);
        [self.samples, self.tallies, Some(self.values)]
            .into_iter()
            .flatten()
            .try_for_each(|mut table| table.write(Write::flush))?;
        Ok(count)
    }
}

struct Table {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Table {
    fn create(path: PathBuf, plan: &Plan, columns: &str) -> Result<Self, ReportError> {
        let file = File::create(&path).map_err(|source| ReportError::File { path: path.clone(), source })?;
        let mut table = Self { path, out: BufWriter::new(file) };
        table.write(|out| {
            plan.swept().try_for_each(|name| write!(out, "{name},"))?;
            writeln!(out, "repetition,{columns}")
        })?;
        Ok(table)
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), ReportError> {
        write(&mut self.out).map_err(|source| ReportError::File { path: self.path.clone(), source })
    }
}

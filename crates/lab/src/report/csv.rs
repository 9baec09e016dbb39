//! Every sample and every number of every repetition, as tables for other programs.

use std::io::{self, Write};

use crate::plan::Plan;
use crate::runner::Archive;

/// A table of what each repetition measured. Its first columns are the swept parameters and the repetition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    /// One line per delay: series, when it was sent and how long it took, in nanoseconds.
    Samples,
    /// One line per number: name and value.
    Values,
}

impl Table {
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Samples => "samples.csv",
            Self::Values => "values.csv",
        }
    }

    /// Writes the whole table. Neither values nor names contain what a comma-separated table would have to quote.
    pub(super) fn write(self, plan: &Plan, archive: &Archive, out: &mut impl Write) -> io::Result<()> {
        for name in plan.swept() {
            write!(out, "{name},")?;
        }
        match self {
            Self::Samples => writeln!(out, "repetition,series,sent_ns,delay_ns")?,
            Self::Values => writeln!(out, "repetition,name,value")?,
        }
        archive.visit(|point, repetition, samples| {
            let mut start = String::new();
            for value in plan.swept().filter_map(|name| point.value(name)) {
                start += &format!("{value},");
            }
            start += &format!("{},", repetition + 1);
            match self {
                Self::Samples => {
                    for (series, samples) in samples.series() {
                        for sample in samples {
                            let (sent_ns, delay_ns) = (sample.sent_at.as_nanos(), sample.delay.as_nanos());
                            writeln!(out, "{start}{series},{sent_ns},{delay_ns}")?;
                        }
                    }
                }
                Self::Values => {
                    for (name, value) in samples.values() {
                        writeln!(out, "{start}{name},{value}")?;
                    }
                }
            }
            Ok(())
        })
    }
}

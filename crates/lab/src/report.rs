//! Everything that is written about a run: one page, figures, numbers for programs, every sample; and a page about all
//! runs.

mod csv;
mod document;
mod files;
pub(crate) mod html;
mod index;
#[cfg(feature = "parquet")]
mod parquet;
mod summary;
mod text;

pub use index::{INDEX, write_index};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::experiment::{Check, Experiment, Verdict};
use crate::figure::FigureError;
use crate::png::{self, PngError};
use crate::runner::{Archive, RunOptions};
use crate::scoreboard::Entry;
use crate::summary::Results;
use document::Document;
use files::Files;

/// The page about a run, within its folder.
pub const PAGE: &str = "report.html";
/// The report for a terminal, within its folder.
pub const TEXT: &str = "report.txt";
/// The numbers of a run for programs, within its folder.
const SUMMARY: &str = "summary.json";

/// The results of an experiment, judged and drawn.
pub struct Report<'e> {
    experiment: &'e dyn Experiment,
    results: Results,
    scoreboard: Vec<Entry>,
    checks: Vec<Check>,
    figures: Vec<String>,
    command: Option<String>,
    writes_samples: bool,
}

/// The outcome of [`Report::write`].
#[derive(Debug)]
pub struct Written {
    /// Why there are no pictures, if this build draws any and there are none.
    pub no_picture: Option<PngError>,
    /// Number of delays in samples.csv, if it was asked for.
    pub samples: Option<u64>,
    /// The command of the report that was replaced, as HTML, if it was that of another plan.
    pub replaced: Option<String>,
}

/// Why a report could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A figure cannot be drawn: a bug of the experiment.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// The results cannot be written as JSON.
    #[error("the results cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// A file cannot be written or read.
    #[error("cannot write {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl<'e> Report<'e> {
    /// Judges and draws results of `experiment`.
    ///
    /// # Errors
    /// If a figure cannot be drawn.
    pub fn new(experiment: &'e dyn Experiment, results: Results) -> Result<Self, ReportError> {
        let figures = experiment.figures(&results).iter().map(|figure| figure.to_svg()).collect::<Result<_, _>>()?;
        Ok(Self {
            experiment,
            scoreboard: experiment.scoreboard(&results),
            checks: experiment.all_checks(&results),
            results,
            figures,
            command: None,
            writes_samples: false,
        })
    }

    /// Says on the page by which command the run can be repeated.
    #[must_use]
    pub fn with_command(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Writes every single delay as well, which may take gigabytes.
    #[must_use]
    pub fn with_samples(self) -> Self {
        Self { writes_samples: true, ..self }
    }

    /// Whether no check is broken.
    pub fn holds(&self) -> bool {
        self.broken().next().is_none()
    }

    /// The checks that are broken.
    pub fn broken(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Broken(_)))
    }

    /// Number of checks, and of those tested.
    pub fn tested(&self) -> (usize, usize) {
        let tested = self.checks.iter().filter(|check| !matches!(check.verdict, Verdict::Skipped(_))).count();
        (self.checks.len(), tested)
    }

    /// Whether fewer than nine tenths of the checks were tested.
    pub fn is_hardly_tested(&self) -> bool {
        let (all, tested) = self.tested();
        tested * 10 < all * 9
    }

    /// The checks.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Published numbers and ours.
    pub fn scoreboard(&self) -> &[Entry] {
        &self.scoreboard
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// The checks for a terminal, one line each.
    pub fn checks_text(&self) -> String {
        text::checks(&self.checks)
    }

    /// The numbers for programs.
    ///
    /// # Errors
    /// If JSON has no form for a number.
    pub fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(&Document::of(self))?)
    }

    /// The report as a page that needs nothing but itself.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Writes page, text, figures, JSON and, from the store of `options`, every number as CSV into `folder`; every sample too, if that was
    /// asked for. The same
    /// results give the same bytes, except for the PNG pictures on a machine with other fonts. An earlier report stays as it is until all files
    /// of this one are whole.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path, options: &RunOptions) -> Result<Written, ReportError> {
        let mut files = Files::open(folder)?;
        let samples = self.write_samples(&mut files, options)?;
        let mut no_picture = None;
        for (number, svg) in (1..).zip(&self.figures) {
            files.write(&format!("figure-{number}.svg"), svg)?;
            match png::from_svg(svg) {
                Ok(picture) => files.write(&format!("figure-{number}.png"), picture)?,
                // No pictures were requested.
                Err(PngError::NotBuilt) => {}
                Err(error) => no_picture = Some(error),
            }
        }
        files.write(SUMMARY, self.json()? + "\n")?;
        files.write(TEXT, self.text() + "\n")?;
        files.write(PAGE, self.html())?;
        let earlier = folder.join(PAGE);
        // Reading a pipe would never end.
        let earlier = if earlier.is_file() { fs::read_to_string(earlier).ok() } else { None };
        let replaced = self.command.as_ref().and_then(|command| html::other_command(&earlier?, command));
        files.publish()?;
        Ok(Written { no_picture, samples, replaced })
    }

    fn write_samples(&self, files: &mut Files<'_>, options: &RunOptions) -> Result<Option<u64>, ReportError> {
        let plan = self.results.plan();
        let archive = Archive::open(self.experiment, plan, &options.store, &options.code_version)
            .map_err(|source| ReportError::File { path: options.store.clone(), source })?;
        let mut tables = csv::Tables::create(plan, files, self.writes_samples)?;
        #[cfg(feature = "parquet")]
        let mut parquet =
            self.writes_samples.then(|| parquet::Table::create(plan, files.begin(files::PARQUET))).transpose()?;
        archive.visit(|point, repetition, samples| {
            #[cfg(feature = "parquet")]
            if let Some(parquet) = &mut parquet {
                parquet.add(point, repetition, samples)?;
            }
            tables.add(point, repetition, samples)
        })?;
        #[cfg(feature = "parquet")]
        parquet.map_or(Ok(()), parquet::Table::finish)?;
        tables.finish()
    }
}

#[cfg(test)]
mod tests;

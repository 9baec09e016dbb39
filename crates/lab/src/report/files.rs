//! The files of a report: each is written under another name first, and all get their names when all are whole.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{PAGE, ReportError, SUMMARY, TEXT};

/// One line per number.
pub(super) const VALUES: &str = "values.csv";
/// One line per delay.
pub(super) const SAMPLES: &str = "samples.csv";
/// The same as Parquet.
pub(super) const PARQUET: &str = "samples.parquet";
/// One line per delay of a tallied series.
pub(super) const TALLIES: &str = "tallies.csv";
/// Ends the names of files that are being written.
const UNFINISHED: &str = ".unfinished";

/// The files of a report that is being written. Unpublished ones are removed.
pub(super) struct Files<'f> {
    folder: &'f Path,
    /// Names of files that were begun.
    begun: Vec<String>,
    /// Held so that processes with the same report write one after the other. Not all systems and file servers have such locks.
    _lock: Option<File>,
}

impl<'f> Files<'f> {
    /// Begins a report, in a folder that is made if it is missing, and removes what a process left that was killed while it wrote one.
    pub(super) fn open(folder: &'f Path) -> Result<Self, ReportError> {
        let failed = |source| failed(folder, source);
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::open(folder).and_then(|file| file.lock().map(|()| file)).ok();
        for name in names(folder).map_err(failed)? {
            if name.strip_suffix(UNFINISHED).is_some_and(is_ours) && folder.join(&name).is_file() {
                remove(&folder.join(name))?;
            }
        }
        Ok(Self { folder, begun: Vec::new(), _lock: lock })
    }

    /// Where to write a file for now.
    pub(super) fn begin(&mut self, name: &str) -> PathBuf {
        self.begun.push(name.to_owned());
        self.folder.join(format!("{name}{UNFINISHED}"))
    }

    /// Writes a file.
    pub(super) fn write(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), ReportError> {
        let path = self.begin(name);
        fs::write(&path, bytes).map_err(|source| failed(&path, source))
    }

    /// Gives all files their names, and removes those of an earlier report that this one does not have.
    pub(super) fn publish(mut self) -> Result<(), ReportError> {
        let mut published = Vec::new();
        for name in std::mem::take(&mut self.begun) {
            let path = self.folder.join(&name);
            match fs::rename(self.folder.join(format!("{name}{UNFINISHED}")), &path) {
                Ok(()) => published.push(name),
                // A table that nothing was written to.
                Err(error) if error.kind() == ErrorKind::NotFound && is_optional(&name) => {}
                Err(source) => {
                    self.begun.push(name);
                    return Err(failed(&path, source));
                }
            }
        }
        for name in names(self.folder).map_err(|source| failed(self.folder, source))? {
            if is_optional(&name) && !published.contains(&name) {
                remove(&self.folder.join(name))?;
            }
        }
        Ok(())
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for name in &self.begun {
            // The first error is the one to report.
            let _ = fs::remove_file(self.folder.join(format!("{name}{UNFINISHED}")));
        }
    }
}

/// Writes a file as a whole or not at all, beside other processes that may do the same.
pub(super) fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), ReportError> {
    let mut unfinished = path.as_os_str().to_owned();
    let writer = RandomState::new().hash_one(std::process::id());
    unfinished.push(format!(".{writer:016x}{UNFINISHED}"));
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|source| {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
        failed(path, source)
    })
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    names.collect()
}

/// Whether a report has files of this name.
fn is_ours(name: &str) -> bool {
    [PAGE, TEXT, SUMMARY, VALUES].contains(&name) || is_optional(name)
}

/// Whether some reports have files of this name, and others have not.
fn is_optional(name: &str) -> bool {
    let figure = name.strip_prefix("figure-").and_then(|name| name.split_once('.'));
    let is_figure =
        figure.is_some_and(|(number, kind)| number.parse::<u32>().is_ok() && ["svg", "png"].contains(&kind));
    is_figure || [SAMPLES, PARQUET, TALLIES].contains(&name)
}

fn remove(path: &Path) -> Result<(), ReportError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(failed(path, source)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, source: io::Error) -> ReportError {
    ReportError::File { path: path.to_owned(), source }
}

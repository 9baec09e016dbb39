//! Traces of a link's rate that plans name: a file in Mahimahi's format, or one that was made.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use festina_netsim::rate_trace::TRACE_BYTES_MAX;
use festina_netsim::{MadeTrace, RateTrace};

use super::error::is_printable;
use crate::samples::is_plain;
use crate::store::Fnv1a;

/// A trace, read. It stays in memory until the process ends; a plan names few.
#[derive(Clone, Copy)]
pub struct LinkTrace(&'static Content);

struct Content {
    /// As it stands in the plan.
    name: String,
    path: PathBuf,
    trace: RateTrace,
}

/// All that were read, so that none is read twice.
static READ: Mutex<Vec<&'static Content>> = Mutex::new(Vec::new());

impl LinkTrace {
    /// Reads the trace that a plan in `folder` calls `name`: one of [`MadeTrace::ALL`], or the file of this name in the folder, of at most
    /// [`TRACE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// The problem as the end of a sentence, with the line if there is one.
    pub fn load(folder: &Path, name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        if !is_plain(name) || !is_printable(name) {
            return Err(format!("{name:?} has a comma, a quote or a control character in it; rename the file"));
        }
        let path = folder.join(name);
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = read.iter().find(|content| content.path == path && content.name == name) {
            return Ok(Self(content));
        }
        let trace = match MadeTrace::named(name) {
            Some(made) => made.trace(),
            None => from_file(&path)?,
        };
        let content: &'static Content = Box::leak(Box::new(Content { name: name.to_owned(), path, trace }));
        read.push(content);
        Ok(Self(content))
    }

    /// The trace.
    pub fn trace(self) -> RateTrace {
        self.0.trace.clone()
    }

    /// Returns the hash of its text in hexadecimal digits, which identifies the contents.
    pub(crate) fn digest(self) -> String {
        let mut hash = Fnv1a::default();
        hash.add(self.0.trace.text().as_bytes());
        format!("{:016x}", hash.value())
    }
}

fn from_file(path: &Path) -> Result<RateTrace, String> {
    let made: Vec<&str> = MadeTrace::ALL.iter().map(|made| made.name()).collect();
    let unreadable = |error| {
        let made = made.join(", ");
        format!("the trace {} cannot be read: {error}; the made ones are {made}", path.display())
    };
    let mut bytes = Vec::new();
    // One more than may be, so that too long a file is seen and refused.
    let limit = u64::try_from(TRACE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable)?;
    RateTrace::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| format!("the trace {}: {error}", path.display()))
}

impl PartialEq for LinkTrace {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.trace == other.0.trace
    }
}

impl Eq for LinkTrace {}

impl fmt::Display for LinkTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for LinkTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.0.name, self.0.trace)
    }
}

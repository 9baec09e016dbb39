//! Captures that plans name: what their applications wrote is replayed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use festina_trace::{Flow, ReadError, read_flows};

use super::error::is_printable;
use crate::samples::is_plain;
use crate::store::Fnv1a;

/// A capture, read. It stays in memory until the process ends; a plan names few.
#[derive(Clone, Copy)]
pub struct Recording(&'static Content);

struct Content {
    /// As it stands in the plan.
    name: String,
    path: PathBuf,
    /// Of the file's bytes.
    hash: u64,
    flows: Vec<Flow>,
}

/// All that were read, so that none is read twice.
static READ: Mutex<Vec<&'static Content>> = Mutex::new(Vec::new());

impl Recording {
    /// The flows that carried data, in the order of their first data.
    pub fn flows(self) -> &'static [Flow] {
        &self.0.flows
    }

    /// Returns the hash of the file's bytes in hexadecimal digits, which identifies the contents.
    pub(crate) fn digest(self) -> String {
        format!("{:016x}", self.0.hash)
    }

    /// Reads the capture that a plan in `folder` calls `name`.
    ///
    /// # Errors
    /// The problem as the end of a sentence.
    pub(super) fn load(folder: &Path, name: &str) -> Result<Self, String> {
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
        let refused = |error: &dyn fmt::Display| format!("{} cannot be replayed: {error}", path.display());
        let file = File::open(&path).map_err(|error| refused(&error))?;
        let mut source = Hashing { inner: BufReader::new(file), hash: Fnv1a::default() };
        let flows = read_flows(&mut source).map_err(|error| match error {
            ReadError::Io { source, .. } => refused(&source),
            error => refused(&error),
        })?;
        if flows.is_empty() {
            return Err(refused(&"it holds no TCP, UDP or SCTP data"));
        }
        let content = Content { name: name.to_owned(), path, hash: source.hash.value(), flows };
        let content: &'static Content = Box::leak(Box::new(content));
        read.push(content);
        Ok(Self(content))
    }
}

impl PartialEq for Recording {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.hash == other.0.hash
    }
}

impl Eq for Recording {}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} flows", self.0.name, self.0.flows.len())
    }
}

/// A reader that hashes all bytes read through it.
struct Hashing<R> {
    inner: R,
    hash: Fnv1a,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.add(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

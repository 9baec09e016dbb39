//! Directories for files that no one needs afterwards, and files that grow in them.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};

/// A directory that is removed at the end.
pub(crate) struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Creates a temporary directory whose name starts with `festina-` and `name`.
    pub(crate) fn new(name: &str) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("festina-{name}-{}-{number}", std::process::id()));
        Self { path, keep: false }.created()
    }

    /// Creates the directory at `path`, which stays.
    pub(crate) fn kept(path: &Path) -> Result<Self> {
        Self { path: path.to_owned(), keep: true }.created()
    }

    fn created(self) -> Result<Self> {
        fs::create_dir(&self.path).with_context(|| format!("cannot make the directory {}", self.path.display()))?;
        Ok(self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A file of lines that another task appends to, and that may not exist yet.
pub(crate) struct Growing {
    path: PathBuf,
    offset: u64,
}

impl Growing {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// Returns the complete lines added since the last call.
    pub(crate) fn lines(&mut self) -> Result<Vec<u8>> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(Vec::new()) };
        let mut text = Vec::new();
        let read = file.seek(SeekFrom::Start(self.offset)).and_then(|_| file.read_to_end(&mut text));
        read.with_context(|| format!("cannot read {}", self.path.display()))?;
        text.truncate(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1));
        self.offset += text.len() as u64;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_come_once_and_the_directory_is_removed() {
        let scratch = Scratch::new("scratch-test").unwrap();
        let path = scratch.path().join("lines");
        let mut growing = Growing::new(path.clone());
        for (content, lines) in [("", ""), ("one\ntw", "one\n"), ("one\ntwo\nthree\n", "two\nthree\n")] {
            fs::write(&path, content).unwrap();
            assert_eq!(growing.lines().unwrap(), lines.as_bytes());
        }
        let folder = scratch.path().to_owned();
        drop(scratch);
        assert!(!folder.exists());
        assert_eq!(growing.lines().unwrap(), b"");
    }
}

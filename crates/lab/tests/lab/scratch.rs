//! Folders for temporary files.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// An empty folder, removed with this value. Other runs of the tests at the same time have others.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the folder for temporary files can be emptied");
        }
        fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
        Self(folder)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover among the temporary files is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

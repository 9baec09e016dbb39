//! Processes that share a directory, which end with the test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

use crate::processes;

/// Processes by their roles.
pub(crate) struct Processes {
    /// The test that [starts](processes::start) each.
    test: &'static str,
    directory: PathBuf,
    children: BTreeMap<&'static str, Child>,
}

impl Processes {
    /// No processes yet.
    pub(crate) fn new(test: &'static str, directory: PathBuf) -> Self {
        Self { test, directory, children: BTreeMap::new() }
    }

    /// Starts a process in a role.
    pub(crate) fn start(&mut self, role: &'static str) {
        self.children.insert(role, processes::start(self.test, &self.directory, role));
    }

    /// Ends it with `kill -9`.
    pub(crate) fn kill(&mut self, role: &str) {
        processes::kill(self.children.get_mut(role).expect("there is such a process"));
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

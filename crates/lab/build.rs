//! Gives the lab its code version: a hash of all sources that can change what a run measures. Finished runs are taken up
//! only by the same version, whether it was built for debugging or for speed, here or on another machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Everything that a simulation is made of, seen from this crate. Dependencies count through the lock file.
const SOURCES: [&str; 15] = [
    "src/capture",
    "src/capture.rs",
    "src/experiments",
    "src/scenario",
    "src/scenario.rs",
    "src/statistics.rs",
    "src/traces/classes",
    "src/traces/classes.rs",
    "../models/src",
    "../netsim/src",
    "../recovery/src",
    "../sctp/src",
    "../trace/src",
    "../units/src",
    "../../validation",
];
const LOCK_FILE: &str = "../../Cargo.lock";
/// Recordings of real sockets: the ledger cites them, and no run depends on them.
const CITED: &str = "-real.json";

fn main() {
    let mut files = Vec::new();
    for source in SOURCES.into_iter().chain([LOCK_FILE]) {
        println!("cargo::rerun-if-changed={source}");
        gather(Path::new(source), &mut files);
    }
    files.sort();
    // 64-bit FNV-1a, as for the identities of runs.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in &files {
        let content = fs::read(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        for byte in file.to_string_lossy().replace('\\', "/").into_bytes().into_iter().chain(content) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=FESTINA_CODE_VERSION={hash:016x}");
}

/// Collects all files at or below `path` except tests and recordings that are only cited. Missing files are skipped: a packaged crate has its siblings elsewhere, in versions that do
/// not change.
fn gather(path: &Path, files: &mut Vec<PathBuf>) {
    let is_test = path.file_stem().is_some_and(|name| name == "tests");
    if is_test || path.to_string_lossy().ends_with(CITED) {
        return;
    }
    if path.is_file() {
        files.push(path.to_owned());
    } else if let Ok(entries) = fs::read_dir(path) {
        entries.filter_map(Result::ok).for_each(|entry| gather(&entry.path(), files));
    }
}

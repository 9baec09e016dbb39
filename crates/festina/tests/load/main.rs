//! Tests that measure the memory of their process or load the machine. Each has a process of its own, and they run one after the other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../attacks/counting.rs"]
mod counting;
mod crowd;
mod flood;
mod footprint;
#[path = "../sockets/forged.rs"]
mod forged;
mod many;
#[path = "../attacks/pings.rs"]
mod pings;
#[path = "../attacks/resident.rs"]
mod resident;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Builder;

/// Set in the process of one test.
const ALONE: &str = "FESTINA_TEST_ALONE";

/// Runs a test on a runtime with two threads, or with that of the caller only, in a process of its own: this program once more. `test` is a closure
/// in the function of the test, so that its type has the name of the test.
fn alone<F: Future<Output = ()>>(threads: usize, test: impl FnOnce() -> F) {
    static TURN: Mutex<()> = Mutex::new(());
    if std::env::var_os(ALONE).is_some() {
        let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        return builder.worker_threads(threads).enable_all().build().unwrap().block_on(test());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = std::any::type_name_of_val(&test).trim_end_matches("::{{closure}}");
    let (_, name) = name.split_once("::").unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{printed}\n{errors}");
    assert!(output.status.success() && printed.contains("1 passed"), "{name} failed in its process");
}

//! The programs of `interop/`, which wrap stacks that are not written in Rust.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Returns the folder with the programs of a part, `usrsctp` or `pion`. It is named by `FESTINA_INTEROP_DIR`; without that variable the
/// programs are built into cargo's target folder, once per process and part.
///
/// # Errors
/// The compiler's messages, for instance if Go or libusrsctp is missing.
///
/// # Panics
/// If an earlier call has panicked.
pub fn folder(part: &'static str) -> Result<PathBuf, String> {
    static BUILT: Mutex<Vec<(&str, Result<PathBuf, String>)>> = Mutex::new(Vec::new());
    if let Some(folder) = env::var_os("FESTINA_INTEROP_DIR") {
        return Ok(PathBuf::from(folder));
    }
    let mut built = BUILT.lock().expect("building does not panic");
    if let Some((_, result)) = built.iter().find(|(name, _)| *name == part) {
        return result.clone();
    }
    let result = build(part);
    built.push((part, result.clone()));
    result
}

fn build(part: &str) -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let folder = target.ok_or("this program is not in cargo's target folder; set FESTINA_INTEROP_DIR")?.join("interop");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/build.sh");
    let output = Command::new(&script).arg(&folder).arg(part).output();
    let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
    if output.status.success() { Ok(folder) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

//! Which functions of the core a message and its acknowledgement enter.
//!
//! A copy of the core in which every function reports its own entry is built and run. Coverage builds count lines, but know no order, and their
//! tools are no part of a toolchain; callgrind is not everywhere; a call graph made from the sources names every branch, taken or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::measure::{Body, measure};
use crate::tree::File;

/// The crates that the copy consists of, in the order in which they depend on each other.
const CRATES: [&str; 3] = ["crates/units/", "crates/recovery/", "crates/sctp/"];

/// The crate that the reports go to. Its own functions report nothing.
const REPORTER: &str = "crates/units/";

const RECORDER: &str = r#"
/// Reports from the functions of the other crates.
pub mod passage {
    use std::cell::RefCell;

    thread_local! {
        static ENTERED: RefCell<Option<Vec<[&'static str; 2]>>> = const { RefCell::new(None) };
    }

    /// A function is entered.
    pub fn enter(file: &'static str, function: &'static str) {
        ENTERED.with_borrow_mut(|entered| entered.iter_mut().for_each(|entered| entered.push([file, function])));
    }

    /// Prints which functions `act` enters, if that has a name.
    pub fn watch(name: Option<&str>, act: impl FnOnce()) {
        ENTERED.set(name.map(|_| Vec::new()));
        act();
        for [file, function] in ENTERED.take().unwrap_or_default() {
            println!("{} {file} {function}", name.unwrap_or_default());
        }
    }
}
"#;

/// The functions that one event entered, in order, each as often as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Their files and names.
    pub functions: Vec<(String, String)>,
}

impl Passage {
    /// The files below a folder, or with a prefix, in which any of them lies.
    #[must_use]
    pub fn files(&self, prefix: &str) -> BTreeSet<&str> {
        self.functions.iter().map(|(file, _)| file.as_str()).filter(|file| file.starts_with(prefix)).collect()
    }

    /// The functions of a type that were entered more than once.
    #[must_use]
    pub fn entered_again(&self, owner: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let of_owner = |name: &&str| name.split_once("::").is_some_and(|(first, _)| first == owner);
        self.functions
            .iter()
            .map(|(_, name)| name.as_str())
            .filter(of_owner)
            .filter(|name| !seen.insert(*name))
            .collect()
    }
}

/// Builds the copy in `folder` and runs `walk` in it. Returns what each watched event entered.
///
/// # Errors
/// If a source file is not Rust, a file cannot be written, or the copy cannot be built or run.
pub fn passages(files: &[File], walk: &str, folder: &Path) -> Result<BTreeMap<String, Passage>, String> {
    for File { path, text } in files.iter().filter(|file| CRATES.iter().any(|folder| file.path.starts_with(folder))) {
        let copy = if path.ends_with("/Cargo.toml") {
            text.split("[dev-dependencies]").next().unwrap_or_default().to_owned()
        } else if !path.contains("/src/") {
            continue;
        } else if path.starts_with(REPORTER) {
            format!("{text}{}", if path.ends_with("/lib.rs") { RECORDER } else { "" })
        } else {
            instrument(path, text).map_err(|error| format!("{path}: {error}"))?
        };
        write(folder, path, &copy)?;
    }
    let find = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let manifest = find("Cargo.toml");
    let shared = manifest.find("[workspace.package]").and_then(|from| manifest[from..].split("[profile").next());
    let shared = shared.ok_or("Cargo.toml has no [workspace.package]")?;
    write(
        folder,
        "Cargo.toml",
        &format!(
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"walk\"]\n\n[profile.dev]\ndebug = false\n\n{shared}"
        ),
    )?;
    write(folder, "Cargo.lock", find("Cargo.lock"))?;
    let dependencies = "festina-sctp.workspace = true\nfestina-units.workspace = true\n";
    let walk_manifest =
        format!("[package]\nname = \"walk\"\nedition.workspace = true\n\n[dependencies]\n{dependencies}");
    write(folder, "walk/Cargo.toml", &walk_manifest)?;
    write(folder, "walk/src/main.rs", walk)?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--offline", "-p", "walk", "--target-dir", "target"]).current_dir(folder);
    // Lints and flags of the caller are no concern of the copy.
    cargo.env("RUSTFLAGS", "--cap-lints=warn").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = cargo.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// Writes a file unless it is there already, so that nothing is built anew that is the same.
fn write(folder: &Path, path: &str, text: &str) -> Result<(), String> {
    let path = folder.join(path);
    if fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The text of a source file with a report at the beginning of each function that may have one.
fn instrument(path: &str, text: &str) -> Result<String, syn::Error> {
    let mut bodies = measure(text)?.bodies;
    bodies.sort_by_key(|body| (body.line, body.column));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for Body { line, column, name } in bodies.iter().rev() {
        if let Some(line) = line.checked_sub(1).and_then(|index| lines.get_mut(index))
            && let Some((at, brace)) = line.char_indices().nth(*column)
        {
            line.insert_str(at + brace.len_utf8(), &format!(" ::festina_units::passage::enter({path:?}, {name:?});"));
        }
    }
    Ok(lines.join("\n"))
}

fn read(output: &str) -> BTreeMap<String, Passage> {
    let mut passages: BTreeMap<String, Passage> = BTreeMap::new();
    for line in output.lines() {
        if let [event, file, function] = line.split(' ').collect::<Vec<_>>()[..] {
            let passage = passages.entry(event.to_owned()).or_default();
            passage.functions.push((file.to_owned(), function.to_owned()));
        }
    }
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_reports_its_entry_but_those_of_constants() {
        let text = "impl A { fn f(&self) { g(|| 1) } const fn c() {} }\ntrait T { fn a();\nfn d() -> u8 { 'é'; 1 } }";
        let report = |name: &str| format!(" ::festina_units::passage::enter(\"a.rs\", \"{name}\");");
        let expected = format!(
            "impl A {{ fn f(&self) {{{} g(|| 1) }} const fn c() {{}} }}\ntrait T {{ fn a();\nfn d() -> u8 {{{} 'é'; 1 }} }}",
            report("A::f"),
            report("T::d")
        );
        assert_eq!(instrument("a.rs", text).expect("Rust"), expected);
    }

    #[test]
    fn files_count_once_and_functions_of_a_type_that_come_again_are_named() {
        let passages = read("SACK a/b.rs Sender::x\nSACK a/c.rs y\nSACK a/b.rs Sender::x\nSACK d.rs y\nwarning\n");
        let passage = &passages["SACK"];
        assert_eq!(passage.files("a/"), BTreeSet::from(["a/b.rs", "a/c.rs"]));
        assert_eq!(passage.entered_again("Sender"), BTreeSet::from(["Sender::x"]));
    }
}

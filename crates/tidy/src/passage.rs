//! How often a message and its acknowledgement go from one owner of state to another in the core.
//!
//! Each function that takes `&mut self` reports its type when it is called. A type in the fields of one owner alone counts as a part of that
//! owner, unless the owner is a coordinator (`COORDINATORS`). A type in no field does not count, since it holds no state. All other types are
//! owners. A hand-over is a step from one owner to another, and a phase is a stay between two hand-overs.
//!
//! A copy of the core in which these functions report is built and run. Coverage builds count lines, but know no order, and their
//! tools are no part of a toolchain; callgrind is not everywhere; a call graph made from the sources names every branch, taken or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use syn::visit::{self, Visit};

use crate::measure::{Body, measure};
use crate::tree::File;

/// The crates that the copy consists of, in the order in which they depend on each other.
const CRATES: [&str; 4] = ["crates/units/", "crates/code/", "crates/recovery/", "crates/sctp/"];

/// The types that hold others to call them, and not as parts of their own.
const COORDINATORS: [&str; 3] = ["Association", "Paths", "Sender"];

/// Types inside each other that are looked through.
const DEPTH_MAX: usize = 8;

/// The crate that the reports go to. Its own functions report nothing.
const REPORTER: &str = "crates/units/";

/// Arithmetic that uses no other crate, so that its functions cannot report anything.
const SILENT: &str = "crates/code/";

/// One message and its acknowledgement.
const WALK: &str = include_str!("passage/walk.rs");

const RECORDER: &str = r#"
/// Reports from the functions of the other crates.
pub mod passage {
    use std::cell::RefCell;

    thread_local! {
        static ENTERED: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
    }

    /// A function is entered.
    pub fn enter(function: &'static str) {
        ENTERED.with_borrow_mut(|entered| entered.iter_mut().for_each(|entered| entered.push(function)));
    }

    /// Prints which functions `act` enters, if that has a name.
    pub fn watch(name: Option<&str>, act: impl FnOnce()) {
        ENTERED.set(name.map(|_| Vec::new()));
        act();
        for function in ENTERED.take().unwrap_or_default() {
            println!("{} {function}", name.unwrap_or_default());
        }
    }
}
"#;

/// The owners of state that one event entered, in order; none follows itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Their names.
    pub stays: Vec<String>,
}

impl Passage {
    fn enter(&mut self, owner: &str) {
        if self.stays.last().is_none_or(|last| last != owner) {
            self.stays.push(owner.to_owned());
        }
    }

    /// How often each owner was entered from another.
    #[must_use]
    pub fn phases(&self) -> BTreeMap<&str, usize> {
        let mut phases = BTreeMap::new();
        for owner in &self.stays {
            *phases.entry(owner.as_str()).or_default() += 1;
        }
        phases
    }

    /// Steps from one owner to another.
    #[must_use]
    pub fn hand_overs(&self) -> usize {
        self.stays.len().saturating_sub(1)
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = self.phases();
        writeln!(f, "{} owners, {} hand-overs", phases.len(), self.hand_overs())?;
        writeln!(f, "  {}", self.stays.join(" "))?;
        let most = phases.iter().filter(|(_, count)| **count > 2).map(|(owner, count)| format!("{owner} {count}"));
        writeln!(f, "  more than two phases: {}", most.collect::<Vec<_>>().join(", "))
    }
}

/// For each type the types that have it in a field, directly or inside another, such as `Option<Box<T>>`. References do not count.
struct Holders<'f> {
    holder: Option<String>,
    of: &'f mut BTreeMap<String, BTreeSet<String>>,
}

impl<'ast> Visit<'ast> for Holders<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.holder = Some(item.ident.to_string());
        visit::visit_fields(self, &item.fields);
        self.holder = None;
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.holder = Some(item.ident.to_string());
        item.variants.iter().for_each(|variant| visit::visit_fields(self, &variant.fields));
        self.holder = None;
    }

    fn visit_type_reference(&mut self, _: &'ast syn::TypeReference) {}

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if let Some(holder) = &self.holder {
            self.of.entry(segment.ident.to_string()).or_default().insert(holder.clone());
        }
        visit::visit_path_segment(self, segment);
    }
}

/// Returns the owner of a type: the type whose parts are all holders of it, or itself. Returns `None` for a type that no field holds, whose values
/// live for one call.
fn owner(name: &str, holders: &BTreeMap<String, BTreeSet<String>>, depth: usize) -> Option<String> {
    if COORDINATORS.contains(&name) {
        return Some(name.to_owned());
    }
    let of = holders.get(name)?.iter().filter(|holder| *holder != name);
    // A type may hold itself through others.
    let of = if depth < DEPTH_MAX {
        of.filter_map(|holder| owner(holder, holders, depth + 1)).collect()
    } else {
        BTreeSet::new()
    };
    match of.iter().next()? {
        only if of.len() == 1 && !COORDINATORS.contains(&only.as_str()) => Some(only.clone()),
        _ => Some(name.to_owned()),
    }
}

/// Builds the copy in `folder` and runs `WALK` in it. Returns what each watched event entered.
///
/// # Errors
/// If a source file is not Rust, a file cannot be written, or the copy cannot be built or run.
pub fn passages(files: &[File], folder: &Path) -> Result<BTreeMap<String, Passage>, String> {
    for File { path, text } in files.iter().filter(|file| CRATES.iter().any(|folder| file.path.starts_with(folder))) {
        let copy = if path.ends_with("/Cargo.toml") {
            text.split("[dev-dependencies]").next().unwrap_or_default().to_owned()
        } else if !path.contains("/src/") {
            continue;
        } else if path.starts_with(REPORTER) {
            format!("{text}{}", if path.ends_with("/lib.rs") { RECORDER } else { "" })
        } else if path.starts_with(SILENT) {
            text.clone()
        } else {
            instrument(text).map_err(|error| format!("{path}: {error}"))?
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
    write(folder, "walk/src/main.rs", WALK)?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--offline", "-p", "walk", "--target-dir", "target"]).current_dir(folder);
    // Lints and flags of the caller are no concern of the copy.
    cargo.env("RUSTFLAGS", "--cap-lints=warn").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = cargo.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut of = BTreeMap::new();
    for file in files.iter().filter(|file| is_recorded(&file.path)) {
        let syntax = syn::parse_file(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        Holders { holder: None, of: &mut of }.visit_file(&syntax);
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout), &of))
}

fn is_recorded(path: &str) -> bool {
    let core = CRATES.iter().any(|folder| path.starts_with(folder))
        && ![REPORTER, SILENT].iter().any(|folder| path.starts_with(folder));
    core && path.contains("/src/") && path.ends_with(".rs") && !path.contains("/tests")
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

/// The text of a source file with a report at the beginning of each function that may change its value.
fn instrument(text: &str) -> Result<String, syn::Error> {
    let mut bodies = measure(text)?.bodies;
    bodies.sort_by_key(|body| (body.line, body.column));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for Body { line, column, name, .. } in bodies.iter().rev().filter(|body| body.changes) {
        if let Some(line) = line.checked_sub(1).and_then(|index| lines.get_mut(index))
            && let Some((at, brace)) = line.char_indices().nth(*column)
        {
            line.insert_str(at + brace.len_utf8(), &format!(" ::festina_units::passage::enter({name:?});"));
        }
    }
    Ok(lines.join("\n"))
}

fn read(output: &str, holders: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, Passage> {
    let mut passages: BTreeMap<String, Passage> = BTreeMap::new();
    for line in output.lines() {
        if let [event, function] = line.split(' ').collect::<Vec<_>>()[..]
            && let Some((name, _)) = function.rsplit_once("::")
        {
            let name = name.rsplit("::").next().unwrap_or(name);
            if let Some(owner) = owner(name, holders, 0) {
                passages.entry(event.to_owned()).or_default().enter(&owner);
            }
        }
    }
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(text: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut of = BTreeMap::new();
        Holders { holder: None, of: &mut of }.visit_file(&syn::parse_file(text).expect("Rust"));
        of
    }

    #[test]
    fn functions_report_their_entry_if_they_may_change_their_value() {
        let text = "impl A { fn f(&mut self) { g(|| 1) } fn c(&self) {} fn n() {} }\ntrait T { fn a(&mut self);\nfn d(&mut self) -> u8 { 'é'; 1 } }";
        let report = |name: &str| format!(" ::festina_units::passage::enter(\"{name}\");");
        let expected = format!(
            "impl A {{ fn f(&mut self) {{{} g(|| 1) }} fn c(&self) {{}} fn n() {{}} }}\ntrait T {{ fn a(&mut self);\nfn d(&mut self) -> u8 {{{} 'é'; 1 }} }}",
            report("A::f"),
            report("T::d")
        );
        assert_eq!(instrument(text).expect("Rust"), expected);
    }

    #[test]
    fn a_part_of_one_other_type_belongs_to_it() {
        let of = holders(
            "struct Sender { all: Association } struct Association { ledger: Ledger, path: Option<Box<Repair>> } struct Ledger { chunks: Vec<Chunk>, list: List }
            struct Repair { timers: Timers, list: List, seen: &'static Seen } struct Seen { a: Far } enum Timers { On(Clock) }",
        );
        let owners = ["Ledger", "Chunk", "Clock", "List", "Association"].map(|name| owner(name, &of, 0));
        assert_eq!(owners, ["Ledger", "Ledger", "Repair", "List", "Association"].map(|name| Some(name.to_owned())));
        assert_eq!(owner("Seen", &of, 0), None);
    }

    #[test]
    fn a_step_to_another_owner_is_a_hand_over() {
        let of = holders("struct Sender { repair: Repair } struct Repair { timers: Timers }");
        let passages =
            read("SACK Sender::x\nSACK m::Sender::y\nSACK Timers::y\nSACK Repair::z\nSACK Sender::x\nwarning\n", &of);
        let passage = &passages["SACK"];
        assert_eq!(passage.stays, ["Sender", "Repair", "Sender"]);
        assert_eq!(passage.hand_overs(), 2);
        assert_eq!(passage.phases(), BTreeMap::from([("Repair", 1), ("Sender", 2)]));
    }
}

//! Lists a library's promises, as rustdoc's JSON has them: a line for each public item and handwritten implementation, for each type its derived
//! traits, and for each type the auto traits that it lacks or has on a condition. `interface/check` runs it.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use public_api::Builder;

/// Traits of the compiler, which programs cannot name.
const INTERNAL: [&str; 3] =
    ["core::marker::Freeze ", "core::marker::UnsafeUnpin ", "core::marker::StructuralPartialEq "];

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: festina-interface RUSTDOC.json");
        return ExitCode::from(2);
    };
    match listing(&path) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("festina-interface: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn listing(path: &str) -> public_api::Result<Vec<String>> {
    let lines = |derived: bool, auto: bool| {
        let shown = Builder::from_rustdoc_json(path).omit_blanket_impls(true);
        let api = shown.omit_auto_derived_impls(!derived).omit_auto_trait_impls(!auto).build()?;
        Ok::<Vec<String>, public_api::Error>(api.items().map(ToString::to_string).collect())
    };
    let mut listed = lines(false, false)?;
    let written: BTreeSet<String> = listed.iter().cloned().collect();
    let lacking = lines(false, true)?.into_iter().filter(|line| line.contains(" !") || line.contains(" where "));
    let others: BTreeSet<String> = lines(true, false)?.into_iter().chain(lacking).collect();

    // One line for all traits of a type without generic parameters.
    let mut traits: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in others.difference(&written).filter(|line| line.starts_with("impl")) {
        match line.strip_prefix("impl ").and_then(|rest| rest.split_once(" for ")) {
            _ if INTERNAL.iter().any(|name| line.contains(name)) => {}
            Some((name, subject)) => _ = traits.entry(subject).or_default().insert(short(name)),
            None => listed.push(line.clone()),
        }
    }
    for (subject, names) in traits {
        let names: Vec<String> = names.into_iter().collect();
        listed.push(format!("traits of {subject}: {}", names.join(", ")));
    }
    Ok(listed)
}

/// The trait's name without its path, unless it has parameters.
fn short(name: &str) -> String {
    let bare = name.trim_start_matches('!');
    match bare.rsplit_once("::") {
        Some((_, last)) if !bare.contains('<') => name.replace(bare, last),
        _ => name.to_owned(),
    }
}

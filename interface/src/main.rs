//! Writes one line for each public item of a library, as rustdoc's JSON has it. `interface/check` says how that comes about.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: festina-interface RUSTDOC.json");
        return ExitCode::from(2);
    };
    let builder = public_api::Builder::from_rustdoc_json(&path);
    let shown = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
    match shown.build() {
        Ok(api) => {
            api.items().for_each(|item| println!("{item}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("festina-interface: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

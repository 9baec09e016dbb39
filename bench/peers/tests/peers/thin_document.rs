//! The documents about thin streams show exactly the measured figures.

use std::fs;
use std::path::{Path, PathBuf};

use festina_bench_peers::thin::{contender, plot, record, report};

/// The measured figures that lie beside the documents.
fn tables() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files =
        fs::read_dir(docs).expect("the folder exists").map(|entry| entry.expect("the folder can be read").path());
    let is_table = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("thin-peers-") && name.ends_with(".csv")
    };
    files.filter(is_table).collect()
}

#[test]
fn document_and_figure_are_what_the_tool_makes_of_the_measured_figures() {
    let tables = tables();
    assert!(!tables.is_empty());
    for table in tables {
        let read =
            |ending: &str| fs::read_to_string(table.with_extension(ending)).expect("the file lies beside the figures");
        let records = record::from_csv(&read("csv")).expect("the figures are sound");
        let contenders = contender::all();
        let hint = "run `cargo run --release -p festina-bench-peers -- thin --rtt RTT --out docs --render`";
        assert!(read("md") == report::markdown(&contenders, &records), "{}: {hint}", table.display());
        assert!(read("svg") == plot::svg(&contenders, &records), "{}: {hint}", table.display());
    }
}

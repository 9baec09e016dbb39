//! The document about thin streams and its figures show exactly the measured values.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use festina_bench_peers::thin::{contender, plot, record, report};

const HINT: &str = "run `cargo run --release -p festina-bench-peers -- thin --rtt RTT --out docs --render`";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn document_and_figures_are_those_of_the_measured_values() {
    let contenders = contender::all();
    let records = record::from_folder(&docs()).expect("the files are sound");
    let changing = record::over_changes(&docs()).expect("the file is sound");
    let read = |name: &str| fs::read_to_string(docs().join(name)).expect("the file is beside the measured values");
    assert!(
        read(report::DOCUMENT) == report::markdown(&contenders, &records, &changing),
        "{}: {HINT}",
        report::DOCUMENT
    );
    let round_trips: BTreeSet<Duration> = records.iter().map(|record| record.task.round_trip).collect();
    assert!(!round_trips.is_empty());
    for round_trip in round_trips {
        let name = report::stem(round_trip.as_millis());
        let records = record::from_csv(&read(&format!("{name}.csv"))).expect("the values are sound");
        assert!(
            read(&format!("{name}.svg")) == plot::svg(&report::heading(round_trip.as_millis()), &contenders, &records),
            "{name}: {HINT}"
        );
    }
    assert!(!changing.is_empty());
    let figure = plot::svg(report::CHANGING_HEADING, &contenders, &changing);
    assert!(read("thin-peers-changing.svg") == figure, "{HINT}");
}

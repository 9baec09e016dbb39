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
            read(&format!("{name}.svg")) == plot::svg(&report::heading(round_trip.as_millis()), &records),
            "{name}: {HINT}"
        );
    }
    assert!(!changing.is_empty());
    let figure = plot::svg(report::CHANGING_HEADING, &changing);
    assert!(read("thin-peers-changing.svg") == figure, "{HINT}");
}

/// The rows of the first table of the README, and their contenders.
const README_ROWS: [(&str, &str); 11] = [
    ("**Festina**, encrypted", "festina-secure"),
    ("**Festina**, plain", "festina"),
    ("quinn, encrypted", "quinn"),
    ("quinn, tuned", "quinn-tuned"),
    ("KCP, tuned", "kcp-best"),
    ("ENet", "enet"),
    ("ENet, tuned", "enet-tuned"),
    ("dcsctp", "dcsctp"),
    ("dcsctp, tuned", "dcsctp-tuned"),
    ("pion", "pion"),
    ("standard SCTP (`rfc9260`)", "festina-rfc9260"),
];

#[test]
fn the_readme_quotes_the_measured_values() {
    let readme = fs::read_to_string(docs().join("../README.md")).expect("the README is there");
    let (fixed, changing) = (record::from_folder(&docs()), record::over_changes(&docs()));
    let mut fixed = fixed.expect("the files are sound");
    fixed.retain(|record| record.task.round_trip == Duration::from_millis(100));
    let find = |records: &[record::Record], contender: &str, interval_ms, loss_percent| {
        let interval = Some(Duration::from_millis(interval_ms));
        let is_it = |it: &&record::Record| {
            it.contender == contender && (it.task.interval, it.task.loss_percent) == (interval, loss_percent)
        };
        records.iter().find(is_it).map(|it| (it.delay.p99.ms, it.delay.p999.ms, it.cost.bytes_of_both()))
    };
    let changing = changing.expect("the file is sound");
    let mut lines = README_ROWS
        .map(|(name, contender)| {
            let cells = [&fixed, &changing].map(|records| match find(records, contender, 250, 5) {
                Some((p99_ms, p999_ms, bytes)) => format!(" {p99_ms:.0}, {p999_ms:.0}; {bytes:.0} |"),
                None => " |".to_owned(),
            });
            format!("| {name} |{}", cells.concat())
        })
        .to_vec();
    let of = |contender, interval_ms, loss| find(&fixed, contender, interval_ms, loss).expect("it was measured");
    lines.extend([10, 20, 50].map(|interval_ms| {
        let [none, one, five] = [0, 1, 5].map(|loss| of("festina", interval_ms, loss));
        let [none, one, five] =
            [none, one, five].map(|(p99_ms, _, bytes)| [format!("{bytes:.0}"), format!("{p99_ms:.0}")]);
        format!("| {interval_ms} ms | {} | {} | {} |", none[0], one.join(", "), five.join(", "))
    }));
    let (p99_ms, _, bytes) = of("quinn", 20, 5);
    lines.push(format!("quinn: {bytes:.0} bytes, p99 {p99_ms:.0} ms at 20 ms and 5 %"));
    for line in lines {
        assert!(readme.contains(&line), "README.md does not say: {line}");
    }
}

use super::*;
use crate::disk::{Faults, FaultyDisk};
use crate::line::Severity;
use crate::wire::RANGES_MAX;

mod hostile;
mod unwritable;

const FILE: &str = "/out/lines";

fn open(disk: &FaultyDisk) -> (Collector, Store<FaultyDisk>) {
    let output = FileOutput {
        template: FILE.to_owned(),
        format: Format::Raw,
        rotate_bytes: None,
        compression: None,
        new_files: 4,
    };
    super::open(disk.clone(), Path::new("/state"), vec![output]).expect("the disk works")
}

fn hello(epoch: u32, connection: u32) -> Bytes {
    let start = |epoch| Start { epoch, nonce: epoch.into() };
    let before = (1..epoch).map(start).collect();
    Packet::Hello { sender: SenderId([1; 16]), start: start(epoch), connection, before }.encode()
}

fn lines(floor: u64, numbers: &[u64]) -> Bytes {
    let record = |&sequence: &u64| Record {
        sequence,
        received_us: 0,
        marks: 0,
        severity: Severity::new(3),
        source: Bytes::from_static(b"here"),
        line: Bytes::from(format!("line {sequence}")),
    };
    Packet::Lines { priority: 0, floor, records: numbers.iter().map(record).collect() }.encode()
}

fn output(disk: &FaultyDisk) -> String {
    String::from_utf8(disk.contents(Path::new(FILE)).unwrap_or_default()).expect("text")
}

#[test]
fn a_line_that_comes_again_is_acknowledged_again_and_written_once() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = open(&disk);
    for connection in 1..4 {
        let peer = Peer(connection.into());
        collector.handle(peer, hello(1, connection)).expect("a hello");
        // As a relay would that did not listen to the welcome.
        collector.handle(peer, lines(5, &[5, 6, 8])).expect("lines");
        let answers = store.commit(collector.begin_commit()).expect("the disk works");
        let spans = vec![Span { priority: 0, first: 5, last: 6 }, Span { priority: 0, first: 8, last: 8 }];
        assert_eq!(answers.last(), Some(&(peer, Packet::Acks { fresh: 0, fresh_messages: 0, spans }.encode())));
    }
    assert_eq!(output(&disk), "line 5\nline 6\nline 8\n");
    assert_eq!(store.counters().duplicates, 6);
}

#[test]
fn what_an_earlier_incarnation_has_under_way_is_not_taken() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = open(&disk);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    collector.handle(Peer(2), hello(2, 1)).expect("a hello");
    collector.handle(Peer(3), hello(1, 2)).expect("a hello that comes late");
    collector.handle(Peer(1), lines(0, &[1])).expect("lines");
    collector.handle(Peer(3), lines(0, &[2])).expect("lines");
    collector.handle(Peer(2), lines(0, &[3])).expect("lines");
    store.commit(collector.begin_commit()).expect("the disk works");
    assert_eq!(output(&disk), "line 3\n");
}

#[test]
fn a_peer_that_does_not_begin_as_a_relay_is_refused() {
    let disk = FaultyDisk::new(1);
    let (mut collector, _) = open(&disk);
    assert_eq!(collector.handle(Peer(1), lines(0, &[1])), Err(RelayError::NoRelay));
    assert_eq!(collector.handle(Peer(1), Bytes::from_static(b"\x09")), Err(RelayError::Wire(WireError::Malformed)));
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    assert_eq!(collector.handle(Peer(1), hello(1, 2)), Err(RelayError::NoRelay));
}

#[test]
fn a_relay_that_leaves_out_every_other_number_is_ended_before_it_costs_much() {
    let disk = FaultyDisk::new(1);
    let (mut collector, _) = open(&disk);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    let mut number = 1;
    let refused = loop {
        let numbers: Vec<u64> = (0..1_000).map(|step| number + 2 * step).collect();
        match collector.handle(Peer(1), lines(0, &numbers)) {
            Ok(_) => number += 2_000,
            Err(error) => break error,
        }
        assert!(number < 4 * RANGES_MAX as u64);
    };
    assert_eq!(refused, RelayError::TooManyRanges);
}

#[test]
fn a_large_file_gets_a_number_and_what_it_remembers_grows_no_further() {
    let disk = FaultyDisk::new(1);
    let output = FileOutput {
        template: "/out/{source}".to_owned(),
        format: Format::Raw,
        rotate_bytes: Some(40),
        compression: None,
        new_files: 4,
    };
    let (mut collector, mut store) =
        super::open(disk.clone(), Path::new("/state"), vec![output]).expect("the disk works");
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    for number in 10..30 {
        collector.handle(Peer(1), lines(0, &[number])).expect("lines");
        store.commit(collector.begin_commit()).expect("the disk works");
    }
    let paths = disk.paths().into_iter().filter(|path| path.starts_with("/out"));
    let contents: Vec<u8> = paths.flat_map(|path| disk.contents(&path).unwrap_or_default()).collect();
    let expected: String = (10..30).map(|number| format!("line {number}\n")).collect();
    assert_eq!(contents.len(), expected.len());
    assert!(disk.contents(Path::new("/out/here.000003")).is_some_and(|bytes| bytes.len() == 40));
}

#[test]
fn a_commit_that_was_begun_before_another_failed_is_not_done_and_its_lines_come_again() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = open(&disk);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    collector.handle(Peer(1), lines(0, &[1])).expect("lines");
    let first = collector.begin_commit();
    collector.handle(Peer(1), lines(0, &[2])).expect("lines");
    let second = collector.begin_commit();
    assert!(!collector.has_work() && collector.taken_bytes() == 0);
    disk.set_faults(Faults { error_one_in: 1, bytes_max: None });
    store.commit(first).expect_err("the disk fails");
    disk.set_faults(Faults::default());
    store.commit(second).expect_err("the commit before it is missing");
    let (mut collector, mut store) = open(&disk);
    collector.handle(Peer(2), hello(1, 2)).expect("a hello");
    collector.handle(Peer(2), lines(0, &[1, 2])).expect("lines");
    store.commit(collector.begin_commit()).expect("the disk works");
    assert_eq!(output(&disk), "line 1\nline 2\n");
}

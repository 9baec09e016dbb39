//! Files that are moved by others, and relays that cause too much.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::collector::OPEN_FILES_MAX;
use crate::disk::{Crash, DiskFile as _};

fn old() -> &'static Path {
    Path::new("/out/lines.old")
}

fn text(disk: &FaultyDisk, path: &str) -> String {
    String::from_utf8(disk.contents(Path::new(path)).unwrap_or_default()).expect("text")
}

fn write(collector: &mut Collector, store: &mut Store<FaultyDisk>, numbers: &[u64]) -> io::Result<()> {
    collector.handle(Peer(1), lines(0, numbers)).expect("lines");
    store.commit(collector.begin_commit()).map(drop)
}

#[test]
fn lines_go_to_the_file_that_has_the_name_even_if_it_is_another_one() {
    for reopens in [false, true] {
        let disk = FaultyDisk::new(1);
        let (mut collector, mut store) = open(&disk);
        collector.handle(Peer(1), hello(1, 1)).expect("a hello");
        write(&mut collector, &mut store, &[1]).expect("the disk works");
        disk.move_by_hand(0, Path::new(FILE), Some(old()));
        if reopens {
            store.reopen_files();
        }
        write(&mut collector, &mut store, &[2]).expect("the disk works");
        write(&mut collector, &mut store, &[3]).expect("the disk works");
        assert_eq!((text(&disk, "/out/lines.old"), output(&disk)), ("line 1\n".into(), "line 2\nline 3\n".into()));
        disk.move_by_hand(0, Path::new(FILE), None);
        write(&mut collector, &mut store, &[4]).expect("the disk works");
        assert_eq!(output(&disk), "line 4\n");
        // The file is truncated, as by `copytruncate` of logrotate.
        disk.truncate(Path::new(FILE), 0).expect("the disk works");
        write(&mut collector, &mut store, &[5]).expect("the disk works");
        assert_eq!(output(&disk), "line 5\n");
    }
}

/// A file is moved or removed after any number of operations, and the process dies after any other number.
#[test]
fn a_file_that_is_moved_at_any_moment_costs_no_line_and_none_is_twice_in_a_file() {
    let mut doubled = 0;
    for (moved_after, dies_after) in (0..12).flat_map(|moved| (0..16).map(move |dies| (moved, dies))) {
        let disk = FaultyDisk::new(1);
        let (mut collector, mut store) = open(&disk);
        collector.handle(Peer(1), hello(1, 1)).expect("a hello");
        write(&mut collector, &mut store, &[1]).expect("the disk works");
        disk.move_by_hand(moved_after, Path::new(FILE), Some(old()));
        disk.crash_after(dies_after, Crash::Power);
        let _ = write(&mut collector, &mut store, &[2]).and_then(|()| write(&mut collector, &mut store, &[3]));
        disk.crash(Crash::Power);
        // Nothing is moved later.
        disk.move_by_hand(0, Path::new("/none"), None);
        let (mut collector, mut store) = open(&disk.restarted());
        collector.handle(Peer(1), hello(1, 2)).expect("a hello");
        write(&mut collector, &mut store, &[1, 2, 3]).expect("the disk works");
        let (moved, named) = (text(&disk, "/out/lines.old"), output(&disk));
        let when = format!("moved after {moved_after}, dead after {dies_after}: {moved:?} {named:?}");
        for number in 1..4 {
            let line = format!("line {number}\n");
            let places = (moved.matches(&line).count(), named.matches(&line).count());
            assert!(places == (1, 0) || places == (0, 1) || places == (1, 1), "{when}");
            doubled += u32::from(places == (1, 1));
        }
    }
    // Lines that were written before the move and not committed before the crash are in both.
    assert!(doubled < 12, "{doubled}");
}

#[test]
fn lines_that_were_written_to_a_file_that_is_removed_meanwhile_are_not_answered_for() {
    let mut failed = 0;
    for removed_after in 0..12 {
        let disk = FaultyDisk::new(1);
        let (mut collector, mut store) = open(&disk);
        collector.handle(Peer(1), hello(1, 1)).expect("a hello");
        write(&mut collector, &mut store, &[1]).expect("the disk works");
        disk.move_by_hand(removed_after, Path::new(FILE), None);
        let written = write(&mut collector, &mut store, &[2]);
        failed += u32::from(written.is_err());
        if written.is_ok() && disk.contents(Path::new(FILE)).is_some() {
            assert!(output(&disk).ends_with("line 2\n"), "removed after {removed_after}");
        }
    }
    assert!((1..4).contains(&failed), "{failed}");
}

fn by_source(disk: &FaultyDisk, new_files: u64) -> (Collector, Store<FaultyDisk>) {
    let output = FileOutput {
        template: "/out/{source}.log".to_owned(),
        format: Format::Raw,
        rotate_bytes: None,
        compression: None,
        new_files,
    };
    super::super::open(disk.clone(), Path::new("/state"), vec![output]).expect("the disk works")
}

/// Lines of this many sources, one each.
fn of_sources(first: u64, count: u64) -> Bytes {
    let record = |number| Record {
        sequence: number,
        received_us: 0,
        marks: 0,
        severity: Severity::new(3),
        source: Bytes::from(format!("source-{}", number - first)),
        line: Bytes::from(format!("line {number}")),
    };
    Packet::Lines { priority: 0, floor: 0, records: (first..first + count).map(record).collect() }.encode()
}

#[test]
fn a_commit_keeps_few_files_open() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = by_source(&disk, 5_000);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    for first in [1, 10_001] {
        collector.handle(Peer(1), of_sources(first, 2_000)).expect("lines");
        store.commit(collector.begin_commit()).expect("the disk works");
    }
    assert!(disk.open_files_max() <= OPEN_FILES_MAX + 4, "{} files", disk.open_files_max());
    for number in 0..2_000 {
        let expected = format!("line {}\nline {}\n", 1 + number, 10_001 + number);
        assert_eq!(text(&disk, &format!("/out/source-{number}.log")), expected);
    }
    assert_eq!(store.counters().overflowed, 0);
}

#[test]
fn lines_for_more_files_than_an_origin_may_make_are_in_the_overflow_file_and_counted() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = by_source(&disk, 4);
    let commit = |collector: &mut Collector, store: &mut Store<FaultyDisk>, first, seconds| {
        collector.keep_time(Duration::from_secs(seconds));
        collector.handle(Peer(1), of_sources(first, 10)).expect("lines");
        store.commit(collector.begin_commit()).expect("the disk works");
        (disk.paths().iter().filter(|path| path.starts_with("/out")).count(), store.counters().overflowed)
    };
    collector.begin(Peer(1), Origin::from(IpAddr::from(Ipv4Addr::LOCALHOST)));
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    // The first four and the overflow file; later one more each second.
    assert_eq!(commit(&mut collector, &mut store, 100, 0), (5, 6));
    assert_eq!(commit(&mut collector, &mut store, 200, 0), (5, 12));
    assert_eq!(commit(&mut collector, &mut store, 300, 2), (7, 16));
    let outputs = disk.paths().into_iter().filter(|path| path.starts_with("/out"));
    let all: String = outputs.map(|path| text(&disk, &path.display().to_string())).collect();
    for number in (100..110).chain(200..210).chain(300..310) {
        assert_eq!(all.matches(&format!("line {number}\n")).count(), 1, "{number}");
    }
    // Another origin has an allowance of its own, and files that are there cost none, not even when they were moved.
    disk.move_by_hand(0, Path::new("/out/source-0.log"), Some(old()));
    collector.gone(Peer(1));
    collector.begin(Peer(2), Origin::from(IpAddr::from(Ipv4Addr::UNSPECIFIED)));
    collector.handle(Peer(2), hello(1, 2)).expect("a hello");
    collector.handle(Peer(2), of_sources(400, 10)).expect("lines");
    store.commit(collector.begin_commit()).expect("the disk works");
    assert_eq!(store.counters().overflowed, 16);
    assert_eq!(text(&disk, "/out/source-0.log"), "line 400\n");
}

fn stranger(number: u32) -> SenderId {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    SenderId(id)
}

/// A relay of this number says hello and sends something.
fn introduce(collector: &mut Collector, number: u32, message: Bytes) -> Result<Vec<Record>, RelayError> {
    let peer = Peer(u64::from(number) + 10);
    collector.begin(peer, Origin::from(IpAddr::from(Ipv4Addr::LOCALHOST)));
    let start = Start { epoch: 1, nonce: 1 };
    let hello = Packet::Hello { sender: stranger(number), start, connection: 1, before: Vec::new() };
    collector.handle(peer, hello.encode()).expect("a hello");
    let taken = collector.handle(peer, message);
    collector.gone(peer);
    taken
}

#[test]
fn invented_relays_of_one_origin_are_refused_in_the_end_and_relays_of_others_are_not() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = open(&disk);
    collector.keep_time(Duration::from_secs(1));
    // Relays without lines are not remembered.
    for number in 0..2_000 {
        introduce(&mut collector, number, Packet::Settled(Vec::new()).encode()).expect("it makes sense");
    }
    let refused = (0..2_000).find(|&number| introduce(&mut collector, number, lines(0, &[1])).is_err());
    assert_eq!(refused, Some(1_024));
    assert_eq!(introduce(&mut collector, 5_000, lines(0, &[1])), Err(RelayError::TooManySenders));
    // One that is known already, and one with another address.
    introduce(&mut collector, 7, lines(0, &[2])).expect("it is known");
    collector.begin(Peer(1), Origin::from(IpAddr::from(Ipv4Addr::UNSPECIFIED)));
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    collector.handle(Peer(1), lines(0, &[1])).expect("lines");
    collector.keep_time(Duration::from_secs(21));
    introduce(&mut collector, 5_000, lines(0, &[1])).expect("there is room for one more again");
    store.commit(collector.begin_commit()).expect("the disk works");
}

#[test]
fn invented_relays_of_one_origin_leave_others_room_for_ranges() {
    let disk = FaultyDisk::new(1);
    let (mut collector, _) = open(&disk);
    let every_other = |count: u64| {
        let span = |number| Span { priority: 0, first: 2 * number + 1, last: 2 * number + 1 };
        Packet::Settled((0..count).map(span).collect()).encode()
    };
    let ended = (0..20).find(|&number| introduce(&mut collector, number, every_other(60_000)).is_err());
    assert_eq!(ended, Some(2));
    // Each may still have a few, and a relay of another origin all of its own.
    introduce(&mut collector, 50, every_other(16)).expect("a share");
    collector.begin(Peer(1), Origin::from(IpAddr::from(Ipv4Addr::UNSPECIFIED)));
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    collector.handle(Peer(1), every_other(60_000)).expect("there is room");
}

/// One line of a source.
fn of_source(number: u64, source: &'static str) -> Bytes {
    let (severity, line) = (Severity::new(3), Bytes::from(format!("line {number}")));
    let source = Bytes::from_static(source.as_bytes());
    let record = Record { sequence: number, received_us: 0, marks: 0, severity, source, line };
    Packet::Lines { priority: 0, floor: 0, records: vec![record] }.encode()
}

fn rotating(disk: &FaultyDisk) -> (Collector, Store<FaultyDisk>) {
    let (template, format) = ("/out/{source}".to_owned(), Format::Raw);
    let output = FileOutput { template, format, rotate_bytes: Some(5), compression: None, new_files: 4 };
    super::super::open(disk.clone(), Path::new("/state"), vec![output]).expect("the disk works")
}

#[test]
fn a_file_with_the_highest_number_is_not_replaced_by_rotated_ones() {
    let disk = FaultyDisk::new(1);
    let mut file = disk.append_to(Path::new("/out/here.4294967295")).expect("the disk works");
    file.append(b"line 0\n").and_then(|()| file.sync()).expect("the disk works");
    let (mut collector, mut store) = rotating(&disk);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    (1..4).for_each(|number| write(&mut collector, &mut store, &[number]).expect("the disk works"));
    let outputs = disk.paths().into_iter().filter(|path| path.starts_with("/out"));
    let all: String = outputs.map(|path| text(&disk, &path.display().to_string())).collect();
    for number in 0..4 {
        assert_eq!(all.matches(&format!("line {number}\n")).count(), 1, "{number} in {:?}", disk.paths());
    }
}

#[test]
fn lines_do_not_go_to_files_with_names_of_rotated_ones() {
    let disk = FaultyDisk::new(1);
    let (mut collector, mut store) = rotating(&disk);
    collector.handle(Peer(1), hello(1, 1)).expect("a hello");
    for (number, source) in (1..).zip(["here.000001", "here.000001.gz", "here.000001.zst.new", "192.0.2.7"]) {
        collector.handle(Peer(1), of_source(number, source)).expect("lines");
        store.commit(collector.begin_commit()).expect("the disk works");
        assert_eq!(disk.contents(&Path::new("/out").join(source)), None, "{source}");
    }
    // Each of these was rotated at once.
    assert_eq!(text(&disk, "/out/here.000001_.000001"), "line 1\n");
    assert_eq!(text(&disk, "/out/here.000001.gz_.000001"), "line 2\n");
    assert_eq!(text(&disk, "/out/192.0.2.7.000001"), "line 4\n");
}

//! Accounts over restarts, damage, full disks and clocks: found and taken lines are delivered, shed, lost, or still there.

use std::collections::BTreeSet;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::disk::{Crash, DiskFile as _, Faults, FaultyDisk};
use crate::line::Severity;
use crate::spool::UNWRITTEN_PEAK_BYTES;

const SPOOL: &str = "/spool";
const DAY_US: u64 = 24 * 3_600 * 1_000_000;

fn try_open(disk: &FaultyDisk, now_us: u64) -> io::Result<Sender<FaultyDisk>> {
    open_with(disk, 64 << 10, now_us)
}

fn open_with(disk: &FaultyDisk, bytes_max: u64, now_us: u64) -> io::Result<Sender<FaultyDisk>> {
    let limits = SenderLimits { bytes_max, age_max: Duration::from_secs(24 * 3_600), window_lines_max: 5_000 };
    Sender::open(disk, Path::new(SPOOL), limits, &Routing::to_one("a"), [7; 16], now_us)
}

fn open(disk: &FaultyDisk, now_us: u64) -> Sender<FaultyDisk> {
    try_open(disk, now_us).expect("it can be opened")
}

fn take(sender: &mut Sender<FaultyDisk>, number: u64, received_us: u64) -> bool {
    let line = Bytes::from(format!("number {number} {}", "x".repeat(80)));
    take_text(sender, line, received_us, 0)
}

fn take_text(sender: &mut Sender<FaultyDisk>, line: Bytes, received_us: u64, priority: u8) -> bool {
    let (severity, source) = (Severity::new(0), Bytes::from_static(b"here"));
    sender.take(Record { sequence: 0, received_us, marks: 0, severity, source, line }, priority)
}

fn adds_up(sender: &Sender<FaultyDisk>) -> bool {
    let Counters { found, taken, delivered, shed_full, shed_old, shed_unspooled, lost, .. } = *sender.counters();
    found + taken == delivered + shed_full + shed_old + shed_unspooled + lost + sender.unsettled()
}

/// A collector comes that knows of no line.
fn welcome(sender: &mut Sender<FaultyDisk>, now_us: u64) {
    sender.connected(0, now_us);
    sender.handle_welcome(0, &vec![Ranges::default(); usize::from(PRIORITIES)], now_us).expect("it makes sense");
}

/// A collector that knows of no line gets all that can be read, and answers for it. Returns the numbers in the lines.
fn deliver_all(sender: &mut Sender<FaultyDisk>, now_us: u64) -> BTreeSet<u64> {
    welcome(sender, now_us);
    let mut numbers = BTreeSet::new();
    while let Some(message) = sender.next_message(0, PRIORITIES) {
        let Ok(Packet::Lines { records, .. }) = Packet::decode(message.payload) else { panic!("lines") };
        for record in records {
            let text = String::from_utf8_lossy(&record.line).into_owned();
            let number = text.split(' ').nth(1).and_then(|number| number.parse().ok());
            assert!(numbers.insert(number.expect("a number")), "{text} came twice");
            sender.deliver(0, 0, (record.sequence, record.sequence), now_us).expect("it was sent");
        }
    }
    numbers
}

/// The files with lines, without their indices.
fn files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let is_file =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(crate::spool::is_file_of_lines);
    disk.paths().into_iter().filter(is_file).collect()
}

/// Damages a file as people and disks do.
fn damage(disk: &FaultyDisk, path: &Path, how: u64) {
    let bytes = disk.contents(path).expect("it is there").len();
    let length = bytes as u64;
    let index = PathBuf::from(format!("{}.index", path.display()));
    match how {
        0 => disk.truncate(path, 0),
        1 => disk.truncate(path, length / 2),
        2 => disk.remove(path),
        3 => disk.remove(path).and_then(|()| disk.remove(&index)),
        _ => disk.truncate(path, 0).and_then(|()| disk.append_to(path)?.append(&vec![0; bytes])),
    }
    .expect("the disk works");
}

#[test]
fn over_restarts_and_damage_every_line_is_delivered_lost_or_still_there() {
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = FaultyDisk::new(seed);
        let (mut number, mut before, mut lost_in_all) = (0, 0, 0);
        for life in 0..6 {
            let disk = disk.restarted();
            let mut sender = open(&disk, 1);
            assert_eq!(sender.counters().found, before, "seed {seed}, life {life}");
            for _ in 0..random.next_u64() % 60 {
                assert!(take(&mut sender, number, number));
                number += 1;
                if random.next_u64().is_multiple_of(4) {
                    sender.flush().expect("the disk works");
                }
            }
            sender.sync().expect("the disk works");
            if random.next_u64().is_multiple_of(3) {
                deliver_all(&mut sender, 1);
                assert_eq!(sender.unsettled(), 0, "seed {seed}: lines read were delivered, and the rest is lost");
            }
            assert!(adds_up(&sender), "seed {seed}: {:?}", sender.counters());
            lost_in_all += sender.counters().lost;
            before = sender.unsettled();
            drop(sender);
            disk.crash(Crash::Process);
            let disk = disk.restarted();
            let files = files(&disk);
            if before > 0 && !files.is_empty() && random.next_u64().is_multiple_of(2) {
                let file = &files[usize::try_from(random.next_u64()).unwrap_or_default() % files.len()];
                damage(&disk, file, random.next_u64() % 5);
            } else if before == 0 {
                // The last file may stay though all its lines are settled: the welcome says so.
                files.iter().for_each(|file| disk.remove(file).expect("the disk works"));
                disk.remove(&Path::new(SPOOL).join("ledger-0")).expect("the disk works");
            }
        }
        assert!(seed != 7 || lost_in_all > 0, "the damage was noticed");
    }
}

#[test]
fn each_damage_of_each_file_is_counted() {
    for how in 0..5 {
        for at in 0..3 {
            let disk = FaultyDisk::new(1);
            let mut sender = open(&disk, 1);
            for number in 0..50 {
                take(&mut sender, number, 0);
                sender.sync().expect("the disk works");
            }
            drop(sender);
            let files = files(&disk);
            assert!(files.len() > 3);
            damage(&disk, &files[[0, files.len() / 2, files.len() - 1][at]], how);
            let mut sender = open(&disk, 1);
            assert_eq!(sender.counters().found, 50, "{how} {at}");
            let delivered = deliver_all(&mut sender, 1).len() as u64;
            let lost = sender.counters().lost;
            assert!(delivered < 50 && delivered + lost == 50 && adds_up(&sender), "{how} {at}: {delivered} {lost}");
        }
    }
}

#[test]
fn lines_without_the_identity_that_goes_with_them_are_an_error_and_not_ignored() {
    let path = Path::new(SPOOL).join("identity");
    let disk = FaultyDisk::new(1);
    let first = open(&disk, 1);
    drop(first);
    let early = disk.contents(&path).expect("it is there");
    let mut sender = open(&disk, 1);
    take(&mut sender, 1, 0);
    sender.sync().expect("the disk works");
    let refused = |words: &str| {
        let error = try_open(&disk, 1).map(|_| ()).expect_err("it is refused");
        assert!(error.kind() == io::ErrorKind::InvalidData && error.to_string().contains(words), "{error}");
    };
    let write = |bytes: &[u8]| {
        disk.remove(&path).and_then(|()| disk.append_to(&path)?.append(bytes)).expect("the disk works");
    };
    let right = disk.contents(&path).expect("it is there");
    disk.remove(&path).expect("the disk works");
    refused("identity is missing");
    write(&[0; 20]);
    refused("identity is damaged");
    write(&vec![0; right.len()]);
    refused("identity is damaged");
    // That of an older copy of the spool: its epoch would give numbers that lines have already.
    write(&identity_of_epoch(&early, 0));
    refused("identity is damaged");
    write(&right);
    assert_eq!(open(&disk, 1).counters().found, 1);
}

/// The bytes of an identity with another epoch and no right checksum.
fn identity_of_epoch(bytes: &[u8], epoch: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[20..24].copy_from_slice(&epoch.to_be_bytes());
    bytes
}

#[test]
fn lines_of_a_later_start_than_the_identity_knows_are_an_error() {
    let disk = FaultyDisk::new(1);
    drop(open(&disk, 1));
    let path = Path::new(SPOOL).join("identity");
    drop(open(&disk, 1));
    let early = disk.contents(&path).expect("it is there");
    for number in 0..3 {
        let mut sender = open(&disk, 1);
        take(&mut sender, number, 0);
        sender.sync().expect("the disk works");
    }
    disk.remove(&path).and_then(|()| disk.append_to(&path)?.append(&early)).expect("the disk works");
    let error = try_open(&disk, 1).map(|_| ()).expect_err("it is refused");
    assert!(error.to_string().contains("older than the lines"), "{error}");
}

#[test]
fn setting_the_clock_sheds_nothing_and_age_is_time_that_the_relay_ran() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    // The machine takes it for the year 2000, then for 1970, then for a time far ahead.
    for (number, received_us) in [946_684_800_000_000, 0, u64::MAX / 2].into_iter().enumerate() {
        take(&mut sender, number as u64, received_us);
    }
    sender.sync().expect("the disk works");
    sender.enforce_limits(1 + DAY_US / 2);
    assert_eq!((sender.unsettled(), sender.counters().shed_old), (3, 0));
    // Half a day that it ran, noted with the next line.
    take(&mut sender, 3, 0);
    sender.sync().expect("the disk works");
    drop(sender);
    // After a restart the monotonic clock starts anywhere.
    let mut sender = open(&disk, 10 * DAY_US);
    sender.enforce_limits(10 * DAY_US);
    assert_eq!((sender.unsettled(), sender.counters().shed_old), (4, 0));
    sender.enforce_limits(11 * DAY_US + DAY_US / 2);
    assert_eq!((sender.unsettled(), sender.counters().shed_old), (0, 4), "lines that are too old are shed and counted");
    assert!(adds_up(&sender));
}

/// Limits the disk to its present contents plus `more` bytes.
fn fill(disk: &FaultyDisk, more: u64) {
    let used: usize = disk.paths().iter().filter_map(|path| disk.contents(path)).map(|bytes| bytes.len()).sum();
    disk.set_faults(Faults { error_one_in: 0, bytes_max: Some(used as u64 + more) });
}

#[test]
fn a_full_disk_gets_no_more_files_and_all_lines_arrive_when_there_is_room() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    for number in 0..40 {
        take(&mut sender, number, 0);
    }
    sender.sync().expect("the disk works");
    fill(&disk, 100);
    let before = disk.paths().len();
    for number in 40..60 {
        assert!(take(&mut sender, number, 0));
        let _ = sender.flush();
    }
    for _ in 0..200 {
        assert!(sender.sync().is_err());
        assert!(disk.paths().len() <= before + 1, "{:?}", disk.paths());
    }
    disk.set_faults(Faults::default());
    sender.sync().expect("there is room");
    drop(sender);
    let mut sender = open(&disk, 1);
    assert_eq!(deliver_all(&mut sender, 1), (0..60).collect());
    assert!(adds_up(&sender));
}

#[test]
fn a_relay_starts_on_a_full_disk_and_delivers_what_is_there() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    for number in 0..40 {
        take(&mut sender, number, 0);
        sender.flush().expect("the disk works");
    }
    sender.sync().expect("the disk works");
    fill(&disk, 0);
    for number in 40..45 {
        take(&mut sender, number, 0);
    }
    assert!(sender.sync().is_err());
    disk.crash(Crash::Process);
    let disk = disk.restarted();
    for _ in 0..5 {
        // Each start finds it full again.
        fill(&disk, 0);
        drop(open(&disk, 1));
    }
    fill(&disk, 0);
    let mut sender = open(&disk, 1);
    assert_eq!(deliver_all(&mut sender, 1), (0..40).collect());
    assert!(adds_up(&sender));
}

#[test]
fn a_disk_that_fails_is_not_asked_with_each_line_and_few_lines_wait_in_memory_for_a_collector() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    fill(&disk, 0);
    take(&mut sender, 0, 0);
    assert!(sender.flush().is_err());
    assert!(!sender.has_room(), "no collector is there");
    welcome(&mut sender, 1);
    let mut number = 1;
    for _ in 0..20 {
        let first = number;
        while sender.has_room() {
            take(&mut sender, number, 0);
            number += 1;
            assert!(sender.in_memory() <= 1_025);
        }
        assert_eq!(number - first, 1_024 + u64::from(first > 1));
        // The collector answers, and there is room again, though the disk is still full.
        assert!(sender.sync().is_err());
        let next = sender.lanes[0].next_number();
        sender.deliver(0, 0, (0, next - 1), 1).expect("it was sent");
        assert!(sender.in_memory() == 0 && sender.has_room());
    }
    assert_eq!(sender.counters().shed_unspooled, 0, "lines taken while there is room are kept");
    let errors = sender.counters().disk_errors;
    assert!(errors < 50, "{errors}");
    disk.set_faults(Faults::default());
    sender.sync().expect("there is room");
    assert!(sender.in_memory() == 0 && adds_up(&sender));
}

#[test]
fn lines_taken_when_the_disk_becomes_full_are_written_in_the_place_of_the_reserve() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    sender.keep_reserve(8_000);
    fill(&disk, 100);
    for number in 0..40 {
        take(&mut sender, number, 0);
    }
    assert!(sender.flush().is_err() && sender.in_memory() == 40);
    let error = sender.begin_sync().map(|_| ()).expect_err("there is no reserve for more");
    assert_eq!((error.kind(), sender.in_memory()), (io::ErrorKind::StorageFull, 0));
    disk.crash(Crash::Process);
    let disk = disk.restarted();
    // A start without a reserve says so before it takes lines.
    fill(&disk, 0);
    let mut sender = open(&disk, 1);
    sender.keep_reserve(8_000);
    assert!(sender.begin_sync().is_err());
    disk.set_faults(Faults::default());
    assert!(sender.begin_sync().is_ok_and(|jobs| jobs.is_empty()));
    assert_eq!(disk.contents(&Path::new(SPOOL).join("reserve-lines")).map(|bytes| bytes.len()), Some(8_000));
    assert_eq!(deliver_all(&mut sender, 1), (0..40).collect());
    assert!(adds_up(&sender));
}

#[test]
fn the_reserve_has_room_for_all_that_was_accepted_when_the_disk_becomes_full() {
    const RESERVE_BYTES: usize = 2 * UNWRITTEN_PEAK_BYTES;
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        let mut sender = open_with(&disk, 1 << 30, 1).expect("it can be opened");
        sender.keep_reserve(RESERVE_BYTES);
        // Much more than the reserve waits for a sync, in files of several priorities, and the disk becomes full anywhere in a record.
        fill(&disk, 5_000_000 + 7_919 * seed);
        let is_large = |number: u64| (number + seed).is_multiple_of(97);
        let mut numbers = 0..;
        while !sender.is_failing() {
            let number = numbers.next().expect("the disk is full before");
            let line = Bytes::from(vec![b'x'; if is_large(number) { 256 << 10 } else { 200 }]);
            assert!(take_text(&mut sender, line, 1, u8::from(number % 9 == 0)));
            if number % 1_000 == 999 {
                let _ = sender.flush();
            }
        }
        let error = sender.begin_sync().map(|_| ()).expect_err("there is no reserve for more");
        assert_eq!((error.kind(), sender.in_memory()), (io::ErrorKind::StorageFull, 0), "seed {seed}");
        disk.crash(Crash::Power);
        let sender = open(&disk.restarted(), 1);
        assert_eq!(sender.counters().found, numbers.start, "seed {seed}");
    }
}

#[test]
fn lines_of_a_source_behind_given_numbers_are_found_in_the_spool() {
    let disk = FaultyDisk::new(1);
    let mut sender = open(&disk, 1);
    for number in 0..10 {
        take(&mut sender, number, 0);
    }
    sender.flush().expect("the disk works");
    let numbers = sender.numbers();
    for number in [20, 21, 20] {
        take(&mut sender, number, 0);
    }
    sender.flush().expect("the disk works");
    disk.crash(Crash::Process);
    let sender = open(&disk.restarted(), 1);
    let lines = sender.lines_from(&numbers, b"here").expect("the disk works");
    let mut times: Vec<(String, u64)> =
        lines.iter().map(|(line, times)| (String::from_utf8_lossy(&line[..9]).into_owned(), *times)).collect();
    times.sort();
    assert_eq!(times, [("number 20".to_owned(), 2), ("number 21".to_owned(), 1)]);
    assert!(sender.lines_from(&numbers, b"there").expect("the disk works").is_empty());
}

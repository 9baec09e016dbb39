use std::path::Path;

use std::collections::BTreeSet;

use super::*;
use crate::disk::{Crash, Faults, FaultyDisk};
use crate::line::Severity;

fn record(sequence: u64) -> Bytes {
    let line = Bytes::from(format!("line {sequence}"));
    let source = Bytes::from_static(b"here");
    Record { sequence, received_us: sequence, marks: 0, severity: Severity::NOTICE, source, line }.encode()
}

fn open(disk: &FaultyDisk, segment_bytes: u64) -> (Spool<FaultyDisk>, Vec<u64>) {
    let mut found = Vec::new();
    let spool = Spool::open(disk.clone(), Path::new("/s"), 0, segment_bytes, |first, last| found.extend(first..=last));
    (spool.expect("the disk works"), found)
}

/// The files with lines, without their indices.
fn files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let is_file = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_file_of_lines);
    disk.paths().into_iter().filter(is_file).collect()
}

/// As a spool that was written before there was a ledger.
fn forget_ledger(disk: &FaultyDisk) {
    disk.remove(Path::new("/s/ledger-0")).expect("it works");
}

fn read_all(spool: &Spool<FaultyDisk>) -> Vec<u64> {
    let (mut cursor, mut numbers) = (Cursor::default(), Vec::new());
    loop {
        let records = spool.read(&mut cursor).expect("the disk works");
        if records.is_empty() {
            return numbers;
        }
        numbers.extend(records.iter().map(|stored| stored.record.sequence));
    }
}

#[test]
fn records_are_read_in_their_order_over_many_files_and_files_of_settled_ones_go() {
    let disk = FaultyDisk::new(1);
    let (mut spool, _) = open(&disk, 200);
    for sequence in 0..50 {
        spool.append(&record(sequence), sequence, 0).and_then(|()| spool.flush()).expect("there is room");
    }
    assert_eq!(read_all(&spool), (0..50).collect::<Vec<_>>());
    let files = disk.paths().len();
    assert!(files > 5, "{files}");
    spool.remove_below(30);
    assert!(disk.paths().len() < files && read_all(&spool).contains(&30) && read_all(&spool)[0] > 20);
    spool.sync().expect("the disk works");
    let (spool, mut found) = open(&disk, 200);
    found.sort_unstable();
    assert_eq!(found, read_all(&spool));
    assert_eq!(found.last(), Some(&49));
}

#[test]
fn what_was_synced_survives_a_power_cut_whatever_failed_before() {
    for seed in 0..3_000 {
        let disk = FaultyDisk::new(seed);
        let (mut spool, _) = open(&disk, 300);
        let (mut written, mut synced) = (Vec::new(), Vec::new());
        disk.set_faults(Faults { error_one_in: 12, bytes_max: Some(1_500) });
        disk.crash_after(u32::try_from(seed % 97).expect("small"), Crash::Power);
        for sequence in 0..40 {
            if spool.append(&record(sequence), sequence, 0).is_ok() {
                written.push(sequence);
            }
            if sequence % 3 != 0 {
                let _ = spool.flush();
            }
            if sequence % 5 == seed % 5 && spool.sync().is_ok() {
                synced.clone_from(&written);
            }
        }
        disk.set_faults(Faults::default());
        if !disk.has_crashed() {
            disk.crash(Crash::Power);
        }
        let (spool, _) = open(&disk.restarted(), 300);
        let read = read_all(&spool);
        assert!(read.is_sorted_by(|a, b| a < b), "seed {seed}: {read:?}");
        assert!(synced.iter().all(|sequence| read.contains(sequence)), "seed {seed}: {synced:?} {read:?}");
        assert!(read.iter().all(|sequence| *sequence < 40));
    }
}

#[test]
fn what_another_thread_has_synced_survives_a_power_cut_though_files_were_filled_and_removed_meanwhile() {
    for seed in 0..3_000 {
        let disk = FaultyDisk::new(seed);
        let (mut spool, _) = open(&disk, 120);
        let (mut written, mut synced, mut syncing) = (Vec::new(), Vec::new(), None);
        disk.set_faults(Faults { error_one_in: if seed % 2 == 0 { 15 } else { 0 }, bytes_max: None });
        disk.crash_after(u32::try_from(seed % 131).expect("small"), Crash::Power);
        let mut floor = 0;
        for sequence in 0..40 {
            if spool.append(&record(sequence), sequence, 0).is_ok() && spool.flush().is_ok() {
                written.push(sequence);
            }
            match syncing.take() {
                None if sequence % 3 == 0 => {
                    syncing = spool.begin_sync().ok().flatten().map(|job| (job, written.clone()));
                }
                Some((job, until)) if (sequence + seed) % 5 == 0 => {
                    let job: SyncJob<_> = job;
                    let waited = job.run();
                    // The system says once that a sync failed, and the other thread has heard it.
                    if seed % 3 == 0 && spool.sync().is_ok() && !disk.has_crashed() {
                        synced.clone_from(&written);
                    }
                    if spool.end_sync(waited).is_ok() && !disk.has_crashed() && until.len() > synced.len() {
                        synced = until;
                    }
                }
                other => syncing = other,
            }
            if sequence % 7 == seed % 7 && sequence > 6 {
                floor = sequence - 6;
                spool.remove_below(floor);
            }
        }
        disk.set_faults(Faults::default());
        if !disk.has_crashed() {
            disk.crash(Crash::Power);
        }
        let (spool, _) = open(&disk.restarted(), 120);
        let read = read_all(&spool);
        assert!(read.is_sorted_by(|a, b| a < b), "seed {seed}: {read:?}");
        let lost: Vec<_> = synced.iter().filter(|&&sequence| sequence >= floor && !read.contains(&sequence)).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} {synced:?} {read:?}");
    }
}

#[test]
fn a_damaged_record_ends_its_file_and_no_other() {
    let disk = FaultyDisk::new(1);
    let (mut spool, _) = open(&disk, 100);
    for sequence in 0..9 {
        spool.append(&record(sequence), sequence, 0).and_then(|()| spool.flush()).expect("there is room");
    }
    spool.sync().expect("the disk works");
    drop(spool);
    let path = files(&disk).remove(0);
    let bytes = disk.contents(&path).expect("it is there");
    disk.truncate(&path, bytes.len() as u64 - 3).expect("the disk works");
    disk.append_to(&path).and_then(|mut file| file.append(b"\x07xx and more")).expect("the disk works");
    let (spool, found) = open(&disk, 100);
    assert_eq!(read_all(&spool).len(), 8);
    // The ledger reveals the missing file.
    assert_eq!((found.into_iter().collect::<BTreeSet<_>>().len(), spool.damaged()), (9, 1));
}

#[test]
fn a_finished_file_is_not_read_at_the_start_and_one_whose_index_is_torn_is() {
    let disk = FaultyDisk::new(1);
    let (mut spool, _) = open(&disk, 200);
    for sequence in 0..50 {
        spool.append(&record(sequence), sequence, 0).and_then(|()| spool.flush()).expect("there is room");
    }
    spool.sync().expect("the disk works");
    drop(spool);
    forget_ledger(&disk);
    for path in &files(&disk) {
        // Reading them finds nothing.
        let bytes = disk.contents(path).expect("it is there");
        disk.truncate(path, 0).and_then(|()| disk.append_to(path)?.append(&vec![0xff; bytes.len()])).expect("it works");
    }
    let (spool, found) = open(&disk, 200);
    assert!(found.len() > 40 && found.len() < 50, "all but those of the last file: {found:?}");
    assert_eq!(read_all(&spool), [0_u64; 0]);
    let index = disk.paths().into_iter().find(|path| path.extension().is_some()).expect("an index");
    disk.truncate(&index, 30).expect("it works");
    forget_ledger(&disk);
    let (_, fewer) = open(&disk, 200);
    assert!(fewer.len() < found.len(), "{fewer:?}");
}

#[test]
fn an_index_without_its_file_is_no_index_of_a_later_one() {
    let disk = FaultyDisk::new(1);
    let (mut spool, _) = open(&disk, 100);
    for sequence in 0..9 {
        spool.append(&record(sequence), sequence, 0).and_then(|()| spool.flush()).expect("there is room");
    }
    spool.sync().expect("the disk works");
    drop(spool);
    for path in files(&disk) {
        disk.remove(&path).expect("it works");
    }
    forget_ledger(&disk);
    let (mut spool, found) = open(&disk, 100);
    assert_eq!(found, [0_u64; 0]);
    for sequence in 20..29 {
        spool.append(&record(sequence), sequence, 0).and_then(|()| spool.flush()).expect("there is room");
    }
    spool.sync().expect("the disk works");
    drop(spool);
    assert_eq!(open(&disk, 100).1, (20..29).collect::<Vec<_>>());
}

#[test]
fn any_bytes_can_be_read() {
    assert_eq!(readable_records(&[0xff; 64]), 0);
    assert_eq!(readable_records(&[0; 64]), 0);
    let mut whole = Vec::new();
    put_framed(&record(1), &mut whole);
    assert_eq!(readable_records(&[&whole[..], &whole[..20]].concat()), 1);
}

use super::*;
use crate::disk::{Crash, Faults, FaultyDisk};

const DIRECTORY: &str = "/spool";

fn position(offset: u64) -> Position {
    let id = FileId { device: 1, inode: 2, born_ns: 3 };
    let tail = Tail { length: 4, sum: 5 };
    let file = SavedFile { id, offset, in_cut_line: true, is_rotated: false, is_finished: false, modified_ns: 6, tail };
    let finished = SavedFile { is_rotated: true, is_finished: true, ..file };
    Position { files: vec![file, SavedFile { is_rotated: true, ..file }, finished], known: vec![id] }
}

fn open(disk: &FaultyDisk, boot: u64) -> Positions<FaultyDisk> {
    let names = ["a".to_owned(), "b".to_owned()];
    Positions::open(&disk.restarted(), Path::new(DIRECTORY), &names, boot).expect("the disk works")
}

fn offset(positions: &Positions<FaultyDisk>, input: usize) -> Option<u64> {
    positions.get(input).map(|entry| entry.position.files[0].offset)
}

#[test]
fn the_last_entry_counts_after_a_kill_and_the_last_safe_one_after_the_machine_was_started() {
    let disk = FaultyDisk::new(1);
    let mut positions = open(&disk, 7);
    assert_eq!(positions.get(0), None);
    positions.record(0, position(10), [1; 8]).expect("the disk works");
    positions.record(1, position(11), [1; 8]).expect("the disk works");
    let synced = positions.unsafe_entries();
    positions.record_safe(synced).expect("the disk works");
    positions.record(0, position(20), [2; 8]).expect("the disk works");
    let again = open(&disk, 7);
    assert_eq!(again.get(0), Some(&Entry { position: position(20), numbers: [2; 8] }));
    assert_eq!((offset(&again, 0), offset(&again, 1)), (Some(20), Some(11)));
    let restarted = open(&disk, 8);
    assert_eq!((offset(&restarted, 0), offset(&restarted, 1)), (Some(10), Some(11)));
    // Without a way to tell the two apart, the safe one counts.
    assert_eq!(offset(&open(&disk, 0), 0), Some(10));
}

#[test]
fn entries_are_kept_when_the_file_is_written_anew_and_damage_costs_the_last_ones_alone() {
    let disk = FaultyDisk::new(1);
    let mut positions = open(&disk, 7);
    for number in 0..20_000 {
        positions.record(0, position(number), [number; 8]).expect("the disk works");
        if number == 10 {
            let synced = positions.unsafe_entries();
            positions.record_safe(synced).expect("the disk works");
        }
    }
    let path = Path::new(DIRECTORY).join(NAME);
    assert!(disk.contents(&path).expect("it is there").len() <= BYTES_MAX);
    assert_eq!((offset(&open(&disk, 7), 0), offset(&open(&disk, 8), 0)), (Some(19_999), Some(10)));
    let length = disk.contents(&path).expect("it is there").len() as u64;
    disk.truncate(&path, length - 5).expect("the disk works");
    assert_eq!(offset(&open(&disk, 7), 0), Some(19_998));
}

#[test]
fn whenever_the_process_is_killed_an_entry_is_there_or_the_one_before() {
    for operations in 0..40 {
        let disk = FaultyDisk::new(u64::from(operations));
        let mut positions = open(&disk, 7);
        disk.crash_after(operations, Crash::Process);
        let mut recorded = 0;
        for number in 1..20 {
            if positions.record(0, position(number), [number; 8]).is_ok() && !disk.has_crashed() {
                recorded = number;
            }
        }
        let found = offset(&open(&disk, 7), 0).unwrap_or_default();
        assert!(found == recorded || found == recorded + 1, "{operations}: {found}, {recorded} recorded");
    }
}

#[test]
fn after_a_sync_that_failed_later_entries_survive_a_power_cut() {
    for seed in 0..50 {
        let disk = FaultyDisk::new(seed);
        let mut positions = open(&disk, 7);
        let record = |positions: &mut Positions<FaultyDisk>, number| {
            positions.record(0, position(number), [number; 8]).expect("the disk works");
            let synced = positions.unsafe_entries();
            positions.record_safe(synced).expect("the disk works");
        };
        record(&mut positions, 10);
        let mut sync = positions.begin_sync();
        sync.iter_mut().try_for_each(DiskFile::sync).expect("the disk works");
        record(&mut positions, 20);
        let mut handle = positions.begin_sync().expect("an entry was written");
        disk.set_faults(Faults { error_one_in: 1, bytes_max: None });
        let failed = handle.sync();
        disk.set_faults(Faults::default());
        assert!(failed.is_err());
        positions.end_sync(&failed);
        if seed % 2 == 0 {
            record(&mut positions, 30);
        }
        if let Some(mut handle) = positions.begin_sync() {
            positions.end_sync(&handle.sync());
        }
        disk.crash(Crash::Power);
        assert_eq!(offset(&open(&disk, 8), 0), Some(if seed % 2 == 0 { 30 } else { 20 }), "seed {seed}");
    }
}

#[test]
fn entries_of_an_older_version_count_without_the_bytes_before_their_positions() {
    let mut bytes = Vec::new();
    put(&mut bytes, 1, 7, true, &Entry { position: position(10), numbers: [1; 8] });
    bytes[4] = VERSION_WITHOUT_TAILS;
    let whole = bytes.len() - 4;
    let sum = checksum(&bytes[..whole]);
    bytes[whole..].copy_from_slice(&sum.to_be_bytes());
    let (.., entry) = Entries(&bytes).next().expect("it is whole");
    assert!(entry.position.files.iter().all(|file| file.offset == 10 && file.tail == Tail::default()));
}

#[test]
fn any_bytes_can_be_read() {
    for bytes in [&[0xff; 64][..], &[0; 64], b"\0\0\0\x01", &[0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(Entries(bytes).count(), 0);
    }
}

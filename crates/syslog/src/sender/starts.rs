//! The starts of a relay with this spool. A collector that has lines of one start takes those of a later one only if the relay knows the
//! earlier: the relay of a restored or copied spool numbers other lines with the same numbers, and does not.

use std::io;
use std::path::Path;

use bytes::{Buf as _, BufMut as _};

use crate::disk::{Disk, read_whole, replace};
use crate::spool::checksum;
use crate::wire::Start;

/// The name of the file.
const NAME: &str = "starts";

/// Starts that are remembered. A collector that was not reached for more of them refuses the relay.
const STARTS_MAX: usize = 4_096;

/// Bytes of a start.
const START_BYTES: usize = 12;

/// Bytes of the file.
const BYTES_MAX: usize = 4 + STARTS_MAX * START_BYTES;

/// Reads the earlier starts, oldest first. A damaged file counts as none: lines are kept, and collectors that know this relay refuse it.
pub(super) fn read<D: Disk>(disk: &D, directory: &Path) -> io::Result<Vec<Start>> {
    let bytes = read_whole(disk, &directory.join(NAME), BYTES_MAX)?.unwrap_or_default();
    Ok(decode(&bytes).unwrap_or_default())
}

fn decode(mut bytes: &[u8]) -> Option<Vec<Start>> {
    let sum = bytes.try_get_u32().ok()?;
    if sum != checksum(bytes) || !bytes.len().is_multiple_of(START_BYTES) {
        return None;
    }
    bytes
        .chunks(START_BYTES)
        .map(|mut start| Some(Start { epoch: start.try_get_u32().ok()?, nonce: start.try_get_u64().ok()? }))
        .collect()
}

/// Writes all starts; the oldest are dropped if there are too many.
pub(super) fn write<D: Disk>(disk: &D, directory: &Path, starts: &[Start]) -> io::Result<()> {
    let mut list = Vec::new();
    for start in &starts[starts.len().saturating_sub(STARTS_MAX)..] {
        list.put_u32(start.epoch);
        list.put_u64(start.nonce);
    }
    replace(disk, directory, NAME, &[&checksum(&list).to_be_bytes(), &list[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_back_and_damaged_ones_count_as_none() {
        let disk = crate::disk::FaultyDisk::new(1);
        let directory = Path::new("/spool");
        assert_eq!(read(&disk, directory).expect("the disk works"), []);
        let starts: Vec<Start> = (1..=5_000).map(|epoch| Start { epoch, nonce: u64::from(epoch) << 33 }).collect();
        write(&disk, directory, &starts).expect("the disk works");
        assert_eq!(read(&disk, directory).expect("the disk works"), starts[5_000 - STARTS_MAX..]);
        let bytes = disk.contents(&directory.join(NAME)).expect("it is there");
        for at in [0, 4, 100, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None);
            assert_eq!(decode(&bytes[..at]), None);
        }
    }
}

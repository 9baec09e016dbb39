//! An index next to each finished spool file: its length, sequence numbers and age, so that a start need not read the file.
//!
//! It is written after the file was synced and is optional: if an index is missing, torn or of another length, the file is read.

use bytes::{Buf as _, BufMut as _};

/// Runs of numbers in an index. A file with more has none, and is read.
const RUNS_MAX: usize = 4_096;

/// The longest index.
pub(super) const INDEX_BYTES_MAX: usize = 20 + RUNS_MAX * 16;

/// First and last of numbers in a row, as they stand in a file.
pub(super) type Runs = Vec<(u64, u64)>;

/// The bytes of an index; `None` if it would be too long.
pub(super) fn encode(length: u64, newest_us: u64, runs: &[(u64, u64)]) -> Option<Vec<u8>> {
    if runs.len() > RUNS_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(INDEX_BYTES_MAX.min(20 + runs.len() * 16));
    bytes.put_u64(length);
    bytes.put_u64(newest_us);
    for &(first, last) in runs {
        bytes.put_u64(first);
        bytes.put_u64(last);
    }
    bytes.put_u32(super::checksum(&bytes));
    Some(bytes)
}

/// Length of the file, time of its newest line, runs of numbers; `None` if the bytes are no whole index.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, u64, Runs)> {
    let (mut body, mut sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if super::checksum(body) != sum.get_u32() {
        return None;
    }
    let (length, newest_us) = (body.try_get_u64().ok()?, body.try_get_u64().ok()?);
    let mut runs = Vec::with_capacity(body.len() / 16);
    while !body.is_empty() {
        let (first, last) = (body.try_get_u64().ok()?, body.try_get_u64().ok()?);
        if first > last || last == u64::MAX {
            return None;
        }
        runs.push((first, last));
    }
    (!runs.is_empty()).then_some((length, newest_us, runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_back_and_a_torn_or_changed_one_is_not() {
        let bytes = encode(7, 8, &[(1, 4), (6, 6)]).expect("it is short");
        assert_eq!(decode(&bytes), Some((7, 8, vec![(1, 4), (6, 6)])));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "{at}");
        }
        assert_eq!(encode(0, 0, &[(1, 1); RUNS_MAX + 1]), None);
    }
}

//! The sender's identity, its number of starts, and reserved disk space for recording them.

use std::io;
use std::path::Path;

use super::routes::Routing;
use super::starts;
use super::whereabouts::{Held, WHEREABOUTS_BYTES_MAX, Whereabouts, nothing};
use super::{NUMBERS_PER_EPOCH_BITS, SenderId};
use crate::disk::{Disk, DiskFile as _, read_whole, replace};
use crate::spool::{self, checksum};
use crate::wire::Start;

/// Name of the file with the sender's identity and its number of starts.
const NAME: &str = "identity";

/// The first bytes of that file.
const MAGIC: &[u8; 4] = b"FSI2";

/// Bytes of that file, unless the spool had several collectors: then more is behind them, with a checksum of its own.
const BYTES: usize = 28;

/// The same without magic number and checksum, as it was written before there were any.
const OLD_BYTES: usize = 20;

/// The name of a file that is removed when the disk is full at a start, so that the start can be written down.
const RESERVE: &str = "reserve";

/// Bytes of that file.
const RESERVE_BYTES: usize = 128 << 10;

/// The identity of a spool.
pub(super) struct Identity {
    pub(super) id: SenderId,
    pub(super) epoch: u32,
    /// None if it never had several collectors.
    pub(super) whereabouts: Option<Whereabouts>,
    /// All starts that are remembered, this one last.
    pub(super) starts: Vec<Start>,
}

/// Reads the sender's identity, or sets it to `random`, and durably counts this start. `random` has to be drawn for each start. Drops the state of
/// collectors that are no longer configured.
pub(super) fn next<D: Disk>(disk: &D, directory: &Path, routing: &Routing, random: [u8; 16]) -> io::Result<Identity> {
    let damaged = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let path = directory.join(NAME);
    let Identity { id, epoch, mut whereabouts, .. } = match read_whole(disk, &path, BYTES + WHEREABOUTS_BYTES_MAX)? {
        Some(bytes) => read(&bytes).ok_or_else(|| {
            let path = path.display();
            damaged(format!("{path} is damaged: put it back, or move the folder away to begin with an empty spool"))
        })?,
        None if disk.names(directory)?.iter().any(|name| spool::is_file_of_lines(name)) => {
            let path = path.display();
            return Err(damaged(format!(
                "{path} is missing, but there are lines: put it back, or move the folder away to begin with an empty spool"
            )));
        }
        None => {
            let nowhere = || Whereabouts { settled: nothing(), collectors: Vec::new() };
            Identity {
                id: SenderId(random),
                epoch: 0,
                whereabouts: (routing.collectors.len() > 1).then(nowhere),
                starts: Vec::new(),
            }
        }
    };
    // 24 bits of a number are left for it.
    let epoch = epoch + 1;
    if epoch >> (u64::BITS - NUMBERS_PER_EPOCH_BITS) != 0 {
        return Err(io::Error::other("the spool was opened too often: move it away"));
    }
    let mut bytes = Vec::new();
    if let Some(whereabouts) = &mut whereabouts {
        whereabouts.collectors.retain(|one| routing.collectors.contains(&one.name));
        if let [only] = &routing.collectors[..] {
            // From now on it gets all lines, and nothing more is written down.
            whereabouts.collectors = vec![Held { name: only.clone(), is_open: true, held: nothing() }];
        }
        bytes = whereabouts.encode().ok_or_else(|| io::Error::other("there are too many gaps between lines"))?;
    }
    let mut starts = starts::read(disk, directory)?;
    // Of a folder that was put together from several copies, only starts before this one can be its own.
    starts.retain(|start| start.epoch < epoch);
    let [.., n0, n1, n2, n3, n4, n5, n6, n7] = random;
    starts.push(Start { epoch, nonce: u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]) });
    let write_all = || {
        write(disk, directory, id, epoch, &bytes)?;
        starts::write(disk, directory, &starts)
    };
    if let Err(error) = write_all() {
        if error.kind() != io::ErrorKind::StorageFull {
            return Err(error);
        }
        disk.remove(&directory.join(RESERVE))?;
        write_all()?;
    }
    // Before lines take the room.
    keep_reserve(disk, directory);
    Ok(Identity { id, epoch, whereabouts, starts })
}

/// Replaces the identity of a spool that was restored from a copy, or is one. Its lines keep their numbers and are sent as those of a relay that
/// no collector knows: lines that a collector has under the old identity are written there again.
///
/// # Errors
/// The disk's, and [`io::ErrorKind::InvalidData`] without an identity that can be read. Nothing has changed then, or only the identity.
pub fn renew_identity<D: Disk>(disk: &D, directory: &Path, random: [u8; 16]) -> io::Result<()> {
    let bytes = read_whole(disk, &directory.join(NAME), BYTES + WHEREABOUTS_BYTES_MAX)?.unwrap_or_default();
    let Identity { epoch, whereabouts, .. } = read(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    let whereabouts = whereabouts.and_then(|whereabouts| whereabouts.encode()).unwrap_or_default();
    write(disk, directory, SenderId(random), epoch, &whereabouts)?;
    starts::write(disk, directory, &[])
}

/// Takes room for the next start on a full disk. If there is none now, the next start tries again.
fn keep_reserve<D: Disk>(disk: &D, directory: &Path) {
    let path = directory.join(RESERVE);
    let length = disk.length(&path).ok().flatten().unwrap_or_default();
    let missing = RESERVE_BYTES.saturating_sub(usize::try_from(length).unwrap_or(usize::MAX));
    if missing > 0 {
        let _ = disk.append_to(&path).and_then(|mut file| file.append(&vec![0; missing]));
    }
}

fn read(bytes: &[u8]) -> Option<Identity> {
    let (identity, rest) = match bytes.strip_prefix(MAGIC) {
        Some(bytes) => {
            let (identity, rest) = bytes.split_at_checked(OLD_BYTES)?;
            let (sum, rest) = rest.split_first_chunk()?;
            (identity, Some(rest).filter(|_| u32::from_be_bytes(*sum) == checksum(identity))?)
        }
        None => bytes.split_at_checked(OLD_BYTES)?,
    };
    let (id, epoch) = identity.split_first_chunk()?;
    let epoch = u32::from_be_bytes(epoch.try_into().ok()?);
    // The first start writes 1.
    if epoch == 0 {
        return None;
    }
    let whereabouts = if rest.is_empty() { None } else { Some(Whereabouts::decode(rest)?) };
    Some(Identity { id: SenderId(*id), epoch, whereabouts, starts: Vec::new() })
}

/// Writes the sender's identity, its number of starts, and its state for several collectors.
pub(super) fn write<D: Disk>(disk: &D, directory: &Path, id: SenderId, epoch: u32, rest: &[u8]) -> io::Result<()> {
    let identity = [&id.0[..], &epoch.to_be_bytes()].concat();
    replace(disk, directory, NAME, &[&MAGIC[..], &identity, &checksum(&identity).to_be_bytes(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_back_and_a_torn_changed_or_zeroed_one_is_not() {
        let disk = crate::disk::FaultyDisk::new(1);
        write(&disk, Path::new("/s"), SenderId([7; 16]), 3, &[]).expect("the disk works");
        let bytes = disk.contents(Path::new("/s/identity")).expect("it is there");
        let identity = read(&bytes).expect("it is whole");
        assert_eq!((identity.id, identity.epoch), (SenderId([7; 16]), 3));
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_none(), "{at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_none(), "{at}");
        }
        assert!(read(&[0; BYTES]).is_none() && read(&[0; OLD_BYTES]).is_none());
        let old = [&[7; 16][..], &3_u32.to_be_bytes()].concat();
        assert_eq!(read(&old).map(|identity| identity.epoch), Some(3));
    }
}

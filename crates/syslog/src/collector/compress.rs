//! Compression of rotated files, independent of the commits.
//!
//! The journal lists a file for compression before the file gets its number, and removes it when compression is done. Nothing in between is recorded:
//! the compressed file grows under a temporary name, is synced, and is renamed; only then is the original removed. After a crash, compression starts
//! again from the beginning.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::disk::{Disk, DiskFile as _};

/// Bytes compressed as one unit that can be read by itself. Files need not fit into memory; the size overhead is negligible.
const PIECE_BYTES: usize = 4 << 20;

/// What rotated files are compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// RFC 1952: `.gz`.
    Gzip,
    /// RFC 8878: `.zst`.
    Zstd,
}

/// A file that is to be compressed.
pub struct CompressJob<D: Disk> {
    pub(super) disk: D,
    pub(super) path: PathBuf,
    pub(super) compression: Compression,
}

impl<D: Disk> CompressJob<D> {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does it. `is_over` is asked now and then whether it is to end half-way. Returns whether there was such a file.
    ///
    /// # Errors
    /// The disk's, and [`io::ErrorKind::Interrupted`]. Then it can be done again.
    pub fn run(&self, is_over: impl Fn() -> bool) -> io::Result<bool> {
        let Self { disk, path, compression } = self;
        // Compression is done, or the file was removed.
        let Some(length) = disk.length(path)? else { return Ok(false) };
        let suffixed = |suffix: &str| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
        let target = suffixed(&format!(".{}", compression.suffix()));
        let draft = suffixed(&format!(".{}{DRAFT}", compression.suffix()));
        disk.remove(&draft)?;
        let mut file = disk.append_to(&draft)?;
        let mut offset = 0;
        while offset < length {
            if is_over() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = disk.read_at(path, offset, PIECE_BYTES)?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let compressed = compression.compress(&piece)?;
            // The original goes: what takes its place must be known to hold it.
            if compression.decompress(&compressed, piece.len())? != piece {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the compressed data does not match the original",
                ));
            }
            file.append(&compressed)?;
            offset += piece.len() as u64;
        }
        file.sync()?;
        disk.rename(&draft, &target)?;
        disk.sync_directory(directory)?;
        disk.remove(path)?;
        disk.sync_directory(directory)?;
        Ok(true)
    }
}

/// Behind the name of a file that is not whole yet.
const DRAFT: &str = ".new";

/// The number behind the name of a rotated file, compressed or not. It has at least six digits.
pub(super) fn number_of(name: &str, rotated: &str) -> Option<u32> {
    let behind = rotated.strip_prefix(name)?.strip_prefix('.')?;
    let (number, suffix) = behind.split_once('.').unwrap_or((behind, ""));
    let suffix = suffix.strip_suffix(DRAFT).unwrap_or(suffix);
    let is_ours = suffix.is_empty() || Compression::ALL.iter().any(|compression| compression.suffix() == suffix);
    number.parse().ok().filter(|_| is_ours && number.len() >= 6)
}

/// Whether a file of this name could be a rotated one.
pub(super) fn is_rotated(name: &str) -> bool {
    name.match_indices('.').any(|(end, _)| number_of(&name[..end], name).is_some())
}

/// The file that a rotated one was.
pub(super) fn unrotated(rotated: &Path) -> Option<PathBuf> {
    let (name, _) = rotated.to_str()?.rsplit_once('.')?;
    Some(PathBuf::from(name))
}

impl Compression {
    const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];

    fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstd => "zst",
        }
    }

    fn compress(self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(piece)?;
                encoder.finish()
            }
            Self::Zstd => Ok(ruzstd::encoding::compress_to_vec(piece, ruzstd::encoding::CompressionLevel::Fastest)),
        }
    }

    /// Decompresses one unit of `length` bytes.
    fn decompress(self, compressed: &[u8], length: usize) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(length);
        match self {
            Self::Gzip => flate2::read::GzDecoder::new(compressed).read_to_end(&mut piece)?,
            Self::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(compressed);
                decoder.map_err(io::Error::other)?.read_to_end(&mut piece)?
            }
        };
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Crash, Faults, FaultyDisk};

    const FILE: &str = "/out/lines.000001";

    fn lines(seed: u64, bytes: usize) -> Vec<u8> {
        let mut random = seed | 1;
        let mut draw = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut text = Vec::new();
        while text.len() < bytes {
            match draw(20) {
                0 => text.extend((0..draw(300)).map(|_| u8::try_from(draw(256)).unwrap_or_default())),
                1 => text.extend(std::iter::repeat_n(b'x', usize::try_from(draw(5_000)).unwrap_or_default())),
                _ => text.extend_from_slice(
                    format!("<11>Oct 11 22:14:15 web{} app[{}]: ok\n", draw(9), draw(99_999)).as_bytes(),
                ),
            }
        }
        text
    }

    fn whole(disk: &FaultyDisk, compression: Compression, length: usize) -> Option<Vec<u8>> {
        let compressed = disk.contents(Path::new(&format!("{FILE}.{}", compression.suffix())))?;
        let mut all = Vec::new();
        match compression {
            Compression::Gzip => {
                flate2::read::MultiGzDecoder::new(&compressed[..]).read_to_end(&mut all).expect("it is whole");
            }
            Compression::Zstd => {
                let mut rest = &compressed[..];
                while !rest.is_empty() {
                    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).expect("a frame");
                    decoder.read_to_end(&mut all).expect("it is whole");
                }
            }
        }
        assert_eq!(all.len(), length);
        Some(all)
    }

    fn original(disk: &FaultyDisk, contents: &[u8]) {
        let mut file = disk.append_to(Path::new(FILE)).expect("it works");
        file.append(contents).and_then(|()| file.sync()).expect("it works");
        disk.sync_directory(Path::new("/out")).expect("it works");
    }

    #[test]
    fn a_frame_of_zstd_ends_with_its_checksum() {
        let compressed = Compression::Zstd.compress(&lines(7, 1_000)).expect("it works");
        // The flag of the checksum in the frame's descriptor (RFC 8878 §3.1.1.1.1).
        assert_ne!(compressed[4] & 4, 0);
    }

    #[test]
    fn a_file_of_several_pieces_is_read_back_by_the_formats_own_readers() {
        for compression in Compression::ALL {
            let contents = lines(7, PIECE_BYTES * 2 + 12_345);
            let disk = FaultyDisk::new(1);
            original(&disk, &contents);
            let job = CompressJob { disk: disk.clone(), path: FILE.into(), compression };
            assert_eq!(job.run(|| true).expect_err("it is over").kind(), io::ErrorKind::Interrupted);
            assert!(disk.contents(Path::new(FILE)).is_some());
            assert!(job.run(|| false).expect("it works"));
            assert!(whole(&disk, compression, contents.len()).is_some_and(|read| read == contents));
            assert_eq!(disk.paths().len(), 1, "nothing else is left");
            assert!(!job.run(|| false).expect("that there is nothing to do is no error"));
            assert_eq!(disk.paths().len(), 1);
        }
    }

    #[test]
    fn whenever_it_dies_the_lines_are_there_and_the_next_attempt_ends_it() {
        for compression in Compression::ALL {
            let mut ended = 0;
            for seed in 0..400 {
                let contents = lines(seed, 3_000);
                let mut disk = FaultyDisk::new(seed);
                original(&disk, &contents);
                for attempt in 0..200 {
                    let crash = if (seed + attempt) % 2 == 0 { Crash::Process } else { Crash::Power };
                    if attempt % 3 < 2 {
                        disk.crash_after(u32::try_from((seed + attempt) % 11).expect("small"), crash);
                    } else {
                        disk.set_faults(Faults { error_one_in: 4, bytes_max: Some(4_000) });
                    }
                    let job = CompressJob { disk: disk.clone(), path: FILE.into(), compression };
                    let done = job.run(|| false).is_ok();
                    // A power failure may undo unsynced operations.
                    disk.crash(Crash::Power);
                    disk = disk.restarted();
                    disk.set_faults(Faults::default());
                    let there = disk.contents(Path::new(FILE)).is_some_and(|bytes| bytes == contents);
                    let compressed = whole(&disk, compression, contents.len()).is_some_and(|bytes| bytes == contents);
                    assert!(there || compressed, "seed {seed}: the lines are lost");
                    if done && !there {
                        ended += 1;
                        break;
                    }
                }
            }
            assert!(ended > 390, "{ended}");
        }
    }

    #[test]
    fn a_number_is_seen_whatever_became_of_its_file() {
        for (name, number) in [
            ("lines.000007", Some(7)),
            ("lines.000007.gz", Some(7)),
            ("lines.000007.zst.new", Some(7)),
            ("lines.000007.old", None),
            ("lines.gz", None),
            ("lines.7", None),
            ("others.000007", None),
        ] {
            assert_eq!(number_of("lines", name), number, "{name}");
            assert_eq!(is_rotated(name), number.is_some() || name == "others.000007", "{name}");
        }
    }

    #[test]
    fn whatever_the_lines_are_they_are_compressed_and_read_back() {
        for seed in 0..300 {
            let contents = lines(seed, 1 + usize::try_from(seed * seed).expect("small"));
            for compression in Compression::ALL {
                let compressed = compression.compress(&contents).expect("memory takes all");
                let read = compression.decompress(&compressed, contents.len()).expect("it is whole");
                assert!(read == contents, "{compression:?} seed {seed}");
            }
        }
    }
}

//! Finished runs on disk: one file for each point and seed, found by a hash of its inputs.
//!
//! A file is written atomically, so an interrupted run resumes where it stopped, and folders of different machines are merged by copying one into the
//! other.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use festina_units::Instant;

use crate::plan::Point;
use crate::samples::{Sample, Samples, is_plain};
use festina_models::statistics::{DelayStatistics, Sums};

/// Part of every identity, so that files of another form are never read.
const FORM: &str = "festina lab run, form 3";
/// The beginning of finished runs of any form.
const ANY_FORM: &str = "festina lab run, form ";
/// How the names of finished runs end.
pub(crate) const FINISHED: &str = ".csv";
/// How the names of files end that are being written.
pub(crate) const UNFINISHED: &str = ".unfinished";
/// How the names of claims on runs end, after the name of the run's file.
pub(crate) const CLAIM: &str = ".claim";
/// How the names of the files end by which processes show that they are alive.
pub(crate) const WORKER: &str = ".worker";
/// The beginning of the last line; without it the file is not whole. The hash of all lines before follows.
const END: &str = "end ";

/// The identity of one run: experiment, code, point and seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity(String);

impl Identity {
    /// The run of `experiment`, as it is in `code_version`, at `point` with `seed`.
    pub(crate) fn new(experiment: &str, code_version: &str, point: &Point, seed: u64) -> Self {
        Self(format!("{FORM}; {experiment}; {}; seed {seed}{}", point.line(), Self::end(code_version)))
    }

    /// The end of all identities of runs of a code version.
    fn end(code_version: &str) -> String {
        format!("; code {}", code_version.escape_default())
    }

    /// The name of the run's file.
    pub(crate) fn file_name(&self) -> String {
        let mut hash = Fnv1a::default();
        hash.add(self.0.as_bytes());
        format!("{:016x}{FINISHED}", hash.value())
    }

    /// Adds the identity to a digest of several.
    pub(crate) fn add_to(&self, hash: &mut Fnv1a) {
        hash.add(self.0.as_bytes());
        hash.add(b"\n");
    }
}

/// The 64-bit FNV-1a hash, for file contents and names that are not chosen by an attacker. Two identities with the same file name overwrite each
/// other, but are never confused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Continues with `bytes`.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    }

    /// The hash of all bytes so far.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// A folder of finished runs.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder, which is made if it is missing.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self::at(folder))
    }

    /// The store in a folder, which need not exist.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Loads the measurements of a run, if they are complete.
    pub(crate) fn load(&self, identity: &Identity) -> Option<Samples> {
        let path = self.folder.join(identity.file_name());
        // Reading a pipe would never end.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        decode(identity, &fs::read_to_string(path).ok()?)
    }

    /// Stores the measurements of a run. `writer` tells processes on all machines apart: two of them may be at the same run, each writes a file of its
    /// own, and one of them stays. With `is_synced` it waits until the file is on the disk.
    pub(crate) fn save(&self, identity: &Identity, samples: &Samples, writer: &str, is_synced: bool) -> io::Result<()> {
        let name = identity.file_name();
        let unfinished = self.folder.join(format!("{name}.{writer}{UNFINISHED}"));
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(encode(identity, samples).as_bytes())?;
            // A file server may report only now that its disk is full.
            if is_synced { file.sync_data() } else { Ok(()) }
        });
        let kept = written.and_then(|()| fs::rename(&unfinished, self.folder.join(name)));
        if kept.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&unfinished);
        }
        kept
    }

    /// Removes the file of a run if its content is damaged. A file server that fails to return the content is an error, and so is something in
    /// its place that is no file.
    pub(crate) fn discard_damaged(&self, identity: &Identity) -> io::Result<()> {
        let path = self.folder.join(identity.file_name());
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other(format!("{} is no file", path.display())));
        }
        match fs::read_to_string(&path) {
            Ok(text) if decode(identity, &text).is_some() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(error),
            _ => fs::remove_file(&path),
        }
    }

    /// Removes the lab's own files from `folder` that no run of `code_version` would read. All others stay.
    pub(crate) fn prune(folder: &Path, code_version: &str) -> io::Result<Pruned> {
        let mut pruned = Pruned::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let metadata = entry.metadata()?;
            if metadata.is_file() && is_stale(&path, &name.to_string_lossy(), code_version)? {
                pruned.files += 1;
                pruned.bytes += metadata.len();
                fs::remove_file(&path)?;
            }
        }
        Ok(pruned)
    }
}

/// Files removed from a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

/// Whether the lab wrote the file, and no run of this code version reads it. Only its first line proves that.
fn is_stale(path: &Path, name: &str, code_version: &str) -> io::Result<bool> {
    /// Longer identities do not exist.
    const IDENTITY_BYTES_MAX: u64 = 1 << 16;
    if ![FINISHED, UNFINISHED, CLAIM, WORKER].iter().any(|end| name.ends_with(end)) {
        return Ok(false);
    }
    let mut line = Vec::new();
    BufReader::new(File::open(path)?.take(IDENTITY_BYTES_MAX)).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let is_run = line.starts_with(ANY_FORM);
    if name.ends_with(FINISHED) {
        let is_current = line.starts_with(FORM) && line.trim_end().ends_with(&Identity::end(code_version));
        return Ok(is_run && !is_current);
    }
    // A process that was killed may have written less than a line; then the name tells.
    let is_cut_off = ANY_FORM.starts_with(&*line) && worker_in(name).is_some();
    Ok(is_run || is_cut_off || is_worker(line.split([' ', '\n']).next().unwrap_or_default()))
}

/// Whether a text is the name of a worker.
pub(crate) fn is_worker(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The worker that an unfinished file, `RUN.csv.WORKER.unfinished`, has in its name; for claims, `RUN.csv.claim`, and workers' files,
/// `WORKER.worker`, the first part. `None` if the lab gives no such names.
pub(crate) fn worker_in(name: &str) -> Option<&str> {
    let (stem, end) = name.rsplit_once('.')?;
    let (first, last) = stem.split_once('.').unwrap_or((stem, stem));
    let worker = match end {
        "unfinished" => last.strip_prefix("csv.")?.trim_end_matches(".dead"),
        _ => first,
    };
    (is_worker(first) && is_worker(worker)).then_some(worker)
}

/// The hash of the measurements of a run.
pub(crate) fn digest(samples: &Samples) -> u64 {
    let mut hash = Fnv1a::default();
    hash.add(lines(&Identity(String::new()), samples).as_bytes());
    hash.add(b"end\n");
    hash.value()
}

fn encode(identity: &Identity, samples: &Samples) -> String {
    let text = lines(identity, samples);
    let end = end_of(&text);
    text + &end + "\n"
}

/// The last line of a file of these lines.
fn end_of(lines: &str) -> String {
    let mut hash = Fnv1a::default();
    hash.add(lines.as_bytes());
    format!("{END}{:016x}", hash.value())
}

/// The lines of a file but the last.
fn lines(identity: &Identity, samples: &Samples) -> String {
    let mut text = format!("{}\n", identity.0);
    for (name, value) in samples.values() {
        // Rust prints the shortest decimal number that reads back as the same bits.
        let _ = writeln!(text, "value,{name},{value:?}");
    }
    for (name, tally) in samples.tallies() {
        if let Some(Sums { sum_ns, sum_of_squares_s2, min_ns, max_ns }) = tally.sums() {
            let _ = writeln!(text, "tally,{name},{sum_ns},{sum_of_squares_s2:?},{min_ns},{max_ns}");
            for (delay_ns, count) in tally.buckets() {
                let _ = writeln!(text, "{count},{delay_ns}");
            }
        }
    }
    for (name, series) in samples.series() {
        let _ = writeln!(text, "series,{name}");
        for sample in series {
            let _ = writeln!(text, "{},{}", sample.sent_at.as_nanos(), sample.delay.as_nanos());
        }
    }
    text
}

fn decode(identity: &Identity, text: &str) -> Option<Samples> {
    let whole = text.strip_suffix('\n')?;
    let (text, end) = whole.split_at(whole.rfind('\n')? + 1);
    let mut lines = text.lines().peekable();
    if end != end_of(text) || lines.next() != Some(identity.0.as_str()) {
        return None;
    }
    let mut samples = Samples::new();
    while let Some(line) = lines.next() {
        let (kind, rest) = line.split_once(',')?;
        let (name, rest) = rest.split_once(',').unwrap_or((rest, ""));
        if !is_plain(name) {
            return None;
        }
        // Lines of two numbers that belong to the line before them.
        let pairs = std::iter::from_fn(|| {
            let (first, second) = lines.peek()?.split_once(',')?;
            let pair = (first.parse().ok()?, second.parse().ok()?);
            lines.next();
            Some(pair)
        });
        match kind {
            "value" => samples.set(name, rest.parse().ok().filter(|value: &f64| value.is_finite())?),
            "tally" => {
                let buckets = pairs.map(|(count, delay_ns)| (delay_ns, count));
                samples.set_tally(name, DelayStatistics::from_parts(decode_sums(rest)?, buckets)?);
            }
            "series" => {
                for (sent_ns, delay_ns) in pairs {
                    let (sent_at, delay) = (Instant::from_nanos(sent_ns), Duration::from_nanos(delay_ns));
                    samples.record(name, Sample { sent_at, delay });
                }
            }
            _ => return None,
        }
    }
    Some(samples)
}

fn decode_sums(text: &str) -> Option<Sums> {
    let mut numbers = text.split(',');
    Some(Sums {
        sum_ns: numbers.next()?.parse().ok()?,
        sum_of_squares_s2: numbers.next()?.parse().ok()?,
        min_ns: numbers.next()?.parse().ok()?,
        max_ns: numbers.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity("experiment at a point".to_owned())
    }

    fn samples() -> Samples {
        let mut samples = Samples::new();
        samples.set("share", 0.1 + 0.2);
        for delay_ns in [0, 7, u64::MAX] {
            let sample = Sample { sent_at: Instant::from_nanos(delay_ns / 2), delay: Duration::from_nanos(delay_ns) };
            samples.record("first retransmission", sample);
            samples.record("second", sample);
            samples.tally("all messages", Duration::from_nanos(delay_ns / 3));
        }
        samples
    }

    #[test]
    fn what_was_written_reads_back_to_the_last_bit() {
        assert_eq!(decode(&identity(), &encode(&identity(), &samples())), Some(samples()));
        assert_eq!(decode(&identity(), &encode(&identity(), &Samples::new())), Some(Samples::new()));
    }

    #[test]
    fn a_file_cut_off_anywhere_is_as_good_as_none() {
        let text = encode(&identity(), &samples());
        for length in 0..text.len() {
            assert_eq!(decode(&identity(), &text[..length]), None, "cut after {length} bytes");
        }
    }

    #[test]
    fn a_file_without_one_of_its_lines_or_with_another_digit_is_as_good_as_none() {
        let text = encode(&identity(), &samples());
        let lines: Vec<&str> = text.lines().collect();
        for left_out in 0..lines.len() {
            let (before, after) = (&lines[..left_out], &lines[left_out + 1..]);
            let damaged = [before, after].concat().join("\n") + "\n";
            assert_eq!(decode(&identity(), &damaged), None, "without line {left_out}");
        }
        assert_eq!(decode(&identity(), &text.replacen(",7\n", ",8\n", 1)), None);
    }

    #[test]
    fn a_tally_takes_no_more_room_for_more_messages() {
        let length = |messages: u64| {
            let mut samples = Samples::new();
            for message in 0..messages {
                samples.tally("all", Duration::from_micros(message % 1_000));
            }
            encode(&identity(), &samples).len()
        };
        assert!(length(200_000) < length(2_000) * 2);
    }

    #[test]
    fn the_file_of_another_run_is_not_taken() {
        let text = encode(&identity(), &samples());
        assert_eq!(decode(&Identity("another".to_owned()), &text), None);
    }
}

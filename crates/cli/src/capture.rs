//! A capture file that packets are written to from other threads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use festina_netsim::Admission;
use festina_trace::{InterfaceId, PcapngWriter};
use festina_units::Instant;

/// Packets are written in large pieces, so that callers rarely wait for the disk.
const BUFFER_BYTES: usize = 1 << 20;

/// Packets that wait for the secrets of their association, which are known only after its first packets were seen.
const HELD_PACKETS_MAX: usize = 1_024;

/// A capture file in the making. Clones write to the same file.
#[derive(Clone)]
pub(crate) struct CaptureFile {
    interfaces: Arc<[InterfaceId]>,
    shared: Arc<Mutex<Writing>>,
}

/// The file, and what went wrong first.
struct Writing {
    file: Option<PcapngWriter<BufWriter<File>>>,
    failure: Option<io::Error>,
    /// The latest packets, if there may be secrets.
    held: Option<VecDeque<Held>>,
}

/// A packet that is not written yet.
struct Held {
    interface: InterfaceId,
    at: Instant,
    packet: Vec<u8>,
    comment: Option<String>,
}

impl Writing {
    /// Writes something. After a failure nothing more is written, for a capture with holes would mislead.
    fn write(&mut self, write: impl FnOnce(&mut PcapngWriter<BufWriter<File>>) -> io::Result<()>) {
        let Some(file) = &mut self.file else { return };
        if let Err(failure) = write(file) {
            self.failure = Some(failure);
            self.file = None;
        }
    }

    /// Writes the oldest packets until at most `held_max` are held.
    fn release(&mut self, held_max: usize) {
        while let Some(held) = self.held.as_mut().filter(|held| held.len() > held_max)
            && let Some(Held { interface, at, packet, comment }) = held.pop_front()
        {
            self.write(|file| file.write_packet(interface, at, &packet, comment.as_deref()));
        }
    }
}

/// Commands that fail, as with a closed standard output, do not call [`CaptureFile::finish`].
impl Drop for Writing {
    fn drop(&mut self) {
        self.release(0);
    }
}

impl CaptureFile {
    /// Begins a capture with interfaces of these names.
    pub(crate) fn begin(file: File, names: &[&str]) -> io::Result<Self> {
        let mut writer = PcapngWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file))?;
        let interfaces = names.iter().map(|name| writer.add_interface(name)).collect::<io::Result<_>>()?;
        let writing = Writing { file: Some(writer), failure: None, held: None };
        Ok(Self { interfaces, shared: Arc::new(Mutex::new(writing)) })
    }

    /// Begins a capture in a new file, if one is wanted.
    pub(crate) fn create(path: Option<&Path>, names: &[&str]) -> Result<Option<Self>> {
        Self::create_by(|path| File::create(path), path, names)
    }

    /// As [`create`](Self::create), and only the file's owner can read it, even if it was there before.
    pub(crate) fn create_private(path: Option<&Path>, names: &[&str]) -> Result<Option<Self>> {
        Self::create_by(private, path, names)
    }

    fn create_by(
        create: impl FnOnce(&Path) -> io::Result<File>,
        path: Option<&Path>,
        names: &[&str],
    ) -> Result<Option<Self>> {
        let begin = |path| create(path).and_then(|file| Self::begin(file, names)).with_context(|| cannot_write(path));
        path.map(begin).transpose()
    }

    /// Makes packets wait for a moment, so that secrets stand before them in the file.
    pub(crate) fn expect_secrets(&self) {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        writing.held.get_or_insert_default();
    }

    /// Writes secrets, as lines of a key log, before the packets that wait.
    pub(crate) fn write_secrets(&self, key_log: &str) {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        writing.write(|file| file.write_secrets(key_log));
    }

    /// Writes the packet that was seen on the interface of this index.
    pub(crate) fn write(
        &self,
        interface: usize,
        at: Instant,
        packet: impl FnOnce() -> io::Result<Vec<u8>>,
        comment: Option<&str>,
    ) {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&interface) = self.interfaces.get(interface) else { return };
        if writing.file.is_none() {
            return;
        }
        match (packet(), &mut writing.held) {
            (Ok(packet), Some(held)) => {
                held.push_back(Held { interface, at, packet, comment: comment.map(str::to_owned) });
                writing.release(HELD_PACKETS_MAX);
            }
            (packet, _) => writing.write(|file| file.write_packet(interface, at, &packet?, comment)),
        }
    }

    /// Ends the capture. Later packets are ignored.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        writing.release(0);
        if let Some(failure) = writing.failure.take() {
            return Err(failure);
        }
        match writing.file.take() {
            Some(file) => file.finish().map(|_| ()),
            None => Ok(()),
        }
    }
}

/// Creates or empties a file that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // A device or a pipe is not ours to change.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// Ends the capture that was begun in this file, if there is one.
pub(crate) fn finish(capture: Option<CaptureFile>, path: Option<&Path>) -> Result<()> {
    match (capture, path) {
        (Some(capture), Some(path)) => capture.finish().with_context(|| cannot_write(path)),
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// What a capture says about a packet that was offered to a link.
pub(crate) fn fate(admission: Admission) -> Option<&'static str> {
    match admission {
        Admission::Accepted => None,
        Admission::Lost => Some("lost by the emulated network"),
        Admission::QueueDropped => Some("dropped by the full queue of the emulated network"),
        Admission::TooLarge => Some("too large for the emulated network"),
    }
}

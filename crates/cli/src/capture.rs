//! A capture file that packets are written to from other threads.

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
}

impl CaptureFile {
    /// Begins a capture with interfaces of these names.
    pub(crate) fn begin(file: File, names: &[&str]) -> io::Result<Self> {
        let mut writer = PcapngWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file))?;
        let interfaces = names.iter().map(|name| writer.add_interface(name)).collect::<io::Result<_>>()?;
        let writing = Writing { file: Some(writer), failure: None };
        Ok(Self { interfaces, shared: Arc::new(Mutex::new(writing)) })
    }

    /// Begins a capture in a new file, if one is wanted.
    pub(crate) fn create(path: Option<&Path>, names: &[&str]) -> Result<Option<Self>> {
        path.map(|path| {
            File::create(path).and_then(|file| Self::begin(file, names)).with_context(|| cannot_write(path))
        })
        .transpose()
    }

    /// Writes the packet that was seen on the interface of this index. After a failure nothing more is written, for a capture
    /// with holes would mislead.
    pub(crate) fn write(
        &self,
        interface: usize,
        at: Instant,
        packet: impl FnOnce() -> io::Result<Vec<u8>>,
        comment: Option<&str>,
    ) {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Some(interface)) = (&mut writing.file, self.interfaces.get(interface)) else {
            return;
        };
        let written = packet().and_then(|packet| file.write_packet(*interface, at, &packet, comment));
        if let Err(failure) = written {
            writing.failure = Some(failure);
            writing.file = None;
        }
    }

    /// Ends the capture. Later packets are ignored.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = writing.failure.take() {
            return Err(failure);
        }
        match writing.file.take() {
            Some(file) => file.finish().map(|_| ()),
            None => Ok(()),
        }
    }
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

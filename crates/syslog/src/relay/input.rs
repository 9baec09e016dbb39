//! Where lines come from: sockets, standard input, files that grow.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use festina_units::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::Notice;
use super::datagrams::DatagramInput;
use crate::clock;
use crate::config::{Input, InputKind};
use crate::framing::{Framer, Framing};

/// A line as it came.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) source: Bytes,
    pub(crate) line: Bytes,
    pub(crate) cut: bool,
    pub(crate) received_us: u64,
}

/// Lines that wait for the relay.
const QUEUE_LINES: u32 = 16_384;

/// Lines of a stream that are handed over together.
const BATCH_LINES: usize = 1_024;

/// TCP connections of one input.
const CONNECTIONS_MAX: usize = 4_096;

/// How long the handshake of TLS may take.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often a file is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Sources whose rates are watched at the same time; beyond it all begin anew.
const SOURCES_MAX: usize = 65_536;

/// Lines that came and went no further than the input.
#[derive(Debug, Default)]
pub(crate) struct InputCounters {
    /// Nobody took them in time.
    pub(crate) shed_overrun: AtomicU64,
    /// Their source sent too many.
    pub(crate) shed_rate: AtomicU64,
    /// Datagrams that the kernel dropped before they could be read.
    pub(crate) lost_in_kernel: AtomicU64,
}

/// Lines that came together. While it lives it takes room in the queue.
pub(crate) struct Batch {
    pub(crate) lines: Vec<Incoming>,
    _room: OwnedSemaphorePermit,
}

/// What every input needs.
#[derive(Clone)]
pub(crate) struct Intake {
    lines: mpsc::UnboundedSender<Batch>,
    /// Room for lines, which is what bounds the queue.
    room: Arc<Semaphore>,
    pub(crate) counters: Arc<InputCounters>,
    bytes_max: usize,
}

/// Opens an input and reads it in a task or thread of its own until nobody takes its lines. Returns where it listens, if at an address.
pub(crate) async fn open(input: &Input, intake: Intake, notice: &Notice) -> io::Result<Option<SocketAddr>> {
    let rate = Rate::new(input.lines_per_second_max);
    match input.kind.clone() {
        InputKind::Unix(path) => start(DatagramInput::unix(&path)?, intake, rate, notice),
        InputKind::Udp(address, buffer_bytes) => {
            start(DatagramInput::udp(address, buffer_bytes, notice)?, intake, rate, notice)
        }
        InputKind::Tcp(address, framing) => {
            let listener = TcpListener::bind(address).await?;
            let bound = listener.local_addr()?;
            tokio::spawn(accept(listener, framing, intake, input.lines_per_second_max, None));
            Ok(Some(bound))
        }
        InputKind::Tls(address, framing, server) => {
            let tls = TlsAcceptor::from(server.config().map_err(io::Error::other)?);
            let listener = TcpListener::bind(address).await?;
            let bound = listener.local_addr()?;
            tokio::spawn(accept(listener, framing, intake, input.lines_per_second_max, Some(tls)));
            Ok(Some(bound))
        }
        InputKind::Stdin => {
            let source = Bytes::from_static(b"stdin");
            tokio::spawn(async move { read_stream(tokio::io::stdin(), Framing::Newline, source, intake, rate).await });
            Ok(None)
        }
        InputKind::File(path) => {
            tokio::spawn(follow(path, intake, rate));
            Ok(None)
        }
    }
}

/// Has a thread read datagrams.
fn start(input: DatagramInput, intake: Intake, rate: Rate, notice: &Notice) -> io::Result<Option<SocketAddr>> {
    let (bound, notice) = (input.local_addr()?, Arc::clone(notice));
    let thread = std::thread::Builder::new().name("syslog-datagrams".to_owned());
    thread.spawn(move || input.read(&intake, rate, &notice))?;
    Ok(bound)
}

impl Intake {
    /// Where inputs leave lines of at most `bytes_max` bytes, and where they are taken.
    pub(crate) fn new(bytes_max: usize, counters: Arc<InputCounters>) -> (Self, mpsc::UnboundedReceiver<Batch>) {
        let (lines_in, lines) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(usize::try_from(QUEUE_LINES).unwrap_or(usize::MAX)));
        (Self { lines: lines_in, room, counters, bytes_max }, lines)
    }

    /// Whether nobody takes lines any more.
    pub(crate) fn is_over(&self) -> bool {
        self.lines.is_closed()
    }

    /// Hands lines over, waiting while there is no room: for sources that can wait. Returns whether anybody takes lines.
    async fn wait(&self, lines: Vec<Incoming>) -> bool {
        let count = u32::try_from(lines.len()).unwrap_or(QUEUE_LINES).min(QUEUE_LINES);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(count).await else { return false };
        self.lines.send(Batch { lines, _room: room }).is_ok()
    }

    /// Hands a line over, or sheds it and counts it: for sources that would lose it anyway.
    pub(super) fn offer(&self, source: Bytes, line: &[u8], rate: &mut Rate) {
        let received_us = clock::now_us();
        if !rate.allows(&source, received_us) {
            self.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            self.counters.shed_overrun.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let cut = line.len() > self.bytes_max;
        let line = Bytes::copy_from_slice(&line[..line.len().min(self.bytes_max)]);
        // A relay that is over takes nothing, and the input notices it by itself.
        let _ = self.lines.send(Batch { lines: vec![Incoming { source, line, cut, received_us }], _room: room });
    }
}

async fn accept(
    listener: TcpListener,
    framing: Framing,
    intake: Intake,
    lines_per_second_max: Option<u32>,
    tls: Option<TlsAcceptor>,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((connection, from)) => {
                let (intake, rate) = (intake.clone(), Rate::new(lines_per_second_max));
                let source = Bytes::from(from.ip().to_string());
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        None => read_stream(connection, framing, source, intake, rate).await,
                        Some(tls) => {
                            let accepted = tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(connection)).await;
                            // Who is not let in hears why from TLS.
                            if let Ok(Ok(connection)) = accepted {
                                read_stream(connection, framing, source, intake, rate).await;
                            }
                        }
                    }
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn read_stream(
    mut stream: impl AsyncRead + Unpin,
    framing: Framing,
    source: Bytes,
    intake: Intake,
    mut rate: Rate,
) {
    let mut framer = Framer::new(framing, intake.bytes_max);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = stream.read(&mut buffer).await.unwrap_or_default();
        framer.push(&buffer[..length]);
        let ended = length == 0;
        if !hand_over(&mut framer, ended, &source, &intake, &mut rate).await || ended {
            return;
        }
    }
}

/// Hands over all lines that the framer has. Returns whether anybody takes lines.
async fn hand_over(framer: &mut Framer, ended: bool, source: &Bytes, intake: &Intake, rate: &mut Rate) -> bool {
    let received_us = clock::now_us();
    let mut lines = Vec::new();
    while let Some(frame) = if ended { framer.finish() } else { framer.next_frame() } {
        if !rate.allows(source, received_us) {
            intake.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        lines.push(Incoming { source: source.clone(), line: frame.bytes, cut: frame.cut, received_us });
        if lines.len() >= BATCH_LINES && !intake.wait(std::mem::take(&mut lines)).await {
            return false;
        }
    }
    lines.is_empty() || intake.wait(lines).await
}

/// Reads what is appended to a file from now on. A file that was replaced or shortened is read from its beginning.
async fn follow(path: PathBuf, intake: Intake, mut rate: Rate) {
    let source = Bytes::from(format!("file:{}", path.display()));
    let mut framer = Framer::new(Framing::Newline, intake.bytes_max);
    let mut buffer = vec![0; 64 << 10];
    let mut file = open_at_end(&path).await;
    loop {
        while let Some((reader, offset, _)) = &mut file {
            let length = reader.read(&mut buffer).await.unwrap_or_default();
            if length == 0 {
                break;
            }
            *offset += length as u64;
            framer.push(&buffer[..length]);
            if !hand_over(&mut framer, false, &source, &intake, &mut rate).await {
                return;
            }
        }
        tokio::time::sleep(FOLLOW_EVERY).await;
        if let Ok(now) = tokio::fs::metadata(&path).await {
            let same = file.as_ref().is_some_and(|(_, offset, inode)| *inode == now.ino() && *offset <= now.len());
            if !same && let Ok(reader) = tokio::fs::File::open(&path).await {
                file = Some((reader, 0, now.ino()));
            }
        }
    }
}

async fn open_at_end(path: &Path) -> Option<(tokio::fs::File, u64, u64)> {
    let mut file = tokio::fs::File::open(path).await.ok()?;
    let inode = file.metadata().await.ok()?.ino();
    let offset = file.seek(io::SeekFrom::End(0)).await.ok()?;
    Some((file, offset, inode))
}

/// How many lines each source may send: a second's worth at once, and then as time goes by.
pub(super) struct Rate {
    per_second_max: Option<u32>,
    /// Lines that each source may still send, in millionths, and when that was so.
    sources: HashMap<Bytes, (u64, u64)>,
}

impl Rate {
    pub(super) fn new(per_second_max: Option<u32>) -> Self {
        Self { per_second_max, sources: HashMap::new() }
    }

    fn allows(&mut self, source: &Bytes, now_us: u64) -> bool {
        let Some(most) = self.per_second_max.map(u64::from) else { return true };
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(source) {
            self.sources.clear();
        }
        let full = most * 1_000_000;
        let (left, at) = self.sources.entry(source.clone()).or_insert((full, now_us));
        *left = full.min(left.saturating_add(now_us.saturating_sub(*at).saturating_mul(most)));
        *at = now_us;
        let allowed = *left >= 1_000_000;
        *left -= if allowed { 1_000_000 } else { 0 };
        allowed
    }
}

#[cfg(test)]
impl Intake {
    pub(super) fn for_tests() -> (Self, mpsc::UnboundedReceiver<Batch>) {
        Self::new(8 << 10, Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_rate_and_others_are_not_held_up_by_it() {
        let mut rate = Rate::new(Some(10));
        let (loud, quiet) = (Bytes::from_static(b"loud"), Bytes::from_static(b"quiet"));
        let allowed = (0..1_000).filter(|&line| rate.allows(&loud, line * 10_000)).count();
        assert!((105..=111).contains(&allowed), "{allowed} lines in 10 s");
        assert!(rate.allows(&quiet, 10_000_000));
    }
}

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
use tokio::net::{TcpListener, UdpSocket, UnixDatagram};
use tokio::sync::{Semaphore, mpsc};

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
pub(crate) const QUEUE_LINES: usize = 8_192;

/// TCP connections of one input.
const CONNECTIONS_MAX: usize = 4_096;

/// The largest datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// How often a file is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Sources whose rates are watched at the same time; beyond it all begin anew.
const SOURCES_MAX: usize = 65_536;

/// Lines that inputs shed because nobody took them in time, or because a source sent too many.
#[derive(Debug, Default)]
pub(crate) struct InputCounters {
    pub(crate) shed_overrun: AtomicU64,
    pub(crate) shed_rate: AtomicU64,
}

/// What every input needs.
#[derive(Clone)]
pub(crate) struct Intake {
    pub(crate) lines: mpsc::Sender<Incoming>,
    pub(crate) counters: Arc<InputCounters>,
    pub(crate) bytes_max: usize,
}

/// Opens an input and reads it in a task of its own until nobody takes its lines. Returns where it listens, if at an address.
pub(crate) async fn open(input: &Input, intake: Intake) -> io::Result<Option<SocketAddr>> {
    let rate = Rate::new(input.lines_per_second_max);
    match input.kind.clone() {
        InputKind::Unix(path) => {
            // The socket of an earlier run is in the way.
            let _ = std::fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path)?;
            tokio::spawn(read_datagrams(Datagrams::Unix(socket), intake, rate));
            Ok(None)
        }
        InputKind::Udp(address) => {
            let socket = UdpSocket::bind(address).await?;
            let bound = socket.local_addr()?;
            tokio::spawn(read_datagrams(Datagrams::Udp(socket), intake, rate));
            Ok(Some(bound))
        }
        InputKind::Tcp(address, framing) => {
            let listener = TcpListener::bind(address).await?;
            let bound = listener.local_addr()?;
            tokio::spawn(accept(listener, framing, intake, input.lines_per_second_max));
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

impl Intake {
    /// Hands a line over, waiting while there is no room: for sources that can wait. Returns whether anybody takes lines.
    async fn wait(&self, source: Bytes, line: Bytes, cut: bool, rate: &mut Rate) -> bool {
        let received_us = clock::now_us();
        if !rate.allows(&source, received_us) {
            self.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.lines.send(Incoming { source, line, cut, received_us }).await.is_ok()
    }

    /// Hands a line over, or sheds it: for sources that would lose it anyway.
    fn offer(&self, source: Bytes, line: &[u8], rate: &mut Rate) -> bool {
        let received_us = clock::now_us();
        if !rate.allows(&source, received_us) {
            self.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let cut = line.len() > self.bytes_max;
        let line = Bytes::copy_from_slice(&line[..line.len().min(self.bytes_max)]);
        match self.lines.try_send(Incoming { source, line, cut, received_us }) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.counters.shed_overrun.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

enum Datagrams {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

/// RFC 5426 §3.1: one datagram is one message. A line feed at its end is no part of it.
async fn read_datagrams(socket: Datagrams, intake: Intake, mut rate: Rate) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let received = match &socket {
            Datagrams::Udp(socket) => {
                let received = socket.recv_from(&mut buffer).await;
                received.map(|(length, from)| (length, Bytes::from(from.ip().to_string())))
            }
            Datagrams::Unix(socket) => {
                socket.recv_from(&mut buffer).await.map(|(length, _)| (length, Bytes::from_static(b"local")))
            }
        };
        match received {
            Ok((length, source)) => {
                let line = buffer[..length].trim_ascii_end();
                if !line.is_empty() && !intake.offer(source, line, &mut rate) {
                    return;
                }
            }
            // An error of an earlier send, for instance. A socket that fails for good must not spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn accept(listener: TcpListener, framing: Framing, intake: Intake, lines_per_second_max: Option<u32>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((connection, from)) => {
                let (intake, rate) = (intake.clone(), Rate::new(lines_per_second_max));
                let source = Bytes::from(from.ip().to_string());
                tokio::spawn(async move {
                    read_stream(connection, framing, source, intake, rate).await;
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
        while let Some(frame) = if ended { framer.finish() } else { framer.next_frame() } {
            if !intake.wait(source.clone(), frame.bytes, frame.cut, &mut rate).await {
                return;
            }
        }
        if ended {
            return;
        }
    }
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
            while let Some(frame) = framer.next_frame() {
                if !intake.wait(source.clone(), frame.bytes, frame.cut, &mut rate).await {
                    return;
                }
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
struct Rate {
    per_second_max: Option<u32>,
    /// Lines that each source may still send, in millionths, and when that was so.
    sources: HashMap<Bytes, (u64, u64)>,
}

impl Rate {
    fn new(per_second_max: Option<u32>) -> Self {
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

//! Outputs other than files: standard output and a TCP peer. They get each line after its commit, and at most once: lines handed over when the
//! collector ends may never reach them, but are in the files.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use festina_units::Duration;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::config::Format;
use crate::record::Record;
use crate::relay::Notice;
use crate::render;
use crate::tls::{TlsClient, TlsError};

/// Commits that wait for a slow output. Then the collector waits with it, and relays keep their lines.
const QUEUE: usize = 64;

/// Time limit for a peer to answer, and to take data.
const PEER_TIME_MAX: Duration = Duration::from_secs(5);

/// Pause after a peer failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval at which a stop is noticed while an output is slow.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// One output.
pub(super) struct Outlet {
    format: Format,
    counted: bool,
    held: Vec<u8>,
    thread: SyncSender<Vec<u8>>,
    /// The collector ends: nothing is waited for any more.
    stops: Arc<AtomicBool>,
}

impl Outlet {
    pub(super) fn stdout(format: Format, stops: Arc<AtomicBool>) -> Self {
        let (thread, lines) = sync_channel::<Vec<u8>>(QUEUE);
        std::thread::spawn(move || {
            for lines in lines {
                let mut out = io::stdout().lock();
                if out.write_all(&lines).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        });
        Self { format, counted: false, held: Vec::new(), thread, stops }
    }

    pub(super) fn forward(
        address: SocketAddr,
        tls: Option<&TlsClient>,
        format: Format,
        notice: Notice,
        stops: Arc<AtomicBool>,
    ) -> Result<Self, TlsError> {
        let tls = tls.map(TlsClient::config).transpose()?;
        let (thread, lines) = sync_channel(QUEUE);
        let of_thread = Arc::clone(&stops);
        std::thread::spawn(move || forward(&Target { address, tls }, &lines, &notice, &of_thread));
        Ok(Self { format, counted: true, held: Vec::new(), thread, stops })
    }

    /// Keeps lines until they are committed.
    pub(super) fn hold(&mut self, records: &[Record]) {
        for record in records {
            let mut line = Vec::new();
            render::render(record, self.format, &mut line);
            if self.counted {
                line.pop();
                self.held.extend_from_slice(format!("{} ", line.len()).as_bytes());
            }
            self.held.extend_from_slice(&line);
        }
    }

    /// Takes the lines held back until the next commit.
    pub(super) fn take_held(&mut self) -> Held {
        let (lines, thread, stops) = (std::mem::take(&mut self.held), self.thread.clone(), Arc::clone(&self.stops));
        Held { lines, thread, stops }
    }
}

/// Lines that an output gets once they are committed.
pub(super) struct Held {
    lines: Vec<u8>,
    thread: SyncSender<Vec<u8>>,
    stops: Arc<AtomicBool>,
}

impl Held {
    /// Hands committed lines to the output. Waits for a slow one until the collector ends.
    pub(super) fn release(self) {
        let mut lines = self.lines;
        // If its thread has ended, the output takes nothing more.
        while !lines.is_empty()
            && let Err(TrySendError::Full(refused)) = self.thread.try_send(lines)
            && !self.stops.load(Ordering::Relaxed)
        {
            lines = refused;
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Where lines are forwarded to.
struct Target {
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Target {
    fn connect(&self) -> io::Result<Box<dyn io::Write>> {
        let stream = TcpStream::connect_timeout(&self.address, PEER_TIME_MAX)?;
        stream.set_write_timeout(Some(PEER_TIME_MAX))?;
        stream.set_read_timeout(Some(PEER_TIME_MAX))?;
        let Some((config, name)) = &self.tls else { return Ok(Box::new(stream)) };
        let connection = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        // The handshake, so that a peer that is not believed is noticed before a line is handed to it.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }
}

/// RFC 6587 §3.4.1 to a peer, again and again until it takes a batch. A frame that was begun is not sent again.
fn forward(target: &Target, batches: &Receiver<Vec<u8>>, notice: &Notice, stops: &AtomicBool) {
    let mut peer: Option<Box<dyn io::Write>> = None;
    let mut told = false;
    for batch in batches {
        let mut rest = &batch[..];
        while !rest.is_empty() {
            let stream = match &mut peer {
                Some(stream) => Ok(stream),
                None => target.connect().map(|stream| peer.insert(stream)),
            };
            let (written, result) = stream.map_or_else(|error| (0, Err(error)), |stream| write(stream, rest));
            rest = &rest[frames_begun(rest, written)..];
            told &= result.is_err();
            if let Err(error) = result {
                let lost = if peer.take().is_some() { "; lines on their way may be lost" } else { "" };
                if !std::mem::replace(&mut told, true) {
                    notice(&format!("cannot forward lines to {}: {error}{lost}; retrying", target.address));
                }
                if stops.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Writes all bytes. Returns how many the stream has taken, also if it fails.
fn write(stream: &mut dyn io::Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, stream.flush())
}

/// The length of the frames whose first byte is among this many.
fn frames_begun(frames: &[u8], written: usize) -> usize {
    let mut end = 0;
    while end < written {
        let digits = frames[end..].iter().take_while(|byte| byte.is_ascii_digit());
        let (count, length) =
            digits.fold((0, 0), |(count, length), digit| (count + 1, length * 10 + usize::from(digit - b'0')));
        end += count + 1 + length;
    }
    end.min(frames.len())
}

#[cfg(test)]
mod tests;

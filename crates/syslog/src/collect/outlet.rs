//! Outputs other than files: standard output and a TCP peer. They get each line after its commit, and at most once: lines handed over when the
//! collector ends may never reach them, and lines are dropped while too many wait, but all are in the files.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use festina_units::{Duration, duration};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::pipe::{Batch, Pipe};
use crate::notice::Notice;
use crate::record::Record;
use crate::render::{self, Format};
use crate::tls::{self, TlsClient, TlsError};

/// Time limit for a peer to answer, and to take data.
const PEER_TIME_MAX: Duration = Duration::from_secs(5);

/// Pause after a peer failed.
const PAUSE: Duration = Duration::from_secs(1);

/// One output.
pub(super) struct Outlet {
    format: Format,
    counted: bool,
    held: Batch,
    pipe: Arc<Pipe>,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.pipe.close();
    }
}

impl Outlet {
    pub(super) fn stdout(format: Format, notice: Notice) -> Self {
        let pipe = Pipe::new("standard output".to_owned(), notice);
        let of_thread = Arc::clone(&pipe);
        std::thread::spawn(move || {
            while let Some(batch) = of_thread.take() {
                let mut out = io::stdout().lock();
                // Standard output cannot be opened again.
                if let Err(error) = out.write_all(&batch.bytes).and_then(|()| out.flush()) {
                    return of_thread.ends(&error.to_string());
                }
            }
        });
        Self { format, counted: false, held: Batch::default(), pipe }
    }

    pub(super) fn forward(
        address: SocketAddr,
        tls: Option<&TlsClient>,
        format: Format,
        notice: Notice,
        stops: Arc<AtomicBool>,
    ) -> Result<Self, TlsError> {
        let tls = tls.map(TlsClient::config).transpose()?;
        let pipe = Pipe::new(address.to_string(), notice);
        let of_thread = Arc::clone(&pipe);
        std::thread::spawn(move || forward(&Target { address, tls }, &of_thread, &stops));
        Ok(Self { format, counted: true, held: Batch::default(), pipe })
    }

    /// Keeps lines until they are committed.
    pub(super) fn hold(&mut self, records: &[Record]) {
        for record in records {
            let mut line = Vec::new();
            render::render(record, self.format, &mut line);
            if self.counted {
                line.pop();
                self.held.bytes.extend_from_slice(format!("{} ", line.len()).as_bytes());
            }
            self.held.bytes.extend_from_slice(&line);
            self.held.lines += 1;
        }
    }

    /// Takes the lines held back until the next commit.
    pub(super) fn take_held(&mut self) -> Held {
        Held { batch: std::mem::take(&mut self.held), pipe: Arc::clone(&self.pipe) }
    }

    /// Lines that the output did not get because too many waited for it.
    pub(super) fn dropped(&self) -> u64 {
        self.pipe.dropped()
    }
}

/// Lines that an output gets once they are committed.
pub(super) struct Held {
    batch: Batch,
    pipe: Arc<Pipe>,
}

impl Held {
    /// Hands committed lines to the output. Never waits.
    pub(super) fn release(self) {
        self.pipe.put(self.batch);
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

/// Why an output takes nothing, as a sentence.
fn cause(error: &io::Error) -> String {
    match error.kind() {
        // The time limits of the socket.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it took or sent nothing for {}", duration::display(PEER_TIME_MAX))
        }
        io::ErrorKind::WriteZero => "it takes no data".to_owned(),
        _ => tls::explain(error),
    }
}

/// RFC 6587 §3.4.1 to a peer, again and again until it takes a batch. A frame that was begun is not sent again.
fn forward(target: &Target, pipe: &Pipe, stops: &AtomicBool) {
    let mut peer: Option<Box<dyn io::Write>> = None;
    while let Some(Batch { bytes, .. }) = pipe.take() {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let stream = match &mut peer {
                Some(stream) => Ok(stream),
                None => target.connect().map(|stream| peer.insert(stream)),
            };
            let (written, result) = stream.map_or_else(|error| (0, Err(error)), |stream| write(stream, rest));
            rest = &rest[frames_begun(rest, written)..];
            let Err(error) = result else { continue };
            let lost = if peer.take().is_some() { ", and lines on their way may be lost" } else { "" };
            pipe.fails(&format!("{}{lost}", cause(&error)));
            if stops.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(PAUSE);
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

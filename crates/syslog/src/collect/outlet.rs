//! Outputs other than files: standard output and a TCP peer. They get each line after its commit, and at most once: lines handed over when the
//! collector ends may never reach them, but are in the files.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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

/// One output.
pub(super) struct Outlet {
    format: Format,
    counted: bool,
    held: Vec<u8>,
    thread: SyncSender<Vec<u8>>,
}

impl Outlet {
    pub(super) fn stdout(format: Format) -> Self {
        let (thread, lines) = sync_channel::<Vec<u8>>(QUEUE);
        std::thread::spawn(move || {
            for lines in lines {
                let mut out = io::stdout().lock();
                if out.write_all(&lines).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        });
        Self { format, counted: false, held: Vec::new(), thread }
    }

    pub(super) fn forward(
        address: SocketAddr,
        tls: Option<&TlsClient>,
        format: Format,
        notice: Notice,
    ) -> Result<Self, TlsError> {
        let tls = tls.map(TlsClient::config).transpose()?;
        let (thread, lines) = sync_channel(QUEUE);
        std::thread::spawn(move || forward(&Target { address, tls }, &lines, &notice));
        Ok(Self { format, counted: true, held: Vec::new(), thread })
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
        Held { lines: std::mem::take(&mut self.held), thread: self.thread.clone() }
    }
}

/// Lines that an output gets once they are committed.
pub(super) struct Held {
    lines: Vec<u8>,
    thread: SyncSender<Vec<u8>>,
}

impl Held {
    /// They are committed: they may go.
    pub(super) fn release(self) {
        if !self.lines.is_empty() {
            // A reader that has left wants nothing more.
            let _ = self.thread.send(self.lines);
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

/// RFC 6587 §3.4.1 to a peer, again and again until it takes a batch.
fn forward(target: &Target, batches: &Receiver<Vec<u8>>, notice: &Notice) {
    let mut peer: Option<Box<dyn io::Write>> = None;
    let mut told = false;
    for batch in batches {
        loop {
            if let Some(stream) = &mut peer
                && stream.write_all(&batch).and_then(|()| stream.flush()).is_ok()
            {
                break;
            }
            match target.connect() {
                Ok(stream) => (peer, told) = (Some(stream), false),
                Err(error) => {
                    peer = None;
                    if !told {
                        notice(&format!("cannot forward lines to {}: {error}; retrying", target.address));
                    }
                    told = true;
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

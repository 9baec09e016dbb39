//! Outputs that are no files: standard output, and a TCP peer. They get each line after it was committed, and at most once: what they were
//! given when the collector ends may be lost to them, and is in the files.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use festina_units::Duration;

use crate::config::Format;
use crate::record::Record;
use crate::relay::Notice;
use crate::render;

/// Commits that wait for a slow output. Then the collector waits with it, and relays keep their lines.
const QUEUE: usize = 64;

/// How long a peer may take to answer, and to take anything.
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
                let mut out = std::io::stdout().lock();
                if out.write_all(&lines).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        });
        Self { format, counted: false, held: Vec::new(), thread }
    }

    pub(super) fn forward(address: SocketAddr, format: Format, notice: Notice) -> Self {
        let (thread, lines) = sync_channel(QUEUE);
        std::thread::spawn(move || forward(address, &lines, &notice));
        Self { format, counted: true, held: Vec::new(), thread }
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

    /// What is held is committed: it may go.
    pub(super) fn release(&mut self) {
        if !self.held.is_empty() {
            // A reader that has left wants nothing more.
            let _ = self.thread.send(std::mem::take(&mut self.held));
        }
    }

    /// What is held will come again.
    pub(super) fn forget(&mut self) {
        self.held.clear();
    }
}

/// RFC 6587 §3.4.1 to a peer, again and again until it takes a batch.
fn forward(address: SocketAddr, batches: &Receiver<Vec<u8>>, notice: &Notice) {
    let mut peer: Option<TcpStream> = None;
    let mut told = false;
    for batch in batches {
        loop {
            if let Some(stream) = &mut peer
                && stream.write_all(&batch).is_ok()
            {
                break;
            }
            peer = TcpStream::connect_timeout(&address, PEER_TIME_MAX).ok();
            match &peer {
                Some(stream) => {
                    let _ = stream.set_write_timeout(Some(PEER_TIME_MAX));
                    told = false;
                }
                None => {
                    if !told {
                        notice(&format!("nobody takes lines at {address}; it is tried again"));
                    }
                    told = true;
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

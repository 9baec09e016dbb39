//! Input from another program, which Ctrl-C ends in good order.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::time::Instant;

use crate::signal::Requests;

/// Pieces read ahead, and their size.
const PIECES_AHEAD: usize = 16;
const PIECE_BYTES: usize = 1 << 16;
/// After a request to end, input ends when nothing has come for this long: a program in front of this one, which a terminal has interrupted as well,
/// may have more to write.
const SILENCE: Duration = Duration::from_millis(200);
/// It ends after this time also if the program goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after its end a request still does not end this program. The end of the input, which the same Ctrl-C has caused, may be noticed first.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of a pipe. While it exists, Ctrl-C ends the input and not the program.
pub(crate) struct Stream {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// The piece that is being read, and how much of it was.
    piece: Vec<u8>,
    read: usize,
    requests: Option<Requests>,
    /// When it ends, after a request.
    ends_at: Option<Instant>,
}

impl Stream {
    /// A thread of its own reads `source`, for such a read cannot be cancelled.
    pub(crate) fn new(mut source: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = sync_channel(PIECES_AHEAD);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = match source.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let piece = read.map(|length| {
                    piece.truncate(length);
                    piece
                });
                if sender.send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces, piece: Vec::new(), read: 0, requests: Some(Requests::new()), ends_at: None }
    }

    /// Returns the next piece, an empty one at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if self.ends_at.is_none() && self.requests.as_ref().is_some_and(Requests::take) {
                self.ends_at = Some(Instant::now() + PATIENCE);
            }
            if self.ends_at.is_some_and(|ends_at| Instant::now() >= ends_at) {
                return Ok(Vec::new());
            }
            match self.pieces.recv_timeout(SILENCE) {
                Ok(piece) => return piece,
                Err(RecvTimeoutError::Timeout) if self.ends_at.is_none() => {}
                Err(_) => return Ok(Vec::new()),
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            self.piece = self.next()?;
            self.read = 0;
        }
        let rest = self.piece.get(self.read..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let requests = self.requests.take();
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            drop(requests);
        });
    }
}

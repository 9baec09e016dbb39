//! Inputs: sockets, standard input, growing files.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use festina_units::Duration;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::datagrams::DatagramInput;
use super::following::{Follower, Gathered};
use super::intake::{FileBatch, Incoming, Intake, Rate};
use super::streams::{self, Connections, StreamInput};
use crate::clock;
use crate::config::InputKind;
use crate::framing::{Frame, Framing};
use crate::notice::Notice;

/// Interval between checks of a file.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Bytes of the name of a source that a record keeps.
const SOURCE_BYTES_MAX: usize = 255;

/// An input whose socket is open and is not read yet.
pub(super) enum OpenInput {
    Datagrams(DatagramInput),
    Stream(TcpListener, Framing, Option<TlsAcceptor>),
    Stdin,
    File(PathBuf),
}

impl OpenInput {
    /// Opens the socket of an input. Returns its address, too, if it listens on one.
    pub(super) async fn new(kind: &InputKind, notice: &Notice) -> io::Result<(Self, Option<SocketAddr>)> {
        let (framing, address, tls) = match kind {
            InputKind::Unix(path, mode) => return Ok((Self::Datagrams(DatagramInput::unix(path, *mode)?), None)),
            InputKind::Udp(address, buffer_bytes) => {
                let input = DatagramInput::udp(*address, *buffer_bytes, notice)?;
                let bound = input.local_addr()?;
                return Ok((Self::Datagrams(input), bound));
            }
            InputKind::Stdin => return Ok((Self::Stdin, None)),
            InputKind::File(path) => return Ok((Self::File(path.clone()), None)),
            InputKind::Tcp(address, framing) => (*framing, *address, None),
            InputKind::Tls(address, framing, server) => {
                let tls = TlsAcceptor::from(server.config().map_err(io::Error::other)?);
                (*framing, *address, Some(tls))
            }
        };
        let (listener, bound) = streams::bind(address).await?;
        Ok((Self::Stream(listener, framing, tls), Some(bound)))
    }
}

/// Shared by all inputs when they start.
pub(super) struct Reading<'a> {
    pub(super) intake: Intake,
    pub(super) notice: &'a Notice,
    /// Of all inputs over TCP.
    pub(super) connections: Arc<Connections>,
}

impl Reading<'_> {
    /// Reads an input in a task or thread of its own until the lines' receiver is gone. File inputs also need their position.
    pub(super) fn start(&self, input: OpenInput, rate_max: Option<u32>, resumed: Option<Resumed>) -> io::Result<()> {
        let (intake, notice) = (self.intake.clone(), Arc::clone(self.notice));
        let rate = Rate::new(rate_max);
        match (input, resumed) {
            (OpenInput::Datagrams(input), _) => {
                let thread = std::thread::Builder::new().name("syslog-datagrams".to_owned());
                thread.spawn(move || input.read(&intake, rate, &notice))?;
            }
            (OpenInput::Stream(listener, framing, tls), _) => {
                let connections = Arc::clone(&self.connections);
                let input = StreamInput { listener, framing, tls, lines_per_second_max: rate_max, connections, notice };
                tokio::spawn(input.accept(intake));
            }
            (OpenInput::Stdin, _) => drop(tokio::spawn(streams::read_stdin(intake, rate, notice))),
            (OpenInput::File(path), Some(Resumed { index, follower })) => {
                tokio::spawn(follow(index, follower, path, intake, rate));
            }
            (OpenInput::File(_), None) => {}
        }
        Ok(())
    }
}

/// A file input and its position.
pub(super) struct Resumed {
    /// Its number among those of this kind.
    pub(super) index: usize,
    pub(super) follower: Follower,
}

/// Follows a file until the relay stops.
async fn follow(index: usize, mut follower: Follower, path: PathBuf, intake: Intake, mut rate: Rate) {
    let source = source_of(&path);
    loop {
        let stopping = intake.is_stopping();
        let read = tokio::task::spawn_blocking(move || {
            let now_us = clock::steady_us();
            let mut gathered = follower.read(now_us);
            let ended = stopping && gathered.is_none();
            if ended {
                gathered = follower.finish(now_us);
            }
            (follower, gathered, ended)
        });
        let Ok((back, gathered, ended)) = read.await else { return };
        follower = back;
        let is_idle = gathered.is_none();
        if let Some(Gathered { lines, position }) = gathered {
            let (received_us, arrived_us) = (clock::date_us(), clock::steady_us());
            let mut incoming = Vec::new();
            for Frame { bytes: line, cut } in lines {
                if rate.allows(&source, arrived_us) {
                    incoming.push(Incoming { source: source.clone(), line, cut, received_us, arrived_us });
                } else {
                    intake.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
                }
            }
            if !intake.hand_over(FileBatch { index, lines: incoming, position }).await {
                return;
            }
        }
        if ended {
            return;
        }
        if is_idle {
            let _ = tokio::time::timeout(FOLLOW_EVERY, intake.stopping()).await;
        }
    }
}

/// The source of lines of a file.
pub(super) fn source_of(path: &Path) -> Bytes {
    let source = Bytes::from(format!("file:{}", path.display()));
    source.slice(..source.len().min(SOURCE_BYTES_MAX))
}

//! One SCTP socket of a program: its state, and the engine's end of its pair.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use festina::Endpoint;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::options::Options;
use super::peer::Peer;
use super::watched::Watched;
use super::{Engine, lock};
use crate::numbers::Errno;
use crate::wire::{Facts, HEADER_BYTES, Header, Kind, MESSAGE_BYTES_MAX, PART_BYTES_MAX, end_name, mark};

/// The send buffer of the engine's ends in bytes, as far as the system allows.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The life of a one-to-one socket; a one-to-many socket is at its beginning or listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    Listening,
    Connecting,
    Connected,
    Ended,
}

/// The own addresses of a socket.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) endpoint: Endpoint,
    /// At least one.
    pub(super) ips: Vec<IpAddr>,
    pub(super) port: u16,
}

impl Bound {
    /// The addresses. The first is the name of the socket.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.ips.iter().map(|ip| SocketAddr::new(*ip, self.port))
    }
}

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) bound: Option<Bound>,
    pub(super) options: Options,
    /// `IPV6_V6ONLY`.
    pub(super) is_ipv6_only: bool,
    /// Associations of peers are accepted.
    pub(super) listens: bool,
    /// `SO_LINGER`, if it is on.
    pub(super) linger: Option<i32>,
    /// `SO_ERROR`.
    pub(super) error: Option<Errno>,
    pub(super) peers: BTreeMap<i32, Arc<Peer>>,
    /// Messages to peers that a one-to-many socket is connecting to.
    pub(super) waiting: HashMap<SocketAddr, Vec<(Header, Bytes)>>,
    /// Tasks that end with the socket.
    pub(super) tasks: Vec<AbortHandle>,
}

/// One SCTP socket.
pub(super) struct Socket {
    pub(super) id: u64,
    /// One-to-many.
    pub(super) is_many: bool,
    pub(super) is_ipv6: bool,
    state: Mutex<State>,
    /// Nothing after the end.
    end: Mutex<Option<Arc<Watched>>>,
    /// Held from the first part of a message to the last.
    delivering: tokio::sync::Mutex<()>,
    /// Held while a datagram is handed over, or associations move to another socket.
    order: Mutex<()>,
    /// A connection attempt has finished: for the task that serves the socket.
    pub(super) settled: Notify,
    /// The same for programs that wait.
    pub(super) attempted: Notify,
}

/// What the program's end has sent.
pub(super) enum Sent {
    Datagram(Header, Bytes),
    /// Something that no library sends.
    Garbage,
    /// The program has closed its end, or its sending direction. `is_reset` if messages were left unread.
    Closed {
        is_reset: bool,
    },
}

impl Socket {
    /// Creates a socket from the engine's end of its pair.
    pub(super) fn new(
        engine: &Engine,
        id: u64,
        end: OwnedFd,
        (is_many, is_ipv6): (bool, bool),
        options: Options,
    ) -> io::Result<Arc<Self>> {
        let name = SocketAddrUnix::new_abstract_name(end_name(&engine.name, id).as_bytes())?;
        rustix::net::bind(&end, &name)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&end, SEND_BUFFER_BYTES)?;
        let end = Watched::new(end)?;
        let state = State {
            phase: Phase::Fresh,
            bound: None,
            is_ipv6_only: false,
            listens: false,
            options,
            linger: None,
            error: None,
            peers: BTreeMap::new(),
            waiting: HashMap::new(),
            tasks: Vec::new(),
        };
        let (state, end) = (Mutex::new(state), Mutex::new(Some(Arc::new(end))));
        let (delivering, order) = (tokio::sync::Mutex::default(), Mutex::default());
        let (settled, attempted) = (Notify::new(), Notify::new());
        Ok(Arc::new(Self { id, is_many, is_ipv6, state, end, delivering, order, settled, attempted }))
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether the socket takes associations with such peers.
    pub(super) fn serves(&self, remote: IpAddr) -> bool {
        if remote.to_canonical().is_ipv6() { self.is_ipv6 } else { !self.state().is_ipv6_only }
    }

    fn end(&self) -> Option<Arc<Watched>> {
        lock(&self.end).clone()
    }

    pub(super) fn facts(&self) -> Facts {
        let state = self.state();
        let streams = match state.peers.values().next() {
            Some(peer) if !self.is_many => peer.streams().0,
            _ => 0,
        };
        let mut marks = Header::new(Kind::Data);
        state.options.mark(&mut marks);
        Facts {
            is_many: self.is_many,
            is_ipv6: self.is_ipv6,
            is_listening: state.phase == Phase::Listening,
            is_connected: matches!(state.phase, Phase::Connected | Phase::Ended),
            is_connecting: state.phase == Phase::Connecting,
            data_io: marks.marks & mark::DATA_IO != 0,
            rcvinfo: marks.marks & mark::RCVINFO != 0,
            has_failed: state.phase == Phase::Ended && state.error.is_some(),
            streams,
        }
    }

    /// Waits until the program has sent something, and returns it.
    pub(super) async fn receive(&self) -> Sent {
        let Some(end) = self.end() else { return Sent::Closed { is_reset: false } };
        loop {
            // What a program sends while it connects or listens stays where it is: this keeps the socket from being writable.
            let is_held = matches!(self.state().phase, Phase::Connecting | Phase::Listening);
            let sent = match is_held {
                true if self.is_abandoned() => Some(Ok(Sent::Closed { is_reset: false })),
                true => {
                    end.forget_readable();
                    None
                }
                false => end.try_read(take),
            };
            match sent {
                Some(Ok(sent)) => return sent,
                Some(Err(_)) => return Sent::Closed { is_reset: true },
                None => {}
            }
            tokio::select! {
                () = self.settled.notified() => {}
                readable = end.readable() => if readable.is_err() {
                    return Sent::Closed { is_reset: true };
                },
            }
        }
    }

    /// Sends a datagram to the program, waiting for room.
    ///
    /// # Errors
    /// The program has closed its end.
    pub(super) async fn send(&self, header: &Header, payload: &[u8], passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_while(header, payload, passed, || true).await.map(drop)
    }

    /// As [`Self::send`], unless a condition ends meanwhile. Returns whether it was sent.
    async fn send_while(
        &self,
        header: &Header,
        payload: &[u8],
        passed: Option<BorrowedFd<'_>>,
        holds: impl Fn() -> bool,
    ) -> io::Result<bool> {
        let header = header.encode();
        let end = self.end().ok_or(io::ErrorKind::BrokenPipe)?;
        let attempt = |end: BorrowedFd<'_>| {
            let _ordered = lock(&self.order);
            if holds() { give(end, &header, payload, passed).map(|()| true) } else { Ok(false) }
        };
        end.write(attempt).await
    }

    /// Moves an association's peer to another socket, `to`, together with everything that waits for the program in `program_end`, its end of this
    /// socket's pair.
    pub(super) fn move_peer(&self, peer: &Arc<Peer>, to: &Arc<Self>, program_end: Option<&OwnedFd>) {
        let _ordered = lock(&self.order);
        peer.set_owner(to);
        self.state().peers.remove(&peer.id);
        let (Some(own), Some(other)) = (self.end(), to.end()) else { return };
        for (header, payload) in program_end.map(waiting).unwrap_or_default() {
            let end = if header.association == peer.id { &other } else { &own };
            // There was room for it before.
            let _given = give(rustix::fd::AsFd::as_fd(&**end), &header.encode(), &payload, None);
        }
    }

    /// Whether the program has closed all its descriptors of the socket, rather than its sending direction.
    pub(super) fn is_abandoned(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(end) = self.end() else { return true };
        let mut polled = [PollFd::new(&*end, PollFlags::IN)];
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&no_time)).is_err() || polled[0].revents().contains(PollFlags::HUP)
    }

    /// Closes the engine's end. The program reads the messages left, and then the end.
    pub(super) fn close(&self) {
        let end = lock(&self.end).take();
        if let Some(end) = end {
            // The task that serves the socket notices this, and lets go of the descriptor.
            let _closed = rustix::net::shutdown(&*end, Shutdown::Both);
        }
    }

    /// Ends the socket's tasks.
    pub(super) fn stop_tasks(&self) {
        self.state().tasks.drain(..).for_each(|task| task.abort());
    }
}

/// Delivers a message or notification to the program, in parts if it is large. `owner` returns the socket, which may change meanwhile. Nothing happens
/// if the program has closed it.
pub(super) async fn deliver(owner: impl Fn() -> Arc<Socket>, mut header: Header, payload: &[u8]) {
    let first = owner();
    let _whole = first.delivering.lock().await;
    let mut rest = payload;
    loop {
        let part;
        (part, rest) = rest.split_at(rest.len().min(PART_BYTES_MAX));
        if rest.is_empty() {
            header.marks |= mark::END;
        }
        loop {
            let socket = owner();
            match socket.send_while(&header, part, None, || Arc::ptr_eq(&socket, &owner())).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return,
            }
        }
        if rest.is_empty() {
            return;
        }
    }
}

/// Takes everything that waits for the program from the program's own end of a pair.
pub(super) fn waiting(program_end: &OwnedFd) -> Vec<(Header, Bytes)> {
    let mut taken = Vec::new();
    let mut buffer = vec![0; HEADER_BYTES + PART_BYTES_MAX];
    while let Ok((bytes, _)) = rustix::net::recv(program_end, buffer.as_mut_slice(), RecvFlags::DONTWAIT)
        && let Some(header) = Header::decode(&buffer[..bytes])
    {
        taken.push((header, Bytes::copy_from_slice(&buffer[HEADER_BYTES..bytes])));
    }
    taken
}

/// Receives one datagram.
fn take(end: BorrowedFd<'_>) -> io::Result<Sent> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; HEADER_BYTES + MESSAGE_BYTES_MAX + 1]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let (bytes, length) = match rustix::net::recv(end, buffer.as_mut_slice(), RecvFlags::TRUNC) {
            Err(rustix::io::Errno::CONNRESET) => return Ok(Sent::Closed { is_reset: true }),
            received => received?,
        };
        if length == 0 {
            return Ok(Sent::Closed { is_reset: false });
        }
        let received = &buffer[..bytes];
        Ok(match Header::decode(received) {
            Some(header) if length <= HEADER_BYTES + MESSAGE_BYTES_MAX => {
                Sent::Datagram(header, Bytes::copy_from_slice(&received[HEADER_BYTES..]))
            }
            _ => Sent::Garbage,
        })
    })
}

/// Sends one datagram, with a descriptor.
fn give(end: BorrowedFd<'_>, header: &[u8], payload: &[u8], passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = passed.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [IoSlice::new(header), IoSlice::new(payload)];
    rustix::net::sendmsg(end, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

//! One SCTP socket of a program: its state, and the engine's end of its pair.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
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

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) bound: Option<SocketAddr>,
    pub(super) options: Options,
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
            options,
            linger: None,
            error: None,
            peers: BTreeMap::new(),
            waiting: HashMap::new(),
            tasks: Vec::new(),
        };
        let (state, end) = (Mutex::new(state), Mutex::new(Some(Arc::new(end))));
        Ok(Arc::new(Self { id, is_many, is_ipv6, state, end, settled: Notify::new(), attempted: Notify::new() }))
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
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

    /// Delivers a message or notification to the program, in parts if it is large. Nothing happens if the program has closed the socket.
    pub(super) async fn deliver(&self, mut header: Header, payload: &[u8]) {
        let mut rest = payload;
        loop {
            let part;
            (part, rest) = rest.split_at(rest.len().min(PART_BYTES_MAX));
            if rest.is_empty() {
                header.marks |= mark::END;
            }
            if self.send(&header, part, None).await.is_err() || rest.is_empty() {
                return;
            }
        }
    }

    /// Sends a datagram to the program, waiting for room.
    ///
    /// # Errors
    /// The program has closed its end.
    pub(super) async fn send(&self, header: &Header, payload: &[u8], passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let header = header.encode();
        let end = self.end().ok_or(io::ErrorKind::BrokenPipe)?;
        end.write(|end| give(end, &header, payload, passed)).await
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

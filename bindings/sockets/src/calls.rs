//! The system calls on SCTP sockets.

use std::net::SocketAddr;
use std::os::fd::{IntoRawFd, RawFd};

use festina_sockets::numbers::{Errno, IPPROTO_SCTP, event, flag, msg, option};
use festina_sockets::wire::{Facts, HEADER_BYTES, Header, Kind, Operation, mark};
use festina_sockets::{address, ancillary};
use libc::c_int;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::boundary::{self, Parts};
use crate::client;
use crate::table::{self, Slot};

/// Largest value of an option.
pub(crate) const OPTION_BYTES_MAX: usize = 16 << 10;

/// An SCTP socket and the descriptor by which the program has named it.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    pub(crate) descriptor: RawFd,
    pub(crate) slot: &'static Slot,
    pub(crate) socket: u64,
}

/// What a call has received.
pub(crate) struct Received {
    pub(crate) bytes: usize,
    pub(crate) flags: c_int,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) control: Vec<u8>,
}

/// Creates an SCTP socket. `None` if the program wants another one, or there is no engine.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Option<Result<RawFd, c_int>> {
    if protocol != IPPROTO_SCTP || ![libc::AF_INET, libc::AF_INET6].contains(&domain) || client::engine().is_none() {
        return None;
    }
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    Some(create(domain, kind & !flags, flags))
}

fn create(domain: c_int, kind: c_int, flags: c_int) -> Result<RawFd, c_int> {
    if ![libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&kind) {
        return Err(libc::ESOCKTNOSUPPORT);
    }
    let mut wanted = SocketFlags::empty();
    wanted.set(SocketFlags::CLOEXEC, flags & libc::SOCK_CLOEXEC != 0);
    wanted.set(SocketFlags::NONBLOCK, flags & libc::SOCK_NONBLOCK != 0);
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, wanted, None);
    let (own, engines) = pair.map_err(|error| error.raw_os_error())?;
    let body = [domain.to_ne_bytes(), kind.to_ne_bytes()].concat();
    client::exchange(Operation::Create, 0, &body, Some(std::os::fd::AsFd::as_fd(&engines)))?;
    let descriptor = own.into_raw_fd();
    if !table::mark(descriptor) {
        drop(boundary::own(descriptor));
        return Err(libc::EMFILE);
    }
    Ok(descriptor)
}

/// Marks the descriptors that this program has inherited.
pub(crate) fn mark_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    for entry in entries.flatten() {
        if let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            table::mark(descriptor);
        }
    }
}

fn encode(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut body = Vec::new();
    addresses.iter().for_each(|one| address::write(*one, &mut body));
    body
}

fn one_address(bytes: &[u8]) -> Result<SocketAddr, c_int> {
    address::read(bytes).map(|(address, _)| address).ok_or(libc::EIO)
}

impl Socket {
    fn ask(&self, operation: Operation, body: &[u8]) -> Result<Vec<u8>, c_int> {
        client::ask(operation, self.socket, body)
    }

    pub(crate) fn is_many(&self) -> bool {
        self.slot.facts().is_many
    }

    pub(crate) fn bind(&self, addresses: &[SocketAddr]) -> Result<(), c_int> {
        self.ask(Operation::Bind, &encode(addresses)).map(drop)
    }

    pub(crate) fn listen(&self, backlog: c_int) -> Result<(), c_int> {
        self.ask(Operation::Listen, &backlog.to_ne_bytes())?;
        if self.slot.refresh(self.socket).is_listening {
            // Programs that ask for both directions wait for connections alone.
            self.plug();
        }
        Ok(())
    }

    /// Accepts a connection; returns its descriptor and the peer.
    pub(crate) fn accept(&self, flags: c_int) -> Result<(RawFd, Option<SocketAddr>), c_int> {
        if self.is_many() {
            return Err(libc::EOPNOTSUPP);
        }
        if !self.slot.facts().is_listening && !self.slot.refresh(self.socket).is_listening {
            return Err(libc::EINVAL);
        }
        loop {
            let mut header = [0; HEADER_BYTES];
            let (length, passed) = boundary::receive_descriptor(self.descriptor, &mut header)?;
            let Some(descriptor) = passed else {
                // No descriptor was left for it, or the engine is gone.
                return Err(if length == 0 { libc::ENETDOWN } else { libc::EMFILE });
            };
            let accepted = Header::decode(&header);
            let facts = accepted.map(|header| client::ask(Operation::Facts, header.socket, &[]));
            // A peer that has aborted meanwhile is not shown: programs take errors of new connections for their own.
            if facts.is_some_and(|facts| {
                facts.is_ok_and(|bytes| Facts::decode(&bytes).is_some_and(|facts| facts.has_failed))
            }) {
                drop(boundary::own(descriptor));
                continue;
            }
            return self.adopt(descriptor, flags, accepted.and_then(|header| header.address));
        }
    }

    /// Makes a socket of the program of an accepted one.
    fn adopt(
        &self,
        descriptor: RawFd,
        flags: c_int,
        peer: Option<SocketAddr>,
    ) -> Result<(RawFd, Option<SocketAddr>), c_int> {
        let lent = boundary::borrow(descriptor).ok_or(libc::EBADF)?;
        if flags & libc::SOCK_CLOEXEC == 0 {
            let _kept = rustix::io::fcntl_setfd(lent, rustix::io::FdFlags::empty());
        }
        if flags & libc::SOCK_NONBLOCK != 0 {
            let _kept = rustix::io::ioctl_fionbio(lent, true);
        }
        if !table::mark(descriptor) {
            drop(boundary::own(descriptor));
            return Err(libc::EMFILE);
        }
        Ok((descriptor, peer.map(|peer| address::shown(peer, self.slot.facts().is_ipv6, true))))
    }

    /// Connects. Returns the number of the association.
    pub(crate) fn connect(&self, addresses: &[SocketAddr]) -> Result<i32, c_int> {
        let body = encode(addresses);
        self.ask(Operation::Connect, &body)?;
        if !self.is_many() {
            self.plug();
            self.slot.set_facts(Facts { is_connecting: true, ..self.slot.facts() });
        }
        let lent = boundary::borrow(self.descriptor).ok_or(libc::EBADF)?;
        if rustix::fs::fcntl_getfl(lent).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK)) {
            return Err(libc::EINPROGRESS);
        }
        let association = self.ask(Operation::Connected, &body);
        self.slot.refresh(self.socket);
        Ok(association?.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes)))
    }

    /// Makes the descriptor unwritable until the engine has connected it, or for good if it listens: a Unix socket is writable while its buffer is at most a quarter full.
    fn plug(&self) {
        let Some(lent) = boundary::borrow(self.descriptor) else { return };
        let size = rustix::net::sockopt::socket_send_buffer_size(lent).unwrap_or(0);
        let header = Header::new(Kind::Plug).encode();
        let _sent =
            boundary::send_own(self.descriptor, &header, &vec![0; size / 4], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }

    pub(crate) fn local_name(&self) -> Result<SocketAddr, c_int> {
        one_address(&self.ask(Operation::LocalName, &[])?)
    }

    pub(crate) fn peer_name(&self) -> Result<SocketAddr, c_int> {
        one_address(&self.ask(Operation::PeerName, &[])?)
    }

    /// Sends a message.
    pub(crate) fn send(
        &self,
        parts: Parts<'_>,
        to: Option<SocketAddr>,
        control: &[u8],
        flags: c_int,
    ) -> Result<usize, c_int> {
        let mut header = Header::new(Kind::Data);
        ancillary::read(control, &mut header).map_err(|errno| errno as c_int)?;
        let length = parts.length();
        if length == 0 && header.flags & (flag::EOF | flag::ABORT) == 0 {
            return Err(libc::EINVAL);
        }
        if length > festina_sockets::wire::MESSAGE_BYTES_MAX {
            return Err(libc::EMSGSIZE);
        }
        header.address = to;
        let facts = self.sendable(&header)?;
        let is_known = header.marks & mark::HAS_INFO != 0 && facts.streams > 0;
        if is_known && header.stream >= facts.streams && header.stream >= self.slot.refresh(self.socket).streams {
            return Err(libc::EINVAL);
        }
        boundary::send_datagram(self.descriptor, &header.encode(), parts, flags)
    }

    /// Checks whether the socket takes messages now, and returns its facts.
    fn sendable(&self, header: &Header) -> Result<Facts, c_int> {
        let facts = self.slot.facts();
        let can_send = |facts: &Facts| facts.is_connected || facts.is_connecting && facts.streams == 0;
        if facts.is_many {
            let is_named = header.association > 0 || header.address.is_some() || header.flags & flag::SENDALL != 0;
            let is_there =
                header.association <= 0 || header.flags & flag::SENDALL != 0 || self.knows(header.association);
            return if is_named && is_there { Ok(facts) } else { Err(libc::EPIPE) };
        }
        if can_send(&facts) {
            return Ok(facts);
        }
        let facts = self.slot.refresh(self.socket);
        match header.address {
            _ if can_send(&facts) => Ok(facts),
            // The first message sets the association up.
            Some(remote) if !facts.is_listening => self.connect(&[remote]).map(|_| self.slot.facts()),
            _ => Err(libc::ENOTCONN),
        }
    }

    /// Whether a one-to-many socket has an association. One that has ended is known until the program has read of its end.
    fn knows(&self, association: i32) -> bool {
        const STATUS: c_int = 14;
        if table::is_known(association) {
            return true;
        }
        let room = c_int::try_from(OPTION_BYTES_MAX).unwrap_or(c_int::MAX);
        let body = [IPPROTO_SCTP, STATUS, room, association].map(c_int::to_ne_bytes).concat();
        let is_there = self.ask(Operation::GetOption, &body).is_ok();
        if is_there {
            table::note_known(association);
        }
        is_there
    }

    /// Receives a message, a notification, or a part of one.
    pub(crate) fn receive(&self, parts: Parts<'_>, flags: c_int) -> Result<Received, c_int> {
        loop {
            match self.try_receive(parts, flags) {
                Err(libc::EAGAIN) => {}
                // The peer's end was closed with messages in it; earlier messages can still be received.
                Err(libc::ECONNRESET) => continue,
                Ok(None) => return self.end(),
                Ok(Some(received)) => return Ok(received),
                Err(errno) => return Err(errno),
            }
            if self.slot.facts().is_listening {
                return Err(libc::ENOTCONN);
            }
            match boundary::wait_for_datagram(self.descriptor, flags) {
                Ok(_) | Err(libc::ECONNRESET) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Bytes left of the next message.
    pub(crate) fn readable_bytes(&self) -> Result<usize, c_int> {
        let _reading = self.slot.read();
        let mut header = [0; HEADER_BYTES];
        match boundary::peek(self.descriptor, &mut header, 0, Parts::NONE) {
            Ok(length) => Ok(length.saturating_sub(HEADER_BYTES + self.slot.consumed())),
            Err(libc::EAGAIN | libc::ECONNRESET) => Ok(0),
            Err(errno) => Err(errno),
        }
    }

    /// Receives without waiting; `None` at the end.
    fn try_receive(&self, parts: Parts<'_>, flags: c_int) -> Result<Option<Received>, c_int> {
        let _reading = self.slot.read();
        let consumed = self.slot.consumed();
        let mut header = [0; HEADER_BYTES];
        let length = boundary::peek(self.descriptor, &mut header, consumed, parts)?;
        if length == 0 {
            return Ok(None);
        }
        let header = Header::decode(&header).filter(|header| matches!(header.kind, Kind::Data | Kind::Notification));
        let Some(mut header) = header else {
            return Err(libc::ENOTCONN);
        };
        let rest = length.saturating_sub(HEADER_BYTES + consumed);
        let bytes = rest.min(parts.length());
        let is_whole = bytes == rest;
        if flags & libc::MSG_PEEK == 0 {
            self.slot.set_consumed(if is_whole { 0 } else { consumed + bytes });
            if is_whole {
                boundary::discard(self.descriptor);
            }
        }
        let facts = self.slot.facts();
        let mut shown = if is_whole && header.marks & mark::END != 0 { msg::EOR } else { 0 };
        let mut control = Vec::new();
        if header.kind == Kind::Notification {
            shown |= msg::NOTIFICATION;
            if header.marks & mark::ENDED != 0 {
                table::note_ended(header.association);
            }
        } else {
            let wants = |bit: u16, now: bool| now || header.marks & bit != 0;
            control =
                ancillary::write(&header, wants(mark::DATA_IO, facts.data_io), wants(mark::RCVINFO, facts.rcvinfo));
        }
        header.address = header.address.map(|peer| address::shown(peer, facts.is_ipv6, true));
        Ok(Some(Received { bytes, flags: shown, address: header.address, control }))
    }

    /// The end of the association: an error once, and then the end.
    fn end(&self) -> Result<Received, c_int> {
        match self.take_error() {
            0 => Ok(Received { bytes: 0, flags: 0, address: None, control: Vec::new() }),
            errno => Err(errno),
        }
    }

    fn take_error(&self) -> c_int {
        let asked = self.ask(Operation::TakeError, &[]);
        asked.map_or_else(|errno| errno, |bytes| bytes.first_chunk().map_or(0, |bytes| c_int::from_ne_bytes(*bytes)))
    }

    /// Sets an option, and returns what the call returns. `None` leaves it to the kernel's own socket.
    pub(crate) fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Option<Result<c_int, c_int>> {
        match (level, name) {
            (IPPROTO_SCTP, option::BINDX_ADD) => Some(self.bindx(Operation::Bind, value)),
            (IPPROTO_SCTP, option::BINDX_REM) => Some(self.bindx(Operation::Unbind, value)),
            (IPPROTO_SCTP, option::CONNECTX | option::CONNECTX_OLD) => {
                Some(address::read_all(value).ok_or(libc::EINVAL).and_then(|addresses| self.connect(&addresses)))
            }
            (libc::SOL_SOCKET, name) if name != libc::SO_LINGER => None,
            _ => Some(self.set_at_engine(level, name, value)),
        }
    }

    fn bindx(&self, operation: Operation, value: &[u8]) -> Result<c_int, c_int> {
        address::read_all(value).ok_or(libc::EINVAL)?;
        self.ask(operation, value).map(|_| 0)
    }

    fn set_at_engine(&self, level: c_int, name: c_int, value: &[u8]) -> Result<c_int, c_int> {
        if value.len() > OPTION_BYTES_MAX {
            return Err(libc::EINVAL);
        }
        let body = [&level.to_ne_bytes()[..], &name.to_ne_bytes(), value].concat();
        self.ask(Operation::SetOption, &body)?;
        const EVENTS: c_int = 11;
        const RECVRCVINFO: c_int = 32;
        if level == IPPROTO_SCTP && [EVENTS, RECVRCVINFO].contains(&name) {
            self.slot.refresh(self.socket);
        }
        Ok(0)
    }

    /// Returns what getting an option returns, and its value. `None` leaves it to the kernel's own socket.
    pub(crate) fn option(
        &self,
        level: c_int,
        name: c_int,
        given: &[u8],
        room: usize,
    ) -> Option<Result<(c_int, Vec<u8>), c_int>> {
        let number = |number: c_int| Some(Ok((0, number.to_ne_bytes().to_vec())));
        let facts = self.slot.facts();
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => number(self.take_error()),
            (libc::SOL_SOCKET, libc::SO_TYPE) => {
                number(if facts.is_many { libc::SOCK_SEQPACKET } else { libc::SOCK_STREAM })
            }
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => number(IPPROTO_SCTP),
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => number(if facts.is_ipv6 { libc::AF_INET6 } else { libc::AF_INET }),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => number(facts.is_listening.into()),
            (IPPROTO_SCTP, option::CONNECTX3) => {
                let connected =
                    address::read_all(given).ok_or(libc::EINVAL).and_then(|addresses| self.connect(&addresses));
                Some(connected.map(|association| (0, association.to_ne_bytes().to_vec())))
            }
            (IPPROTO_SCTP, option::PEELOFF | option::PEELOFF_FLAGS) => Some(self.peel_off(given).map(|own| {
                let value = [given.get(..4).unwrap_or_default(), &own.to_ne_bytes()].concat();
                (own, value)
            })),
            (libc::SOL_SOCKET, name) if name != libc::SO_LINGER => None,
            _ => {
                let room = c_int::try_from(room).unwrap_or(c_int::MAX);
                let body = [&level.to_ne_bytes()[..], &name.to_ne_bytes(), &room.to_ne_bytes(), given].concat();
                Some(self.ask(Operation::GetOption, &body).map(|value| (0, value)))
            }
        }
    }

    fn peel_off(&self, given: &[u8]) -> Result<RawFd, c_int> {
        let association = given.first_chunk::<4>().ok_or(libc::EINVAL)?;
        // The engine moves the messages that wait on this socket. No other thread reads meanwhile.
        let _reading = self.slot.read();
        let mut header = [0; HEADER_BYTES];
        let first =
            boundary::peek(self.descriptor, &mut header, 0, Parts::NONE).ok().and_then(|_| Header::decode(&header));
        let consumed = match first {
            Some(first) if first.association == i32::from_ne_bytes(*association) => self.slot.consumed(),
            _ => 0,
        };
        let lent = boundary::borrow(self.descriptor);
        let (_, passed) = client::exchange(Operation::PeelOff, self.socket, association, lent)?;
        let descriptor = passed.ok_or(libc::EMFILE)?.into_raw_fd();
        if let Some(lent) = boundary::borrow(descriptor) {
            let _kept = rustix::io::fcntl_setfd(lent, rustix::io::FdFlags::empty());
        }
        table::mark(descriptor);
        if consumed > 0
            && let Some((slot, _)) = table::find(descriptor)
        {
            slot.set_consumed(consumed);
            self.slot.set_consumed(0);
        }
        Ok(descriptor)
    }
}

const _: () = {
    assert!(Errno::EINVAL as c_int == libc::EINVAL && Errno::ECONNRESET as c_int == libc::ECONNRESET);
    assert!(event::COUNT == 14);
};

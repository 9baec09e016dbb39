//! A client's socket to the server.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

use crate::client_socket::prepare;

/// A client's socket to the server, at one of the server's addresses.
///
/// Until the server has answered, an address that refuses a datagram is followed by the next one, cyclically.
#[derive(Debug)]
pub(super) struct Upstream {
    /// Connected, so that only the server's datagrams are received. Polled by the event loop.
    pub(super) socket: UdpSocket,
    /// The index of its address.
    target: usize,
    /// `None` after the first answer, and if there is no other address.
    unanswered: Option<Unanswered>,
}

/// The latest datagram, for repetition at the next address.
#[derive(Debug)]
struct Unanswered {
    payload: Vec<u8>,
    /// Limits the repetitions, in case all addresses refuse.
    repetitions_left: usize,
}

impl Upstream {
    /// Opens a socket for the first of these addresses to which the system has a route.
    ///
    /// # Errors
    /// The error of the first address if there is no route to any, or if no socket can be opened.
    pub(super) fn connect(targets: &[SocketAddr]) -> io::Result<Self> {
        let mut first_error = None;
        for (target, addr) in targets.iter().enumerate() {
            match connect(*addr) {
                Ok(socket) => {
                    let unanswered = Unanswered { payload: Vec::new(), repetitions_left: 0 };
                    return Ok(Self { socket, target, unanswered: (targets.len() > 1).then_some(unanswered) });
                }
                Err(error) if is_out_of_descriptors(&error) => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into()))
    }

    /// Returns the address that it sends to.
    pub(super) fn target(&self, targets: &[SocketAddr]) -> Option<SocketAddr> {
        targets.get(self.target).copied()
    }

    /// Returns whether the datagram was sent.
    pub(super) fn send(&mut self, payload: &[u8], targets: &[SocketAddr]) -> bool {
        let sent = match self.socket.send(payload) {
            Ok(_) => true,
            Err(error) if is_news(&error) => {
                if is_refusal(&error) {
                    self.move_on(targets);
                }
                self.socket.send(payload).is_ok()
            }
            Err(_) => false,
        };
        if let Some(unanswered) = &mut self.unanswered {
            *unanswered = Unanswered { payload: payload.to_vec(), repetitions_left: targets.len() - 1 };
        }
        sent
    }

    /// Receives a datagram and returns its length; `Ok(None)` if an earlier datagram could not be delivered.
    ///
    /// # Errors
    /// If there is nothing to receive at present.
    pub(super) fn recv(&mut self, buffer: &mut [u8], targets: &[SocketAddr]) -> io::Result<Option<usize>> {
        match self.socket.recv(buffer) {
            Ok(len) => {
                self.unanswered = None;
                Ok(Some(len))
            }
            Err(error) if is_news(&error) => {
                if is_refusal(&error)
                    && self.move_on(targets)
                    && let Some(Unanswered { payload, repetitions_left }) = &mut self.unanswered
                    && *repetitions_left > 0
                {
                    *repetitions_left -= 1;
                    // If this fails as well, the next datagram tries again.
                    let _ = self.socket.send(payload);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes to the next address with a route, unless the server has answered. Returns whether it did.
    fn move_on(&mut self, targets: &[SocketAddr]) -> bool {
        if self.unanswered.is_none() {
            return false;
        }
        let others = (1..targets.len()).map(|step| (self.target + step) % targets.len());
        let Some((target, socket)) =
            others.into_iter().find_map(|target| Some((target, connect(targets[target]).ok()?)))
        else {
            return false;
        };
        (self.target, self.socket) = (target, socket);
        true
    }
}

/// Returns whether an error of a connected UDP socket is about an earlier datagram: an ICMP message about it becomes the error of
/// the next call of any kind, and only that one. So no error is a reason to end.
pub(super) fn is_news(error: &io::Error) -> bool {
    error.kind() != ErrorKind::WouldBlock
}

/// Returns whether the address does not take datagrams. Others, such as a datagram that is too large, do not mean that.
fn is_refusal(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied)
        || Errno::from_io_error(error) == Some(Errno::NOPROTOOPT)
}

/// Returns whether the process or the system has too many open files.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any_port_of = |ip: IpAddr| SocketAddr::new(ip, 0);
    let local = match target.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => any_port_of(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V4(_) => any_port_of(Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(ip) if ip.is_loopback() => any_port_of(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V6(_) => any_port_of(Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = UdpSocket::bind(local)?;
    prepare(&socket)?;
    socket.connect(target)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_that_an_icmp_message_causes_is_about_an_earlier_datagram() {
        for (errno, refuses) in [
            (Errno::CONNREFUSED, true),
            (Errno::HOSTUNREACH, true),
            (Errno::NETUNREACH, true),
            (Errno::ACCESS, true),
            (Errno::NOPROTOOPT, true),
            (Errno::MSGSIZE, false),
            (Errno::PROTO, false),
        ] {
            let error = io::Error::from(errno);
            assert!(is_news(&error), "{error}");
            assert_eq!(is_refusal(&error), refuses, "{error}");
        }
        assert!(!is_news(&Errno::WOULDBLOCK.into()));
    }
}

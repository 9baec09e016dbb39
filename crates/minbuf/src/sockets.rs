//! The send buffers of all TCP sockets of this network namespace, queried through `NETLINK_SOCK_DIAG` like `ss`.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use festina_units::Duration;
use socket2::{Domain, Protocol, Socket, Type};

use crate::TcpInfo;

/// Maximum number of sockets returned.
const SOCKETS_MAX: usize = 100_000;
/// Maximum number of open files of a process that are examined.
const FILES_MAX: usize = 1_000_000;
/// Timeout for an answer; the kernel normally answers at once.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Size of the receive buffer. The kernel's messages take at most half of it.
const RECEIVE_BYTES: usize = 1 << 16;

/// `linux/netlink.h`.
const NETLINK_SOCK_DIAG: i32 = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const HEADER_BYTES: usize = 16;

/// `linux/inet_diag.h`.
const REQUEST_BYTES: usize = 56;
const SOCKET_BYTES: usize = 72;
const ATTRIBUTE_INFO: u16 = 2;
const PROTOCOL_TCP: u8 = 6;
/// ESTABLISHED, FIN-WAIT-1, CLOSE-WAIT, LAST-ACK and CLOSING: the states that may still send.
const SENDING_STATES: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// The address families of sockets and of netlink, with the length of an address in bytes.
const FAMILIES: [(u8, usize); 2] = [(2, 4), (10, 16)];

/// A TCP socket of some process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedSocket {
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Inode number, as returned by [`sockets_of_process`]; 0 if no process has the socket open any more.
    pub inode: u64,
    /// The kernel's state of the connection.
    pub info: TcpInfo,
}

/// Returns all TCP sockets of the caller's network namespace that may still send, at most 100,000. Needs no privileges.
///
/// # Errors
/// If the kernel has no `inet_diag`, or the system is not Linux.
pub fn tcp_sockets() -> io::Result<Vec<ObservedSocket>> {
    let mut found = Vec::new();
    for (family, address_bytes) in FAMILIES {
        dump(family, &mut |message| found.extend(parse(message, address_bytes).filter(|_| found.len() < SOCKETS_MAX)))?;
    }
    Ok(found)
}

/// Returns the inode numbers of the sockets that the process `pid` has open.
///
/// # Errors
/// If there is no such process, or it belongs to another user.
pub fn sockets_of_process(pid: u32) -> io::Result<BTreeSet<u64>> {
    let files = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"))?;
    let links = files.take(FILES_MAX).filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    Ok(links.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect())
}

/// Requests all sockets of a family, and passes each answer's payload to `each`.
fn dump(family: u8, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "listing the sockets of a system requires Linux"));
    }
    // `AF_NETLINK` on Linux.
    let mut netlink = Socket::new(Domain::from(16), Type::DGRAM, Some(Protocol::from(NETLINK_SOCK_DIAG)))?;
    netlink.set_read_timeout(Some(ANSWER_MAX))?;
    netlink.write_all(&request(family))?;
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        let length = netlink.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        while let Some((kind, payload, after)) = next_message(rest) {
            rest = after;
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => return Err(refusal(payload)),
                SOCK_DIAG_BY_FAMILY => each(payload),
                _ => {}
            }
        }
        if length == 0 {
            return Ok(());
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    let length = u32::try_from(HEADER_BYTES + REQUEST_BYTES).unwrap_or(0);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, PROTOCOL_TCP, 1 << (ATTRIBUTE_INFO - 1), 0]);
    bytes.extend(SENDING_STATES.to_ne_bytes());
    bytes.resize(HEADER_BYTES + REQUEST_BYTES, 0);
    bytes
}

/// Splits off the first message: its kind, its payload, and the remaining bytes.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let payload = bytes.get(HEADER_BYTES..length)?;
    Some((u16_at(bytes, 4)?, payload, bytes.get(length.next_multiple_of(4)..).unwrap_or(&[])))
}

fn refusal(payload: &[u8]) -> io::Error {
    let code = u32_at(payload, 0).map_or(0, u32::cast_signed);
    let cause = io::Error::from_raw_os_error(code.saturating_neg());
    io::Error::new(
        cause.kind(),
        format!("the kernel cannot list TCP sockets (is the module tcp_diag loaded?): {cause}"),
    )
}

fn parse(message: &[u8], address_bytes: usize) -> Option<ObservedSocket> {
    let address = |port_at: usize, address_at: usize| {
        let port = message.get(port_at..port_at + 2)?;
        let bytes = message.get(address_at..address_at + address_bytes)?;
        let ip = match address_bytes {
            4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
        };
        Some(SocketAddr::new(ip, u16::from_be_bytes([port[0], port[1]])))
    };
    let mut attributes = message.get(SOCKET_BYTES..)?;
    let info = loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let payload = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == ATTRIBUTE_INFO {
            break TcpInfo::parse(payload).ok()?;
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    };
    Some(ObservedSocket { local: address(4, 8)?, peer: address(6, 24)?, inode: u32_at(message, 68)?.into(), info })
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn both_ends_of_a_connection_are_listed_with_their_backlog() {
        use std::io::Write as _;
        use std::net::{TcpListener, TcpStream};

        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            let far = listener.accept().expect("it came").0;
            near.set_nonblocking(true).expect("a socket");
            // Until the kernel's buffers are full: the peer does not read.
            while near.write(&[0; 65_536]).is_ok() {}
            let (local, peer) = (near.local_addr().expect("bound"), far.local_addr().expect("bound"));
            let sockets = tcp_sockets().expect("Linux has it");
            let found = |local, peer| sockets.iter().find(|socket| (socket.local, socket.peer) == (local, peer));
            let (ours, theirs) = (found(local, peer).expect("open"), found(peer, local).expect("open"));
            assert!(ours.info.notsent_bytes > 0 && theirs.info.notsent_bytes == 0, "{ours:?} {theirs:?}");
            let own = sockets_of_process(std::process::id()).expect("it is ours");
            assert!(own.contains(&ours.inode) && own.contains(&theirs.inode));
        }
    }

    #[test]
    fn malformed_answers_give_no_socket_and_no_panic() {
        let whole: Vec<u8> = (0..400_u16).map(|index| u8::try_from(index % 256).expect("small")).collect();
        for length in 0..whole.len() {
            let _ = (parse(&whole[..length], 16), next_message(&whole[..length]), refusal(&whole[..length]));
        }
        // A length of zero must not cause an endless loop.
        assert!(next_message(&[0; 32]).is_none());
        assert!(parse(&[0; 200], 4).is_none());
    }

    #[test]
    fn a_missing_process_is_an_error() {
        assert!(sockets_of_process(u32::MAX).is_err());
    }
}

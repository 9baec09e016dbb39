//! Datagram sockets. Each has a reader thread of its own, so that no other task delays it: the kernel drops datagrams that are not read in time.
//!
//! A UDP socket with a full buffer drops datagrams without notice. The kernel counts them in `/proc/self/net`, and the reader looks at that count
//! once a second. Programs that write to a Unix socket block instead.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use festina_units::Duration;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use super::activation::passed_datagram_socket;
use super::intake::{Intake, Rate};
use crate::clock;
use crate::notice::Notice;
use crate::unix_socket::{self, SocketName};

/// The largest datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// Interval between checks of the kernel's drop counter.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time limit of a read, and so the maximum delay of a stop.
const READ_TIME_MAX: Duration = Duration::from_millis(200);

/// The shortest time between two warnings of one input.
const WARN_EVERY_US: u64 = 60_000_000;

/// A socket and its name in messages.
pub(super) struct DatagramInput {
    socket: Socket,
    name: String,
    /// The kernel's drop count at the last check.
    lost: u32,
    /// The name of a Unix socket, removed at the end; `None` if the relay was started with the socket.
    _bound: Option<SocketName>,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl DatagramInput {
    /// Binds a UDP socket with a receive buffer of this many bytes. Warns if the kernel grants less.
    pub(super) fn udp(address: SocketAddr, buffer_bytes: u64, notice: &Notice) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let name = format!("udp {}", socket.local_addr()?);
        let wanted = usize::try_from(buffer_bytes).unwrap_or(usize::MAX);
        // Exceeding the system's limit needs a privilege.
        if setsockopt(&socket, sockopt::RcvBufForce, &wanted).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &wanted)?;
        }
        // The kernel doubles the requested size for its own bookkeeping.
        let given = getsockopt(&socket, sockopt::RcvBuf)? / 2;
        if given < wanted {
            notice(&format!(
                "{name} has a receive buffer of {given} bytes instead of {wanted}: datagrams beyond it are lost and counted; \
                 set sysctl net.core.rmem_max={wanted} to allow more"
            ));
        }
        socket.set_read_timeout(Some(READ_TIME_MAX))?;
        Ok(Self { socket: Socket::Udp(socket), name, lost: 0, _bound: None })
    }

    /// Takes the Unix socket with this path that the relay was started with, or otherwise binds one with this mode.
    pub(super) fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        let (socket, bound) = match passed_datagram_socket(path)? {
            Some(socket) => (socket, None),
            None => unix_socket::bind(path, mode).map(|(socket, bound)| (socket, Some(bound)))?,
        };
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(READ_TIME_MAX))?;
        Ok(Self { socket: Socket::Unix(socket), name: format!("unix {}", path.display()), lost: 0, _bound: bound })
    }

    /// Returns the address, if it has one.
    pub(super) fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        match &self.socket {
            Socket::Udp(socket) => socket.local_addr().map(Some),
            Socket::Unix(_) => Ok(None),
        }
    }

    /// Reads until the lines' receiver is gone (RFC 5426 §3.1: one datagram is one message). A line feed or NUL at the end is removed: C programs
    /// send their strings with it.
    pub(super) fn read(mut self, intake: &Intake, mut rate: Rate, notice: &Notice) {
        let mut buffer = vec![0; DATAGRAM_BYTES];
        let mut source = (None, Bytes::from_static(b"local"));
        let (mut looked_us, mut warned_us) = (0, 0);
        while !intake.is_over() {
            match self.receive(&mut buffer) {
                Ok((length, from)) => {
                    if from != source.0 {
                        source =
                            (from, from.map_or_else(|| Bytes::from_static(b"local"), |from| from.to_string().into()));
                    }
                    let line = trim_end(&buffer[..length]);
                    if !line.is_empty() {
                        intake.offer(source.1.clone(), line, &mut rate);
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                // An error of an earlier send, for instance. A socket that fails for good must not spin.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            let now_us = clock::steady_us();
            if now_us.abs_diff(looked_us) >= LOOK_EVERY.as_secs() * 1_000_000 {
                looked_us = now_us;
                let lost = self.newly_lost();
                intake.counters.lost_in_kernel.fetch_add(lost.into(), Ordering::Relaxed);
                if lost > 0 && now_us.abs_diff(warned_us) >= WARN_EVERY_US {
                    warned_us = now_us;
                    notice(&format!(
                        "{}: {lost} datagrams were lost because the socket's receive buffer was full",
                        self.name
                    ));
                }
            }
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
        match &self.socket {
            Socket::Udp(socket) => socket.recv_from(buffer).map(|(length, from)| (length, Some(from.ip()))),
            Socket::Unix(socket) => socket.recv(buffer).map(|length| (length, None)),
        }
    }

    /// Datagrams that the kernel has dropped since the last call.
    fn newly_lost(&mut self) -> u32 {
        let Socket::Udp(socket) = &self.socket else { return 0 };
        // Without /proc the count is unknown.
        let lost = dropped_by_kernel(socket).unwrap_or(self.lost);
        // The kernel's counter wraps after 2^32.
        lost.wrapping_sub(std::mem::replace(&mut self.lost, lost))
    }
}

/// A line without line feeds, spaces and NULs at its end.
fn trim_end(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., last] = line
        && (last.is_ascii_whitespace() || *last == 0)
    {
        line = rest;
    }
    line
}

/// Returns the number of datagrams for this socket that the kernel has dropped: full buffer, wrong checksum.
fn dropped_by_kernel(socket: &UdpSocket) -> io::Result<u32> {
    let inode = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()))?.ino();
    let table = if socket.local_addr()?.is_ipv4() { "/proc/self/net/udp" } else { "/proc/self/net/udp6" };
    drops_in(&std::fs::read_to_string(table)?, inode).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The column "drops" of the socket with this inode (Linux, `udp4_format_sock`).
fn drops_in(table: &str, inode: u64) -> Option<u32> {
    table.lines().find_map(|row| {
        let mut columns = row.split_ascii_whitespace().skip(9);
        (columns.next()?.parse() == Ok(inode)).then(|| columns.nth(2)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn silent() -> Notice {
        Arc::new(|_: &str| {})
    }

    #[test]
    fn every_datagram_that_was_sent_is_taken_or_counted_as_lost_in_the_kernel() {
        const SENT: u64 = 2_000;
        let input = DatagramInput::udp(SocketAddr::from(([127, 0, 0, 1], 0)), 16 << 10, &silent()).expect("a socket");
        let address = input.local_addr().expect("it is bound").expect("an address");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // The reader has not started, so most datagrams find the buffer full.
        for _ in 0..SENT {
            sender.send_to(&[b'x'; 250], address).expect("it is sent");
        }
        let (intake, taking) = Intake::for_tests();
        let mut lines = taking.lines;
        let counters = Arc::clone(&intake.counters);
        let reader = std::thread::spawn(move || input.read(&intake, Rate::new(None), &silent()));
        let (mut taken, mut lost) = (0, 0);
        while taken + lost < SENT {
            taken += lines.try_recv().map_or(0, |batch| batch.lines.len() as u64);
            lost = counters.lost_in_kernel.load(Ordering::Relaxed);
            std::thread::yield_now();
        }
        assert!(taken > 0 && lost > 0 && taken + lost == SENT, "{taken} taken, {lost} lost");
        drop(lines);
        reader.join().expect("it ends by itself");
    }

    #[test]
    fn whoever_runs_a_relay_hears_of_a_buffer_that_is_smaller_than_asked_for() {
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        let notice: Notice = Arc::new(move |text: &str| ears.lock().expect("whole").push(text.to_owned()));
        // More than any kernel gives.
        let _input = DatagramInput::udp(SocketAddr::from(([127, 0, 0, 1], 0)), u64::from(u32::MAX) >> 1, &notice);
        let heard = heard.lock().expect("whole");
        assert!(heard.len() == 1 && heard[0].contains("net.core.rmem_max"), "{heard:?}");
    }

    #[test]
    fn what_c_programs_send_behind_a_line_is_no_part_of_it() {
        for (sent, line) in
            [(&b"<13>x\0"[..], &b"<13>x"[..]), (b"<13>x\n\0", b"<13>x"), (b"a\0b\0\0 \r\n", b"a\0b"), (b"\0\n", b"")]
        {
            assert_eq!(trim_end(sent), line);
        }
    }

    #[test]
    fn the_row_of_a_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
                     7: 0100007F:1599 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 23\n";
        assert_eq!((drops_in(table, 4_711), drops_in(table, 1)), (Some(23), None));
    }
}

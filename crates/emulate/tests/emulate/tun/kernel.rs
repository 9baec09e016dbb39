//! The kernel's TCP in two network namespaces of their own, joined by two TUN devices.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use festina_emulate::{
    Direction, MTU_BYTES, Namespace, RunningTunPair, TapEvent, TunCounters, TunEnd, TunError, TunPair,
};
use festina_netsim::LinkConfig;
use festina_units::Instant;
use nix::sched::{CloneFlags, unshare};

/// The address of the side that opens connections.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The address of the side that accepts them.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 5_001;

/// Time between the starts of two flows.
pub(crate) const STAGGER: Duration = Duration::from_millis(100);

/// Two hosts for this test alone, and the network between them.
pub(crate) struct Network {
    client: Namespace,
    server: Namespace,
    pair: RunningTunPair,
    segments: Receiver<Segment>,
}

/// A TCP segment with data from the client, as it entered the link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Time since the Unix epoch.
    pub(crate) at: Instant,
    /// The sequence number of its first byte.
    pub(crate) sequence: u32,
}

impl Network {
    /// Makes the hosts and the network.
    ///
    /// # Errors
    /// Without the privilege to do so.
    pub(crate) fn new(forward: LinkConfig, backward: LinkConfig) -> Result<Self, TunError> {
        let end = |device: &str, address| {
            let namespace = Some(fresh_namespace().map_err(TunError::System)?);
            Ok(TunEnd { device: device.to_owned(), namespace, address, prefix_bits: 24, ipv6: None })
        };
        let (left, right) = (end("near", CLIENT)?, end("far", SERVER)?);
        let (sender, segments) = mpsc::channel();
        let pair = TunPair::create(&left, &right, MTU_BYTES, (forward, backward), 1)?
            .with_tap(Box::new(move |record| {
                let offered = matches!(record.event, TapEvent::Offered(_));
                if offered
                    && record.direction == Direction::Forward
                    && let Some(sequence) = sequence_of_data(record.packet)
                {
                    // Tests that measure no segments have dropped the receiver.
                    let _ = sender.send(Segment { at: record.at, sequence });
                }
            }))
            .spawn()
            .map_err(TunError::System)?;
        let both = "both ends are in namespaces";
        let network =
            Self { client: left.namespace.expect(both), server: right.namespace.expect(both), pair, segments };
        // A socket created with BBR, the default of some machines, always paces its segments.
        network.set("net/ipv4/tcp_congestion_control", "reno").map_err(TunError::System)?;
        // The path metrics of one connection must not help the next one.
        network.set("net/ipv4/tcp_no_metrics_save", "1").map_err(TunError::System)?;
        Ok(network)
    }

    /// Sets a kernel parameter of both hosts, whose name is a path below `/proc/sys`.
    pub(crate) fn set(&self, parameter: &str, value: &str) -> io::Result<()> {
        for host in [&self.client, &self.server] {
            host.run(|| fs::write(format!("/proc/sys/{parameter}"), value))??;
        }
        Ok(())
    }

    /// Does something on the client.
    pub(crate) fn on_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.client.run(work).expect("the namespace can be entered, as it was before")
    }

    /// Does something on the server.
    pub(crate) fn on_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.server.run(work).expect("the namespace can be entered, as it was before")
    }

    /// Returns the emulator's counters so far.
    pub(crate) fn counters(&self) -> TunCounters {
        self.pair.counters()
    }

    /// Takes the network down.
    pub(crate) fn stop(self) -> TunCounters {
        self.stop_pair().1
    }

    /// Takes the network down, but not the client.
    pub(crate) fn stop_pair(self) -> (Namespace, TunCounters) {
        (self.client, self.pair.stop().expect("the emulation has not failed"))
    }

    fn listen(&self) -> TcpListener {
        self.on_server(|| TcpListener::bind((SERVER, PORT))).expect("the server's ports are free")
    }

    fn connect(&self, congestion: &str) -> TcpStream {
        let stream = self.on_client(|| TcpStream::connect((SERVER, PORT))).expect("the server listens");
        rustix::net::sockopt::set_tcp_congestion(&stream, congestion).expect("the kernel has this controller");
        stream.set_nodelay(true).expect("a TCP socket has this option");
        stream
    }

    /// Returns the bytes that each of `flows` greedy connections carried within `duration` after the start of the last.
    pub(crate) fn greedy(&self, flows: usize, congestion: &str, duration: Duration) -> Vec<u64> {
        let listener = self.listen();
        let mut received = Vec::new();
        let mut connections = Vec::new();
        for _ in 0..flows {
            let stream = self.connect(congestion);
            let (accepted, _) = listener.accept().expect("the client has connected");
            let count = Arc::new(AtomicU64::new(0));
            received.push(count.clone());
            connections.push(stream.try_clone().expect("a socket can be shared"));
            thread::spawn(move || read_all(accepted, &count));
            thread::spawn(move || write_until_closed(stream));
            thread::sleep(STAGGER);
        }
        let counts = || received.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = counts();
        thread::sleep(duration);
        let after = counts();
        for connection in connections {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        after.iter().zip(before).map(|(after, before)| after - before).collect()
    }

    /// Makes these writes on one connection, given by the time since the first and the size. Returns every segment sent
    /// until the server has read everything, and for another `quiet`.
    pub(crate) fn scripted(&self, congestion: &str, writes: &[(Duration, usize)], quiet: Duration) -> Vec<Segment> {
        let listener = self.listen();
        let mut stream = self.connect(congestion);
        let (mut accepted, _) = listener.accept().expect("the client has connected");
        let total: usize = writes.iter().map(|(_, bytes)| bytes).sum();
        let reader = thread::spawn(move || accepted.read_exact(&mut vec![0; total]));
        let began_at = now();
        for (after, bytes) in writes {
            thread::sleep(after.saturating_sub(began_at.elapsed()));
            stream.write_all(&vec![0; *bytes]).expect("the connection is open");
        }
        reader.join().expect("the reader does not panic").expect("everything arrives");
        thread::sleep(quiet);
        self.segments.try_iter().collect()
    }

    /// Returns the round-trip times of `count` echo requests (ICMP).
    pub(crate) fn ping(&self, count: u16) -> Vec<Duration> {
        let protocol = Some(socket2::Protocol::ICMPV4);
        let socket = self
            .on_client(|| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, protocol))
            .expect("a user who may make TUN devices may ping");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("sockets have timeouts");
        socket.connect(&SocketAddr::from((SERVER, 0)).into()).expect("there is a route");
        (0..count).map(|number| ping_once(&socket, number)).collect()
    }
}

fn ping_once(mut socket: &socket2::Socket, number: u16) -> Duration {
    const REQUEST: u8 = 8;
    let [high, low] = number.to_be_bytes();
    let checksum = !(u16::from(REQUEST) << 8).wrapping_add(number);
    let [check_high, check_low] = checksum.to_be_bytes();
    let request = [REQUEST, 0, check_high, check_low, 0, 0, high, low];
    let sent_at = now();
    socket.write_all(&request).expect("a request can be sent");
    loop {
        let mut answer = [0; 64];
        let len = socket.read(&mut answer).expect("an answer in time");
        // Behind the IP header: type 0 is an answer.
        if answer.get(20..len).is_some_and(|icmp| icmp.first() == Some(&0) && icmp.get(6..8) == Some(&[high, low])) {
            return sent_at.elapsed();
        }
    }
}

/// A namespace for this test alone.
fn fresh_namespace() -> io::Result<Namespace> {
    let made = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Namespace::current()
    });
    made.join().expect("the thread does not panic")
}

fn read_all(mut stream: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}

fn write_until_closed(mut stream: TcpStream) {
    let data = vec![0; 64 << 10];
    while stream.write_all(&data).is_ok() {}
}

/// The sequence number of the TCP segment in an IPv4 packet; `None` if it carries no data.
fn sequence_of_data(packet: &[u8]) -> Option<u32> {
    const TCP: u8 = 6;
    if packet.get(9) != Some(&TCP) {
        return None;
    }
    let ip_header_bytes = usize::from(packet.first()? & 0xf) * 4;
    let tcp = packet.get(ip_header_bytes..)?;
    let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let bytes = tcp.len().checked_sub(usize::from(tcp.get(12)? >> 4) * 4)?;
    (bytes > 0).then_some(sequence)
}

#[expect(clippy::disallowed_methods, reason = "these measurements are on a real clock")]
pub(crate) fn now() -> StdInstant {
    StdInstant::now()
}

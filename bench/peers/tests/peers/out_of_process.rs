//! Festina's endpoint against usrsctp and pion over UDP on the loopback interface. The programs are in `interop/`.
//!
//! `FESTINA_INTEROP_DIR` names the folder where they have been built. Without it the tests build them, which needs a C compiler,
//! libusrsctp-dev and Go; where those are missing the tests say so and prove nothing, except in continuous integration (`CI` is
//! set), where they fail.

mod failover;
mod marks;
mod resets;

use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use bytes::Bytes;
use festina::{
    Abandoned, Association, ClientConfig, ClosedReason, ConnectOptions, Endpoint, Expiry, Message, ServerConfig,
    Transport,
};
use festina_bench_peers::programs;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The SCTP port of the programs.
const SCTP_PORT: u16 = 5000;
/// Payload protocol identifier of binary WebRTC messages, the one that the programs expect.
const PPID_BINARY: u32 = 53;
/// Message sizes in bytes, from one byte to about a megabyte.
const SIZES: [usize; 7] = [1, 7, 100, 1_200, 5_000, 70_000, 1_000_000];
/// Messages of each run.
const MESSAGES: usize = 70;
/// Bytes under way at most: the programs read nothing while they block in sending.
const OUTSTANDING_BYTES_MAX: usize = 128 << 10;
/// Streams from here on carry unordered messages.
const FIRST_UNORDERED_STREAM: u16 = 4;
const STREAMS: usize = 4;
/// Where one packet in five is lost each way, the other stacks' timeouts double up to a minute now and then.
const TIME_MAX: Duration = Duration::from_secs(600);
/// So that more important messages evict others.
const SEND_BUFFER_SMALL_BYTES: usize = 16 << 10;

/// The folder with the programs, built once; `None` if this machine cannot build them.
fn programs() -> Option<PathBuf> {
    let built = programs::folder("usrsctp").and_then(|_| programs::folder("pion"));
    built
        .inspect_err(|error| {
            assert!(std::env::var_os("CI").is_none(), "the peers cannot be built: {error}");
            eprintln!("nothing was tested, for the peers cannot be built: {error}");
        })
        .ok()
}

/// A running program, ended with the test.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(path: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        Program { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().and_then(Result::ok).unwrap_or_else(|| "no output".into())
    }

    /// The server's UDP address.
    fn address(&mut self) -> SocketAddr {
        let line = self.line();
        let port = line.strip_prefix("LISTENING ").and_then(|port| port.parse::<u16>().ok());
        SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_else(|| panic!("the server said: {line}"))))
    }

    fn ends_well(mut self) {
        assert_eq!(self.line(), format!("OK n={MESSAGES}"));
        assert!(self.child.wait().expect("it was not waited for before").success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has usually ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(index: usize, unordered: bool) -> Message {
    let content = (0..SIZES[index % SIZES.len()]).map(|i| (index * 31 + i * 7 + (i >> 8)).to_le_bytes()[0]);
    let stream = u16::try_from(index % STREAMS).unwrap_or(0) + if unordered { FIRST_UNORDERED_STREAM } else { 0 };
    let message = Message::new(content.collect::<Bytes>()).on_stream(stream).with_ppid(PPID_BINARY);
    message.unordered_if(unordered)
}

/// Festina connects, sends, compares the echoes, and shuts down.
async fn festina_as_client(peer: &str, unordered: bool, transport: Transport) {
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join(peer), &["server", "0"]);
    let config = ClientConfig::plain().with_transport(transport);
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)), config).await.expect("loopback is free");
    let options = ConnectOptions::default().peer_port(SCTP_PORT).local_port(SCTP_PORT);
    let association = endpoint.connect_with(server.address(), options).await.expect("the peer answers");

    let mut waiting: Vec<Message> = Vec::new();
    let mut to_send = (0..MESSAGES).map(|index| message(index, unordered)).peekable();
    for _ in 0..MESSAGES {
        while let Some(next) = to_send.peek() {
            let outstanding: usize = waiting.iter().map(|message| message.payload().len()).sum();
            if !waiting.is_empty() && outstanding + next.payload().len() > OUTSTANDING_BYTES_MAX {
                break;
            }
            let next = to_send.next().expect("it was peeked at");
            association.send(next.clone()).await.expect("the association lives");
            waiting.push(next);
        }
        let echo = association.recv().await.ok().flatten().expect("an echo is outstanding");
        assert_eq!((echo.ppid(), echo.is_unordered()), (PPID_BINARY, unordered));
        let candidate = waiting
            .iter()
            .position(|message| {
                message.stream() == echo.stream() && (!unordered || message.payload() == echo.payload())
            })
            .expect("a message of this stream is outstanding");
        assert!(
            waiting.remove(candidate).payload() == echo.payload(),
            "an echo of {} bytes is wrong",
            echo.payload().len()
        );
    }
    association.shutdown().await.expect("the peer shuts down gracefully");
    assert_eq!(association.closed().await, ClosedReason::Shutdown);
    server.ends_well();
}

/// Festina accepts and echoes; the program compares and shuts down.
async fn festina_as_server(peer: &str, unordered: bool, transport: Transport) {
    let Some(programs) = programs() else { return };
    let config = ServerConfig::plain().with_transport(transport);
    let endpoint = Endpoint::server(SocketAddr::from(([127, 0, 0, 1], 0)), config).await.expect("loopback is free");
    let listener = endpoint.listen(SCTP_PORT).expect("the port is free");
    let sizes: Vec<String> = SIZES.iter().map(usize::to_string).collect();
    let (port, count, sizes) = (endpoint.local_addr().port().to_string(), MESSAGES.to_string(), sizes.join(","));
    let mode = if unordered { "unordered" } else { "ordered" };
    let client = Program::start(&programs.join(peer), &["client", &port, &count, &sizes, mode]);

    let association = listener.accept().await.expect("the endpoint is open");
    let mut echoed = 0;
    while let Ok(Some(received)) = association.recv().await {
        assert_eq!((received.ppid(), received.is_unordered()), (PPID_BINARY, unordered));
        association.send(received).await.expect("the association lives");
        echoed += 1;
    }
    assert_eq!(echoed, MESSAGES);
    assert_eq!(association.closed().await, ClosedReason::Shutdown);
    client.ends_well();
}

/// Returns whether a packet is to be lost.
type Loss = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// Loses one packet in `count`, chosen by the seed; none if `count` is 0.
fn one_in(count: u64, seed: u64) -> Loss {
    let mut state = seed;
    Box::new(move |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        count > 0 && (state >> 33).is_multiple_of(count)
    })
}

/// Loses each packet that contains a text.
fn containing(text: &'static [u8]) -> Loss {
    Box::new(move |packet| packet.windows(text.len()).any(|window| window == text))
}

/// Carries packets between one client and a server, and loses some.
struct LossyRelay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl LossyRelay {
    fn start(server: SocketAddr, to_server: Loss, to_client: Loss) -> Self {
        let bind = || {
            let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("loopback is free");
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time above zero");
            Arc::new(socket)
        };
        let (front, back) = (bind(), bind());
        let address = front.local_addr().expect("it is bound");
        let (stop, client_port) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU16::new(0)));
        for (from, to, is_back, mut is_lost) in [(&front, &back, false, to_server), (&back, &front, true, to_client)] {
            let (from, to, stop, client_port) = (from.clone(), to.clone(), stop.clone(), client_port.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((len, sender)) = from.recv_from(&mut buffer) else { continue };
                    if !is_back {
                        client_port.store(sender.port(), Ordering::Relaxed);
                    }
                    let client = SocketAddr::from(([127, 0, 0, 1], client_port.load(Ordering::Relaxed)));
                    if !is_lost(&buffer[..len]) {
                        let _unsent = to.send_to(&buffer[..len], if is_back { client } else { server });
                    }
                }
            });
        }
        Self { address, stop }
    }
}

impl Drop for LossyRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Which streams carry the messages of `partially_reliable`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Streams {
    /// Each of the eight carries all kinds of messages.
    Mixed,
    /// Each is begun by a reliable message, and carries either ordered messages or unordered ones, as pion needs it.
    OneModeEach,
}

/// How messages with policies go to and fro.
#[derive(Clone, Copy, Debug)]
struct Way {
    peer: &'static str,
    streams: Streams,
    /// All messages in order, or all without; `None` for one in six without.
    unordered: Option<bool>,
    interleaving: bool,
    /// When Festina looks at lifetimes.
    expiry: Expiry,
    /// One packet in this many is lost, in either direction; 0 loses none.
    one_lost_in: u64,
    seed: u64,
}

/// Reliable and five policies, in turn.
const POLICIES: u32 = 6;
/// Each is begun by a reliable message.
const STREAMS_BEGUN: u32 = 8;

impl Way {
    fn message(&self, number: u32) -> Message {
        let unordered = self.unordered.unwrap_or(number % POLICIES == 3);
        let stream = match self.streams {
            Streams::Mixed => number % STREAMS_BEGUN,
            Streams::OneModeEach => number % 4 + if unordered { u32::from(FIRST_UNORDERED_STREAM) } else { 0 },
        };
        let message = numbered(number, if number.is_multiple_of(7) { 4_000 } else { 60 })
            .on_stream(u16::try_from(stream).expect("few streams"));
        let message = match number % POLICIES {
            0 => message,
            1 => message.with_max_retransmissions(0),
            2 => message.with_lifetime(Duration::from_millis(20)),
            3 => message.with_lifetime(Duration::from_millis(5)).with_max_retransmissions(1),
            4 => message.with_priority(u16::try_from(number % 5).expect("it is small")),
            _ => message.replacing(3),
        };
        message.unordered_if(unordered)
    }
}

fn numbered(number: u32, len: usize) -> Message {
    Message::new([&number.to_be_bytes()[..], &vec![7; len]].concat()).with_ppid(PPID_BINARY)
}

/// Counts the echoes of reliable messages until the association is over.
fn read_echoes(association: &Association) -> (watch::Receiver<u32>, JoinHandle<()>) {
    let (counting, reliable) = watch::channel(0);
    let association = association.clone();
    let reading = tokio::spawn(async move {
        while let Ok(Some(echo)) = association.recv().await {
            let number = u32::from_be_bytes(*echo.payload().first_chunk().expect("a number is in front"));
            counting.send_modify(|reliable| *reliable += u32::from(number.is_multiple_of(POLICIES)));
        }
    });
    (reliable, reading)
}

/// Messages with every policy, to a peer that echoes what arrives. The association ends in good order, and every message without a policy
/// comes back.
async fn partially_reliable(way: Way) {
    let Some(programs) = programs() else { return };
    // A program takes ten minutes at most, and with many losses every echo waits for timeouts.
    let count: u32 = if way.one_lost_in > 0 && way.one_lost_in < 10 { 60 } else { 600 };
    // pion offers I-DATA always, and has no such argument.
    let arguments: &[&str] = if way.interleaving && way.peer == "usrsctp-peer" {
        &["server", "0", "interleaving"]
    } else {
        &["server", "0"]
    };
    let mut server = Program::start(&programs.join(way.peer), arguments);
    let loss = |direction| one_in(way.one_lost_in, way.seed + direction);
    let relay = LossyRelay::start(server.address(), loss(1), loss(2));
    let config = persistent()
        .with_interleaving(way.interleaving)
        .with_send_buffer_bytes(SEND_BUFFER_SMALL_BYTES)
        .with_expert(|expert| expert.with_expiry(way.expiry).with_send_low_water_bytes(SEND_BUFFER_SMALL_BYTES / 2));
    let association = connect_with(relay.address, config).await;
    let (mut reliable, reading) = read_echoes(&association);
    for stream in 0..STREAMS_BEGUN {
        let begin = numbered(0, 60).on_stream(u16::try_from(stream).expect("few streams"));
        association.send(begin).await.expect("the association lives");
    }
    association.drained().await.expect("the association lives");
    for number in 0..count {
        association.send(way.message(number)).await.expect("the association lives");
        if number % 60 > 30 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    association.drained().await.expect("the association lives");
    let stats = association.stats();
    let Abandoned { unsent, sent } = stats.abandoned.total();
    assert!(way.one_lost_in == 0 || sent > 0 && stats.sent.forward_tsns > 0, "{way:?}: {stats:?}");
    assert_eq!(stats.sent.messages_acked + unsent + sent, u64::from(count + STREAMS_BEGUN), "{way:?}");
    println!(
        "{way:?}: {} delivered, {unsent} and {sent} abandoned unsent and sent, {} FORWARD-TSN",
        stats.sent.messages_acked, stats.sent.forward_tsns
    );
    let awaited = count / POLICIES + STREAMS_BEGUN;
    let all = reliable.wait_for(|&reliable| reliable == awaited);
    let all = tokio::time::timeout(TIME_MAX / 2, all).await.map(|all| *all.expect("the association lives"));
    assert_eq!(all, Ok(awaited), "{way:?}: every reliable message comes back");
    // Unreliable echoes may still be under way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    association.shutdown().await.expect("the peer shuts down in good order");
    assert_eq!(association.closed().await, ClosedReason::Shutdown, "{way:?}");
    reading.await.expect("reading does not fail");
    assert_eq!(*reliable.borrow(), awaited, "{way:?}: none comes back twice");
}

/// Goes all ways at once: with many losses, most of the time goes by in waiting.
async fn all_ways(ways: impl IntoIterator<Item = Way>) {
    let mut running = JoinSet::new();
    for way in ways {
        running.spawn(partially_reliable(way));
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no way fails");
    }
}

/// Nothing is lost, 5 % and 20 %.
const ONE_LOST_IN: [u64; 3] = [0, 20, 5];

/// When lifetimes are looked at: the default, and as usrsctp itself does it.
const EXPIRIES: [Expiry; 2] = [Expiry::WhenOverdue, Expiry::WhenMissing];

/// Limits that no loss reaches.
fn persistent() -> Transport {
    Transport::default().with_expert(|expert| expert.with_association_retries(200, Duration::from_secs(300)))
}

async fn connect_with(address: SocketAddr, transport: Transport) -> Association {
    let config = ClientConfig::plain().with_transport(transport);
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)), config).await.expect("loopback is free");
    let options = ConnectOptions::default().peer_port(SCTP_PORT).local_port(SCTP_PORT);
    endpoint.connect_with(address, options).await.expect("the peer answers")
}

/// On one stream the messages `before`, one that is lost and may not leave again, and the message `after`, which is reliable. The peer
/// acknowledges all of them, and hears by FORWARD-TSN that the lost one is not to be waited for. Returns the echoes, once as many have come
/// as are `awaited`, and a message on another stream has come back after them.
async fn echoes_around_an_abandoned_message(
    peer: &str,
    interleaving: bool,
    stream: u16,
    before: &[&'static str],
    awaited: usize,
) -> Option<Vec<Bytes>> {
    let programs = programs()?;
    let mut server = Program::start(&programs.join(peer), &["server", "0"]);
    let relay = LossyRelay::start(server.address(), containing(b"lost"), Box::new(|_| false));
    let association = connect_with(relay.address, Transport::default().with_interleaving(interleaving)).await;
    let send = async |message: Message| {
        association.send(message.with_ppid(PPID_BINARY)).await.expect("the association lives");
        association.drained().await.expect("the association lives");
    };
    for text in before {
        send(Message::new(*text).on_stream(stream)).await;
    }
    send(Message::new("lost").on_stream(stream).with_max_retransmissions(0)).await;
    send(Message::new("after").on_stream(stream)).await;
    let stats = association.stats();
    assert_eq!((stats.abandoned.total().sent, stats.sent.messages_acked), (1, before.len() as u64 + 1));
    let mut echoes = Vec::new();
    while echoes.len() < awaited {
        echoes.push(association.recv().await.ok().flatten().expect("an echo is outstanding").into_payload());
    }
    send(Message::new("end").on_stream(stream + 1)).await;
    loop {
        match association.recv().await.ok().flatten().expect("an echo is outstanding").into_payload() {
            end if end == "end" => return Some(echoes),
            echo => echoes.push(echo),
        }
    }
}

async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(TIME_MAX, test).await.expect("the test takes too long");
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_connects_to_usrsctp() {
    in_time(festina_as_client("usrsctp-peer", false, Transport::default())).await;
    in_time(festina_as_client("usrsctp-peer", true, Transport::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_accepts_usrsctp() {
    in_time(festina_as_server("usrsctp-peer", false, Transport::default())).await;
    in_time(festina_as_server("usrsctp-peer", true, Transport::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_connects_to_pion_with_data_and_with_i_data() {
    for interleaving in [false, true] {
        let config = || Transport::default().with_interleaving(interleaving);
        in_time(festina_as_client("pion-peer", false, config())).await;
        in_time(festina_as_client("pion-peer", true, config())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_accepts_pion_with_data_and_with_i_data() {
    for interleaving in [false, true] {
        let config = || Transport::default().with_interleaving(interleaving);
        in_time(festina_as_server("pion-peer", false, config())).await;
        in_time(festina_as_server("pion-peer", true, config())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_reliability_is_understood_by_usrsctp_whatever_is_lost_as_data_and_as_i_data() {
    let way = Way {
        peer: "usrsctp-peer",
        streams: Streams::Mixed,
        unordered: None,
        interleaving: false,
        expiry: Expiry::WhenOverdue,
        one_lost_in: 0,
        seed: 0,
    };
    let ways = EXPIRIES.into_iter().flat_map(|expiry| {
        ONE_LOST_IN.into_iter().flat_map(move |one_lost_in| {
            [false, true].into_iter().flat_map(move |interleaving| {
                let way = Way { interleaving, expiry, one_lost_in, ..way };
                [None, Some(false), Some(true)].map(|unordered| Way { unordered, ..way })
            })
        })
    });
    in_time(all_ways(ways)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_reliability_is_understood_by_pion_whatever_is_lost_where_no_stream_begins_with_a_loss_or_mixes_modes()
{
    let way = Way {
        peer: "pion-peer",
        streams: Streams::OneModeEach,
        unordered: None,
        interleaving: false,
        expiry: Expiry::WhenOverdue,
        one_lost_in: 0,
        seed: 0,
    };
    let ways = EXPIRIES.into_iter().flat_map(|expiry| {
        ONE_LOST_IN.into_iter().flat_map(move |one_lost_in| {
            [false, true].into_iter().flat_map(move |interleaving| {
                let way = Way { interleaving, expiry, one_lost_in, ..way };
                [None, Some(false), Some(true)].map(|unordered| Way { unordered, ..way })
            })
        })
    });
    in_time(all_ways(ways)).await;
}

/// pion 1.12.1 ignores entries of FORWARD-TSN and I-FORWARD-TSN for a stream that it has not seen (`association.go`, lines 3758 and 3799), and
/// those of FORWARD-TSN for a stream on which it sends unordered messages itself (`stream.go`, line 234). `validation/README.md` says more.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_an_abandoned_message_is_delivered_by_usrsctp_on_any_stream_and_by_pion_on_some() {
    let sends_unordered = FIRST_UNORDERED_STREAM;
    for (peer, interleaving, stream, before, echoes) in [
        ("usrsctp-peer", false, 0, &["before"][..], &["before", "after"][..]),
        ("usrsctp-peer", false, 0, &[], &["after"]),
        ("usrsctp-peer", false, sends_unordered, &["before"], &["before", "after"]),
        ("pion-peer", false, 0, &["before"], &["before", "after"]),
        ("pion-peer", false, 0, &[], &[]),
        ("pion-peer", false, sends_unordered, &["before"], &["before"]),
        ("pion-peer", true, 0, &["before"], &["before", "after"]),
        ("pion-peer", true, 0, &[], &[]),
        ("pion-peer", true, sends_unordered, &["before"], &["before", "after"]),
    ] {
        let measured = echoes_around_an_abandoned_message(peer, interleaving, stream, before, echoes.len());
        let measured = tokio::time::timeout(TIME_MAX, measured).await.expect("the test takes too long");
        let Some(measured) = measured else { return };
        assert_eq!(measured, echoes, "{peer}, I-DATA {interleaving}, stream {stream}, {before:?}");
    }
}

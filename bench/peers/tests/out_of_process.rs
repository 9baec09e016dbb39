//! Festina's endpoint against usrsctp and pion over UDP on the loopback interface. The programs are in `interop/`.
//!
//! `FESTINA_INTEROP_DIR` names the folder where they have been built. Without it the tests build them, which needs a C compiler,
//! libusrsctp-dev and Go; where those are missing the tests say so and prove nothing, except in continuous integration (`CI` is
//! set), where they fail.

use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use festina::{
    Abandoned, Association, ClosedReason, Config, ConnectOptions, Direction, Endpoint, Event, Message, StreamId,
};

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
const TIME_MAX: Duration = Duration::from_secs(60);

/// The folder with the programs, built once; `None` if this machine lacks what they need.
fn programs() -> Option<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if let Some(directory) = std::env::var_os("FESTINA_INTEROP_DIR") {
            return Ok(PathBuf::from(directory));
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/build.sh");
        let output = Command::new(&script).arg(&directory).output().map_err(|error| error.to_string())?;
        if output.status.success() { Ok(directory) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    match built {
        Ok(directory) => Some(directory),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "the peers cannot be built: {error}");
            eprintln!("nothing was tested, for the peers cannot be built: {error}");
            None
        }
    }
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
    Message { unordered, ..Message::new(content.collect::<Bytes>()).on_stream(stream).with_ppid(PPID_BINARY) }
}

/// Festina connects, sends, compares the echoes, and shuts down.
async fn festina_as_client(peer: &str, unordered: bool) {
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join(peer), &["server", "0"]);
    let endpoint =
        Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Config::default()).await.expect("loopback is free");
    let options = ConnectOptions::default().peer_port(SCTP_PORT).local_port(SCTP_PORT);
    let association = endpoint.connect_with(server.address(), options).await.expect("the peer answers");

    let mut waiting: Vec<Message> = Vec::new();
    let mut to_send = (0..MESSAGES).map(|index| message(index, unordered)).peekable();
    for _ in 0..MESSAGES {
        while let Some(next) = to_send.peek() {
            let outstanding: usize = waiting.iter().map(|message| message.payload.len()).sum();
            if !waiting.is_empty() && outstanding + next.payload.len() > OUTSTANDING_BYTES_MAX {
                break;
            }
            let next = to_send.next().expect("it was peeked at");
            association.send(next.clone()).await.expect("the association lives");
            waiting.push(next);
        }
        let echo = association.recv().await.expect("an echo is outstanding");
        assert_eq!((echo.ppid, echo.unordered), (PPID_BINARY, unordered));
        let candidate = waiting
            .iter()
            .position(|message| message.stream == echo.stream && (!unordered || message.payload == echo.payload))
            .expect("a message of this stream is outstanding");
        assert!(waiting.remove(candidate).payload == echo.payload, "an echo of {} bytes is wrong", echo.payload.len());
    }
    association.shutdown().await.expect("the peer shuts down gracefully");
    assert_eq!(association.closed().await, ClosedReason::Shutdown);
    server.ends_well();
}

/// Festina accepts and echoes; the program compares and shuts down.
async fn festina_as_server(peer: &str, unordered: bool) {
    let Some(programs) = programs() else { return };
    let endpoint =
        Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Config::default()).await.expect("loopback is free");
    let listener = endpoint.listen(SCTP_PORT).expect("nobody else listens");
    let sizes: Vec<String> = SIZES.iter().map(usize::to_string).collect();
    let (port, count, sizes) = (endpoint.local_addr().port().to_string(), MESSAGES.to_string(), sizes.join(","));
    let mode = if unordered { "unordered" } else { "ordered" };
    let client = Program::start(&programs.join(peer), &["client", &port, &count, &sizes, mode]);

    let association = listener.accept().await.expect("the endpoint is open");
    let mut echoed = 0;
    while let Ok(received) = association.recv().await {
        assert_eq!((received.ppid, received.unordered), (PPID_BINARY, unordered));
        let echo = Message::new(received.payload).on_stream(received.stream.0).with_ppid(received.ppid);
        association.send(Message { unordered, ..echo }).await.expect("the association lives");
        echoed += 1;
    }
    assert_eq!(echoed, MESSAGES);
    assert_eq!(association.closed().await, ClosedReason::Shutdown);
    client.ends_well();
}

/// Returns whether a packet is to be lost.
type Loss = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// Loses every twentieth packet, as a fixed sequence of dice says.
fn one_in_twenty(seed: u64) -> Loss {
    let mut state = seed;
    Box::new(move |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33).is_multiple_of(20)
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

/// Which streams carry the messages of `partially_reliable_over_loss`.
#[derive(Clone, Copy, PartialEq)]
enum Streams {
    /// Each of the eight carries all kinds of messages.
    Mixed,
    /// Each is begun by a reliable message, and carries either ordered messages or unordered ones, as pion needs it.
    OneModeEach,
}

/// Messages with every policy, over a path that loses 5 % in either direction, to a peer that echoes what arrives. The association ends in
/// good order, and every message without a policy comes back.
async fn partially_reliable_over_loss(peer: &str, streams: Streams) {
    const COUNT: u32 = 600;
    const STREAMS_BEGUN: u32 = 8;
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join(peer), &["server", "0"]);
    let relay = LossyRelay::start(server.address(), one_in_twenty(1), one_in_twenty(2));
    let association = connect(relay.address).await;
    let reading = tokio::spawn({
        let association = association.clone();
        async move {
            let mut reliable = 0;
            while let Ok(echo) = association.recv().await {
                let number = u32::from_be_bytes(*echo.payload.first_chunk().expect("a number is in front"));
                reliable += u32::from(number.is_multiple_of(5));
            }
            reliable
        }
    });
    let message = |number: u32, stream: u32, len: usize| {
        let payload = [&number.to_be_bytes()[..], &vec![7; len]].concat();
        Message::new(payload).on_stream(u16::try_from(stream).expect("few streams")).with_ppid(PPID_BINARY)
    };
    for stream in 0..STREAMS_BEGUN {
        association.send(message(0, stream, 60)).await.expect("the association lives");
    }
    association.drained().await.expect("the association lives");
    for number in 0..COUNT {
        let len = if number.is_multiple_of(7) { 4_000 } else { 60 };
        let unordered = number % 5 == 3;
        let stream = match streams {
            Streams::Mixed => number % 8,
            Streams::OneModeEach => number % 4 + if unordered { u32::from(FIRST_UNORDERED_STREAM) } else { 0 },
        };
        let message = message(number, stream, len);
        let message = match number % 5 {
            0 => message,
            1 => message.with_max_retransmissions(0),
            2 => message.with_lifetime(Duration::from_millis(20)),
            3 => message.with_lifetime(Duration::from_millis(5)).with_max_retransmissions(1).unordered(),
            _ => message.replacing(3),
        };
        association.send(message).await.expect("the association lives");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    association.drained().await.expect("the association lives");
    let stats = association.stats();
    assert!(stats.sent.forward_tsns > 0, "{stats:?}");
    let Abandoned { unsent, sent } = stats.abandoned.total();
    assert_eq!(stats.sent.messages_acked + unsent + sent, u64::from(COUNT + STREAMS_BEGUN));
    println!(
        "{peer}: {} delivered, {unsent} and {sent} abandoned unsent and sent, {} FORWARD-TSN",
        stats.sent.messages_acked, stats.sent.forward_tsns
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    association.shutdown().await.expect("the peer shuts down in good order");
    assert_eq!(association.closed().await, ClosedReason::Shutdown);
    let reliable = reading.await.expect("reading does not fail");
    assert_eq!(reliable, COUNT / 5 + STREAMS_BEGUN, "every reliable message comes back");
}

/// Returns an association with the program at an address.
async fn connect(address: SocketAddr) -> Association {
    connect_with(address, Config::default()).await
}

async fn connect_with(address: SocketAddr, config: Config) -> Association {
    let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), config).await.expect("loopback is free");
    let options = ConnectOptions::default().peer_port(SCTP_PORT).local_port(SCTP_PORT);
    endpoint.connect_with(address, options).await.expect("the peer answers")
}

/// On one stream the messages `before`, one that is lost and may not leave again, and the message `after`, which is reliable. The peer
/// acknowledges all of them, and hears by FORWARD-TSN that the lost one is not to be waited for. Returns the echoes, once as many have come
/// as are `awaited`, and a message on another stream has come back after them.
async fn echoes_around_an_abandoned_message(
    peer: &str,
    stream: u16,
    before: &[&'static str],
    awaited: usize,
) -> Option<Vec<Bytes>> {
    let programs = programs()?;
    let mut server = Program::start(&programs.join(peer), &["server", "0"]);
    let relay = LossyRelay::start(server.address(), containing(b"lost"), Box::new(|_| false));
    let association = connect(relay.address).await;
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
        echoes.push(association.recv().await.expect("an echo is outstanding").payload);
    }
    send(Message::new("end").on_stream(stream + 1)).await;
    loop {
        match association.recv().await.expect("an echo is outstanding").payload {
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
    in_time(festina_as_client("usrsctp-peer", false)).await;
    in_time(festina_as_client("usrsctp-peer", true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_accepts_usrsctp() {
    in_time(festina_as_server("usrsctp-peer", false)).await;
    in_time(festina_as_server("usrsctp-peer", true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_connects_to_pion() {
    in_time(festina_as_client("pion-peer", false)).await;
    in_time(festina_as_client("pion-peer", true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn festina_accepts_pion() {
    in_time(festina_as_server("pion-peer", false)).await;
    in_time(festina_as_server("pion-peer", true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_reliability_over_a_lossy_path_is_understood_by_usrsctp() {
    in_time(partially_reliable_over_loss("usrsctp-peer", Streams::Mixed)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_reliability_over_a_lossy_path_is_understood_by_pion_where_no_stream_begins_with_a_loss_or_mixes_modes()
{
    in_time(partially_reliable_over_loss("pion-peer", Streams::OneModeEach)).await;
}

/// Streams begin anew again and again while messages go to and fro; each echo comes in the order of its stream.
#[tokio::test(flavor = "multi_thread")]
async fn streams_are_reset_and_added_with_usrsctp_over_a_lossy_path() {
    in_time(async {
        const ROUNDS: u32 = 20;
        let Some(programs) = programs() else { return };
        let mut server = Program::start(&programs.join("usrsctp-peer"), &["server", "0"]);
        let relay = LossyRelay::start(server.address(), one_in_twenty(1), one_in_twenty(2));
        // Fewer than usrsctp would take, so that some can be added.
        let association = connect_with(relay.address, Config::default().with_streams(6, u16::MAX)).await;
        let next_change = async || loop {
            match association.event().await.expect("the association lives") {
                Event::StreamsReset { direction, streams } => return Ok((direction, streams.to_vec())),
                Event::StreamsAdded { outbound_streams, .. } => return Err(outbound_streams),
                Event::StreamRequestFailed { request, result } => panic!("{request:?}: {result:?}"),
                _ => {}
            }
        };
        for round in 0..ROUNDS {
            let stream = StreamId(u16::try_from(round % 3).expect("few streams"));
            let texts = ["first", "second", "third"];
            for text in texts {
                let message = Message::new(format!("{text} {round}")).on_stream(stream.0).with_ppid(PPID_BINARY);
                association.send(message).await.expect("the association lives");
            }
            for text in texts {
                let echo = association.recv().await.expect("an echo is outstanding");
                assert_eq!((echo.stream, &echo.payload[..]), (stream, format!("{text} {round}").as_bytes()));
            }
            if round % 2 == 0 {
                association.reset_streams(&[stream]).expect("usrsctp supports it");
                assert_eq!(next_change().await, Ok((Direction::Outbound, vec![stream])));
            } else {
                association.request_reset(&[stream]).expect("usrsctp supports it");
                assert_eq!(next_change().await, Ok((Direction::Inbound, vec![stream])));
            }
        }
        let before = association.streams();
        let outbound = before.outbound;
        association.add_streams(2, 2).expect("usrsctp supports it");
        while (association.streams().outbound, association.streams().inbound) != (outbound + 2, before.inbound + 2) {
            assert_eq!(next_change().await, Err(outbound + 2));
        }
        let message = Message::new("on a new one").on_stream(outbound + 1).with_ppid(PPID_BINARY);
        association.send(message).await.expect("the stream was added");
        assert_eq!(association.recv().await.expect("an echo is outstanding").stream, StreamId(outbound + 1));
        association.shutdown().await.expect("the peer shuts down in good order");
    })
    .await;
}

/// pion 1.10.3 passes over what FORWARD-TSN says of a stream that it has not seen (`association.go`, line 3180), and of a stream on which
/// it sends unordered messages itself (`stream.go`, line 232). `docs/validation.md` says more.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_an_abandoned_message_is_delivered_by_usrsctp_on_any_stream_and_by_pion_on_some() {
    let sends_unordered = FIRST_UNORDERED_STREAM;
    for (peer, stream, before, echoes) in [
        ("usrsctp-peer", 0, &["before"][..], &["before", "after"][..]),
        ("usrsctp-peer", 0, &[], &["after"]),
        ("usrsctp-peer", sends_unordered, &["before"], &["before", "after"]),
        ("pion-peer", 0, &["before"], &["before", "after"]),
        ("pion-peer", 0, &[], &[]),
        ("pion-peer", sends_unordered, &["before"], &["before"]),
    ] {
        let measured = echoes_around_an_abandoned_message(peer, stream, before, echoes.len());
        let measured = tokio::time::timeout(TIME_MAX, measured).await.expect("the test takes too long");
        let Some(measured) = measured else { return };
        assert_eq!(measured, echoes, "{peer}, stream {stream}, {before:?}");
    }
}

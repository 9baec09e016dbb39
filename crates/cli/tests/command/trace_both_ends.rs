//! The analysis of a capture at the sender, compared with the facts that captures at both ends prove: real usrsctp over the UDP proxy, and the
//! kernel's TCP over `festina emulate run`.
//!
//! Both ends show every copy and whether it arrived, so they prove which copies are retransmissions and which of these were not needed. Causes
//! are known in part. In SCTP a retransmission within a millisecond of the third report of its loss is a fast one, and one after a second of silence
//! a timeout. In Linux's TCP, which looks at the time since later segments arrived, one that follows the first report within half a round trip is a fast
//! one, and one without any report before half a round trip of silence is a timeout or a probe.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use festina_emulate::{Direction, TapEvent, UdpProxy};
use festina_netsim::{Admission, LinkConfig, LossModel};
use festina_trace::analysis::Retransmission;
use festina_trace::{Analyser, AnalyserOptions, Cause, Finding, PcapngWriter, analyse, ip};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};

use crate::emulate_run::as_root_of_a_user_namespace;
use crate::harness::folder;

/// A host answers within this time; otherwise it is unknown which packet it answers.
const PROMPT: Duration = Duration::from_millis(1);
/// The number of reports that prove a loss.
const REPORTS: usize = 3;
/// The shortest retransmission timeout of usrsctp.
const TIMEOUT: Duration = Duration::from_secs(1);
/// What the paths take each way.
const ONE_WAY: Duration = Duration::from_millis(20);

/// A packet at its sender, and when it arrived, if it did.
#[derive(Clone, Debug)]
struct Passage {
    is_from_client: bool,
    left_at: Instant,
    arrived_at: Option<Instant>,
    packet: Vec<u8>,
}

/// What a packet carries: ranges of numbers, and what an acknowledgement says.
#[derive(Debug, Default)]
struct Content {
    data: Vec<(u32, u32)>,
    /// Start of the data reported as out of order.
    reported: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().expect("four bytes")))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 2).map_or(0, |half| u32::from(u16::from_be_bytes(half.try_into().expect("two bytes"))))
}

fn content(packet: &[u8]) -> Content {
    match packet.get(9) {
        Some(6) => tcp_content(packet),
        Some(132) => sctp_content(packet.get(32..).unwrap_or_default()),
        _ => Content::default(),
    }
}

fn tcp_content(packet: &[u8]) -> Content {
    let header_end = 20 + usize::from(packet[32] >> 4) * 4;
    let (sequence, payload_bytes) = (word(packet, 24), half(packet, 2) - u32::try_from(header_end).expect("short"));
    let mut content = Content::default();
    if payload_bytes > 0 {
        content.data.push((sequence, sequence.wrapping_add(payload_bytes)));
    }
    let (mut at, ack) = (40, word(packet, 28));
    while at + 1 < header_end {
        let len = if packet[at] <= 1 { 1 } else { usize::from(packet[at + 1]).max(2) };
        if packet[at] == 5 {
            let starts = (at + 2..at + len).step_by(8).map(|block| word(packet, block));
            // Data below the acknowledgement is a duplicate.
            content.reported.extend(starts.filter(|start| start.wrapping_sub(ack).cast_signed() > 0));
        }
        at += len;
    }
    content
}

fn sctp_content(mut rest: &[u8]) -> Content {
    let mut content = Content::default();
    while rest.len() >= 8 {
        let len = usize::try_from(half(rest, 2)).expect("short").max(4);
        match rest[0] {
            0 => content.data.push((word(rest, 4), word(rest, 4).wrapping_add(1))),
            3 => {
                let gaps = (0..half(rest, 12)).map(|gap| half(rest, 16 + 4 * usize::try_from(gap).expect("few")));
                content.reported.extend(gaps.map(|start| word(rest, 4).wrapping_add(start)));
            }
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    content
}

/// A retransmission that both ends prove.
#[derive(Debug)]
struct Proven {
    at: Instant,
    /// Counted from the first number that the sender used.
    end: u64,
    is_spurious: bool,
    /// One of these; none if it is not known.
    causes: &'static [Cause],
}

/// All retransmissions of one side.
fn proven(passages: &[Passage], of_client: bool) -> Vec<Proven> {
    let mut first = None;
    let mut copies: BTreeMap<u32, Vec<&Passage>> = BTreeMap::new();
    let mut found = Vec::new();
    let own = passages.iter().filter(|passage| passage.is_from_client == of_client);
    for passage in own {
        for (start, end) in content(&passage.packet).data {
            let first = *first.get_or_insert(start);
            // The kernel cuts segments as it likes: a range is known by its end.
            let earlier = copies.entry(end.wrapping_sub(first)).or_default();
            if let Some(previous) = earlier.last() {
                found.push(Proven {
                    at: passage.left_at,
                    end: u64::from(end.wrapping_sub(first)),
                    is_spurious: earlier.iter().any(|copy| copy.arrived_at.is_some()),
                    causes: causes(passages, passage, previous, end.wrapping_sub(1)),
                });
            }
            earlier.push(passage);
        }
    }
    found
}

/// What the cause of a copy may be, as far as it is known: `last` is the last number in it.
fn causes(passages: &[Passage], copy: &Passage, previous: &Passage, last: u32) -> &'static [Cause] {
    let heard = passages.iter().filter(|passage| passage.is_from_client != copy.is_from_client);
    let heard = heard.filter(|passage| passage.arrived_at.is_some_and(|at| at <= copy.left_at));
    let Some(latest_at) = heard.clone().filter_map(|passage| passage.arrived_at).max() else { return &[] };
    let since = heard.filter(|passage| passage.arrived_at > Some(previous.left_at));
    let reports_it = |passage: &&Passage| {
        content(&passage.packet).reported.iter().any(|start| start.wrapping_sub(last).cast_signed() > 0)
    };
    let reports: Vec<Instant> = since.filter(reports_it).filter_map(|passage| passage.arrived_at).collect();
    let silence = copy.left_at - latest_at;
    let is_tcp = copy.packet.get(9) == Some(&6);
    // Other packets, data for one, may follow the report.
    let is_prompt = |report: &Instant| copy.left_at - *report <= PROMPT;
    match reports.first() {
        Some(first) if is_tcp && copy.left_at - *first <= ONE_WAY => &[Cause::Fast],
        None if is_tcp && silence >= ONE_WAY => &[Cause::Timeout, Cause::Probe],
        Some(_) if !is_tcp && reports.len() == REPORTS && reports.last().is_some_and(is_prompt) => &[Cause::Fast],
        None if silence >= TIMEOUT => &[Cause::Timeout],
        _ => &[],
    }
}

/// The retransmissions that the analysis of the capture at one side finds.
fn found(passages: &[Passage], of_client: bool) -> Vec<Retransmission> {
    let mut seen: Vec<(Instant, &[u8])> = Vec::new();
    for passage in passages {
        let at = if passage.is_from_client == of_client { Some(passage.left_at) } else { passage.arrived_at };
        seen.extend(at.map(|at| (at, passage.packet.as_slice())));
    }
    seen.sort_by_key(|(at, _)| *at);
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("sender").expect("memory does not fail");
    for (at, packet) in seen {
        writer.write_packet(interface, at, packet, None).expect("memory does not fail");
    }
    let file = writer.finish().expect("memory does not fail");
    let analyser = Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() });
    let sender = if of_client { Some(1) } else { Some(2) };
    let (mut streams, mut found) = (BTreeSet::new(), Vec::new());
    let (_, result) = analyse(file.as_slice(), analyser, |finding| match finding {
        Finding::Retransmission(retransmission) => found.push(retransmission),
        Finding::Stream(stream) if last_octet(&stream.source) == sender => {
            streams.insert(stream.id);
        }
        _ => {}
    });
    result.expect("a sound capture");
    found.retain(|it: &Retransmission| streams.contains(&it.stream));
    found
}

fn last_octet(address: &SocketAddr) -> Option<u8> {
    match address {
        SocketAddr::V4(address) => Some(address.ip().octets()[3]),
        SocketAddr::V6(_) => None,
    }
}

/// The number of correct verdicts of each kind.
#[derive(Debug, Default)]
struct Score {
    retransmissions: usize,
    missed: Vec<String>,
    invented: usize,
    causes_known: usize,
    causes_wrong: Vec<String>,
    spurious: usize,
    spurious_told: usize,
    accused: usize,
}

impl Score {
    fn judge(&mut self, passages: &[Passage], of_client: bool) {
        let (truth, found) = (proven(passages, of_client), found(passages, of_client));
        let times: BTreeSet<Instant> = truth.iter().map(|it| it.at).collect();
        self.invented += found.iter().filter(|it| !times.contains(&it.at)).count();
        for proven in &truth {
            self.retransmissions += 1;
            let matches = |it: &&Retransmission| it.at == proven.at && it.start < proven.end && proven.end <= it.end;
            let Some(found) = found.iter().find(matches) else {
                self.missed.push(format!("{proven:?}"));
                continue;
            };
            self.spurious += usize::from(proven.is_spurious);
            self.spurious_told += usize::from(proven.is_spurious && found.is_spurious);
            self.accused += usize::from(!proven.is_spurious && found.is_spurious);
            if !proven.causes.is_empty() {
                self.causes_known += 1;
                if !proven.causes.contains(&found.cause) {
                    self.causes_wrong.push(format!("{proven:?} is {:?}", found.cause));
                }
            }
        }
    }

    fn holds(&self, name: &str) {
        println!("{name}: {self:?}");
        assert!(self.retransmissions > 20, "{name}: {self:?}");
        assert!(self.missed.is_empty() && self.invented == 0, "{name}: {self:?}");
        assert!(self.causes_known > 0 && self.causes_wrong.len() * 50 <= self.causes_known, "{name}: {self:?}");
        assert!(self.accused * 50 <= self.retransmissions, "{name}: {self:?}");
    }
}

/// The program that speaks usrsctp, built on demand; `None` if this machine lacks its dependencies.
fn usrsctp_peer() -> Option<PathBuf> {
    if let Some(built) = std::env::var_os("FESTINA_INTEROP_DIR") {
        return Some(Path::new(&built).join("usrsctp-peer"));
    }
    let (source, program) = ("../../interop/usrsctp/peer.c", folder("usrsctp-both-ends").join("usrsctp-peer"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let built =
        Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).args(["-lusrsctp", "-lpthread"]).output();
    if built.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    assert!(std::env::var_os("CI").is_none(), "continuous integration has a C compiler and libusrsctp-dev: {built:?}");
    println!("a C compiler or libusrsctp-dev is missing: nothing to test");
    None
}

/// A program that is running. Dropping it kills it.
struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("it was built");
        let lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        Self { child, lines }
    }

    /// The next line; the program ends itself if it takes too long.
    fn line(&mut self) -> String {
        self.lines.next().and_then(Result::ok).unwrap_or_else(|| "no output".to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has mostly ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of usrsctp that sends messages of 100 bytes to a server of its kind, which echoes them.
fn usrsctp(program: &Path, count: u32, interval_ms: u32, loss_percent: u32, seed: u64) -> Vec<Passage> {
    let mut server = Peer::start(program, &["server", "0"]);
    let port = server.line().strip_prefix("LISTENING ").and_then(|port| port.parse::<u16>().ok());
    let link = LinkConfig {
        delay: ONE_WAY,
        loss: LossModel::Independent(Probability::from_percent(loss_percent)),
        ..LinkConfig::default()
    };
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let passages: Arc<Mutex<Passages>> = Arc::default();
    let seen = Arc::clone(&passages);
    let port = port.expect("the server listens");
    let proxy = UdpProxy::bind(loopback(0), loopback(port), link.clone(), link, seed).expect("loopback has ports");
    let proxy = proxy.with_tap(Box::new(move |record| {
        seen.lock().expect("no panic").add(record.at, record.direction, record.event, record.payload);
    }));
    let proxy = proxy.spawn().expect("the proxy starts");
    let [port, count, interval] =
        [u32::from(proxy.local_addr().port()), count, interval_ms].map(|number| number.to_string());
    let mut client = Peer::start(program, &["client", &port, &count, "100", "ordered", &interval]);
    assert_eq!(client.line(), format!("OK n={count}"));
    proxy.stop().expect("nothing went wrong");
    let passages = std::mem::take(&mut passages.lock().expect("no panic").passages);
    assert!(!passages.is_empty(), "the proxy saw nothing");
    passages
}

/// Passages as the proxy reports them.
#[derive(Debug, Default)]
struct Passages {
    passages: Vec<Passage>,
    /// On their way, by their direction; none overtakes another.
    under_way: [VecDeque<usize>; 2],
}

impl Passages {
    fn add(&mut self, at: Instant, direction: Direction, event: TapEvent, payload: &[u8]) {
        let is_from_client = direction == Direction::Forward;
        let under_way = &mut self.under_way[usize::from(is_from_client)];
        match event {
            TapEvent::Offered(admission) => {
                let [client, server] = [1, 2].map(|host| std::net::IpAddr::from([10, 0, 0, host]));
                let (from, to) = if is_from_client { (client, server) } else { (server, client) };
                let packet =
                    ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, payload).expect("a datagram fits");
                if admission == Admission::Accepted {
                    under_way.push_back(self.passages.len());
                }
                self.passages.push(Passage { is_from_client, left_at: at, arrived_at: None, packet });
            }
            TapEvent::Delivered => {
                if let Some(passage) = under_way.pop_front().and_then(|index| self.passages.get_mut(index)) {
                    passage.arrived_at = Some(at);
                }
            }
        }
    }
}

#[test]
fn what_usrsctp_sends_again_is_found_with_its_cause() {
    let Some(program) = usrsctp_peer() else { return };
    let runs = [(400, 20, 5, 1), (100, 100, 10, 2), (400, 20, 2, 3), (50, 250, 10, 4)];
    let mut score = Score::default();
    std::thread::scope(|scope| {
        let program = &program;
        let runs = runs
            .map(|(count, interval, loss, seed)| scope.spawn(move || usrsctp(program, count, interval, loss, seed)));
        for run in runs {
            let passages = run.join().expect("the run ends well");
            score.judge(&passages, true);
            score.judge(&passages, false);
        }
    });
    score.holds("usrsctp");
}

/// Small writes over the kernel's TCP, without Nagle's algorithm.
const TCP_CLIENT: &str = r#"use IO::Socket::INET; use Socket qw(IPPROTO_TCP TCP_NODELAY); my $s;
for (1..100) { last if $s = IO::Socket::INET->new(PeerAddr => "10.77.0.2:7000"); select(undef, undef, undef, 0.05); }
setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1);
for (1..400) { syswrite($s, "x" x 100); select(undef, undef, undef, 0.03); }
"#;
const TCP_SERVER: &str = r#"use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalAddr => "10.77.0.2:7000", Listen => 1);
my $s = $l->accept; 1 while sysread($s, my $data, 65536);
"#;

#[test]
fn what_the_kernels_tcp_sends_again_is_found_with_its_cause() {
    let mut score = Score::default();
    for seed in [1, 2] {
        let folder = folder(&format!("kernel-tcp-{seed}"));
        let [server, client, file] = ["server.pl", "client.pl", "both.pcapng"].map(|name| folder.join(name));
        for (path, program) in [(&server, TCP_SERVER), (&client, TCP_CLIENT)] {
            std::fs::write(path, program).expect("the folder can be written");
        }
        let [server, client, shown] = [&server, &client, &file].map(|path| path.display());
        let script = format!(
            "\"$FESTINA\" emulate run --seed {seed} --delay 20ms --loss 5% --back-loss 3% --pcap {shown} \
             --server 'perl {server}' --client 'perl {client}'"
        );
        let Some(running) = as_root_of_a_user_namespace(&script) else { return };
        let ended = running.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        score.judge(&passages_in(&std::fs::read(&file).expect("it was written")), true);
    }
    score.holds("the kernel's TCP");
}

/// The passages of a pcapng file in which both ends have an interface, the client's first: a packet that arrived is in it twice.
fn passages_in(file: &[u8]) -> Vec<Passage> {
    let little = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let mut passages: Vec<Passage> = Vec::new();
    let mut at = 0;
    while at + 12 <= file.len() {
        if little(at) == 6 {
            let (interface, len) = (little(at + 8), usize::try_from(little(at + 20)).expect("short"));
            let time = Instant::from_nanos((u64::from(little(at + 12)) << 32) | u64::from(little(at + 16)));
            let packet = &file[at + 28..at + 28 + len];
            let is_from_client = packet.get(12..16) == Some(&[10, 77, 0, 1]);
            if (interface == 0) == is_from_client {
                passages.push(Passage { is_from_client, left_at: time, arrived_at: None, packet: packet.to_vec() });
            } else if let Some(passage) = passages.iter_mut().find(|it| it.arrived_at.is_none() && it.packet == packet)
            {
                passage.arrived_at = Some(time);
            }
        }
        at += usize::try_from(little(at + 4)).expect("short").max(12);
    }
    passages
}

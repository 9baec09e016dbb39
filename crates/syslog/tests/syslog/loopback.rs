//! A relay and a collector on real sockets and real files.

mod garbage;
mod keys;
#[path = "../../src/scratch.rs"]
mod scratch;
mod several;
mod silent;
mod starts;
mod strangers;
mod tls;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::delays::Delays;
use festina_syslog::notice::Notice;
use festina_syslog::relay::RunningRelay;
use festina_units::Duration;
use rustix::net::SendFlags;
use scratch::Directory;

const PATIENCE: Duration = Duration::from_secs(20);

impl Directory {
    fn output(&self) -> String {
        std::fs::read_to_string(self.0.join("lines.log")).unwrap_or_default()
    }
}

fn silent() -> Notice {
    Arc::new(|_: &str| {})
}

/// How the associations of a test are protected.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Encrypted,
    Plain,
}

const MODES: [Mode; 2] = [Mode::Encrypted, Mode::Plain];

impl Mode {
    /// The last table of a collector's file.
    fn of_collector(self) -> &'static str {
        match self {
            Self::Encrypted => "[security]\nrelays = \"any\"",
            Self::Plain => "[security]\nplain = true",
        }
    }

    /// The last table of a relay's file.
    fn of_relay(self) -> &'static str {
        match self {
            Self::Encrypted => "",
            Self::Plain => "[security]\nplain = true",
        }
    }
}

async fn collector(directory: &Path, listen: SocketAddr) -> RunningCollector {
    collector_in(Mode::Encrypted, directory, listen).await
}

async fn relay(directory: &Path, to: SocketAddr) -> RunningRelay {
    relay_in(Mode::Encrypted, directory, to).await
}

async fn collector_in(mode: Mode, directory: &Path, listen: SocketAddr) -> RunningCollector {
    let text = format!(
        "state = {:?}\nlisten = \"{listen}\"\nmetrics = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\npath = {:?}\n{}",
        directory.join("collect"),
        directory.join("lines.log"),
        mode.of_collector()
    );
    let config = CollectorConfig::parse("collect.toml", &text).expect("the file is right");
    RunningCollector::start(config, silent()).await.expect("it starts")
}

async fn relay_in(mode: Mode, directory: &Path, to: SocketAddr) -> RunningRelay {
    let text = format!(
        "state = {:?}\ncollector = \"{to}\"\nmetrics = \"127.0.0.1:0\"\n[[input]]\nkind = \"udp\"\nlisten = \"127.0.0.1:0\"\n\
         [[input]]\nkind = \"tcp\"\nlisten = \"127.0.0.1:0\"\n[[rule]]\napp = \"chatty\"\ndrop = true\n{}",
        directory.join("relay"),
        mode.of_relay()
    );
    let config = RelayConfig::parse("relay.toml", &text).expect("the file is right");
    RunningRelay::start(config, silent()).await.expect("it starts")
}

fn any_address() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(tokio::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_all_inputs_reach_the_file_once_and_all_are_accounted_for() {
    for mode in MODES {
        lines_reach_the_file(mode).await;
    }
}

async fn lines_reach_the_file(mode: Mode) {
    let directory = Directory::new();
    let collector = collector_in(mode, &directory.0, any_address()).await;
    let relay = relay_in(mode, &directory.0, collector.local_addr()).await;
    let (udp, tcp) = (relay.inputs()[0].expect("an address"), relay.inputs()[1].expect("an address"));

    let socket = UdpSocket::bind(any_address()).expect("a socket");
    for line in
        ["<11>Oct 11 22:14:15 box app: important", "<14>Oct 11 22:14:15 box chatty: nothing", "no syslog\x1b[2J"]
    {
        socket.send_to(line.as_bytes(), udp).expect("it is sent");
    }
    // A connection has one framing.
    for messages in ["<8>one\n<8>3", "7 <8>tw\no"] {
        let mut stream = TcpStream::connect(tcp).expect("it listens");
        stream.write_all(messages.as_bytes()).expect("it is sent");
    }

    until("all lines are taken", || relay.snapshot().received.iter().sum::<u64>() == 6).await;
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up(), "{last:?}");
    assert_eq!((last.delivered, last.dropped, last.spooled, last.shed), (5, 1, 0, 0), "{last:?}");
    // Unrepeated lines are not acknowledged one by one, so their delays are unknown.
    let timed: Vec<u64> = last.delays.iter().map(Delays::lines).collect();
    assert_eq!(timed, [3, 0, 0, 1, 0, 0, 0, 0]);
    let text = last.prometheus();
    assert!(text.contains("festina_syslog_delivery_seconds_count{severity=\"emerg\"} 3\n"), "{text}");
    let counted = collector.stop().await;
    assert_eq!((counted.reliable.iter().sum::<u64>(), counted.fresh.iter().sum::<u64>()), (4, 1), "{counted:?}");

    let output = directory.output();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let expected = ["<11>Oct 11 22:14:15 box app: important", "<8>3", "<8>one", "<8>tw\\x0ao", "no syslog\\x1b[2J"];
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn important_lines_wait_on_disk_for_a_collector_and_outlive_the_relay() {
    for mode in MODES {
        important_lines_wait(mode).await;
    }
}

async fn important_lines_wait(mode: Mode) {
    let directory = Directory::new();
    let first_collector = collector_in(mode, &directory.0, any_address()).await;
    let address = first_collector.local_addr();
    first_collector.stop().await;

    let lines = 3_000;
    let first_relay = relay_in(mode, &directory.0, address).await;
    let mut stream = TcpStream::connect(first_relay.inputs()[1].expect("an address")).expect("it listens");
    for number in 0..lines {
        writeln!(stream, "<11>number {number}").expect("it is sent");
    }
    drop(stream);
    until("all lines are taken", || first_relay.snapshot().spooled == lines).await;
    let last = first_relay.stop(Duration::ZERO).await;
    assert!(last.adds_up() && last.spooled == lines, "{last:?}");

    let second_relay = relay_in(mode, &directory.0, address).await;
    let second_collector = collector_in(mode, &directory.0, address).await;
    until("all lines arrive", || second_relay.snapshot().delivered == lines).await;
    let last = second_relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.found == lines && last.spooled == 0, "{last:?}");
    second_collector.stop().await;
    let output = directory.output();
    let expected: String = (0..lines).map(|number| format!("<11>number {number}\n")).collect();
    assert!(output == expected, "{} bytes", output.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_served_on_loopback() {
    let directory = Directory::new();
    let collector = collector(&directory.0, any_address()).await;
    let relay = relay(&directory.0, collector.local_addr()).await;
    let status = festina_syslog::serve::ask_status(relay.metrics().expect("it is served")).await.expect("it answers");
    let read: festina_syslog::snapshot::RelaySnapshot = serde_json::from_str(&status).expect("JSON");
    assert!(read.adds_up());
    let status =
        festina_syslog::serve::ask_status(collector.metrics().expect("it is served")).await.expect("it answers");
    let read: festina_syslog::snapshot::CollectorSnapshot = serde_json::from_str(&status).expect("JSON");
    assert!(read.prometheus().contains("festina_syslog_collector_reliable_lines_total{severity=\"err\"} 0\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urgent_data_of_a_connection_is_part_of_its_line() {
    let directory = Directory::new();
    let collector = collector(&directory.0, any_address()).await;
    let relay = relay(&directory.0, collector.local_addr()).await;
    let stream = TcpStream::connect(relay.inputs()[1].expect("an address")).expect("it listens");
    for (bytes, flags) in [(&b"<11>be"[..], SendFlags::empty()), (b"f", SendFlags::OOB), (b"ore\n", SendFlags::empty())]
    {
        assert_eq!(rustix::net::send(&stream, bytes, flags), Ok(bytes.len()));
    }
    until("the line is delivered", || relay.snapshot().delivered == 1).await;
    assert_eq!(directory.output(), "<11>before\n");
    relay.stop(PATIENCE).await;
    collector.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_sources_cost_cut_lines_and_nothing_else() {
    let directory = Directory::new();
    let collector = collector(&directory.0, any_address()).await;
    let relay = relay(&directory.0, collector.local_addr()).await;
    let tcp = relay.inputs()[1].expect("an address");
    let mut stream = TcpStream::connect(tcp).expect("it listens");
    // A line of 1 MB, one that never ends, a length that is a lie, and bytes that are no text.
    stream
        .write_all(&[&b"<11>"[..], &[b'x'; 1_000_000], b"\n<11>\x01\xff\xfe\n99999999 <11>"].concat())
        .expect("it is sent");
    stream.write_all(&[b'y'; 1_000_000]).expect("it is sent");
    drop(stream);
    until("all lines are taken", || relay.snapshot().received.iter().sum::<u64>() == 3).await;
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.delivered == 3, "{last:?}");
    collector.stop().await;
    let output = directory.output();
    let cut = 8_192 + " [cut]".len();
    // The line that begins with a number has no priority, so it is not important. The important ones keep their order.
    let (numbered, important): (Vec<&str>, Vec<&str>) = output.lines().partition(|line| line.contains("99999999"));
    assert_eq!(numbered.iter().map(|line| line.len()).collect::<Vec<_>>(), [cut]);
    assert_eq!(important.iter().map(|line| line.len()).collect::<Vec<_>>(), [cut, "<11>\\x01\\xff\\xfe".len()]);
}

use std::fs;
use std::process::Command;

use festina_models::host::Host;
use festina_models::packet::Payload;
use festina_models::tcp::TcpConfig;
use festina_models::udp_host::UdpHost;
use festina_models::workload::{Cbr, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, Simulation};
use festina_recovery::Profile;
use festina_trace::{PacketReader, read_flows};
use festina_units::{ByteCount, Duration, EcnCodepoint, Probability};

use super::*;
use crate::scenario::{Captured, Stack, ThinStream};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("festina-lab-capture-{}-{test}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ten seconds of a message every 100 ms over a path that loses every tenth packet, each way.
fn stream(stack: Stack) -> Capture {
    let (ms, loss) = (Duration::from_millis, Probability::from_percent(10));
    ThinStream::periodic(stack, ms(100), ByteCount::from_bytes(100), Duration::from_secs(10), ms(80))
        .with_loss(loss, loss)
        .capture(1)
}

fn tcp() -> Capture {
    stream(Stack::tcp(TcpConfig { sack: true, ..TcpConfig::new_reno() }))
}

fn sctp() -> Capture {
    stream(Stack::sctp(Profile::Festina.mechanisms(), Duration::ZERO))
}

#[test]
fn the_capture_of_a_stream_tells_what_its_application_wrote() {
    for (name, capture) in [("tcp", tcp()), ("sctp", sctp())] {
        let folder = Folder::new(name);
        let written = capture.write(&folder.0, "one", None).expect("the folder can be written");
        assert_eq!(written, [folder.0.join("one-sender-receiver.pcapng")]);
        let file = File::open(&written[0]).expect("it was written");
        let flows = read_flows(io::BufReader::new(file)).expect("a sound capture");
        let [flow] = flows.as_slice() else { panic!("{name}: one side writes, {flows:?}") };
        let bytes: u64 = flow.writes.iter().map(|write| write.size.bytes()).sum();
        assert_eq!(bytes, 100 * 100, "{name}");
        if name == "sctp" {
            let gaps = flow.writes.windows(2).map(|pair| pair[1].at - pair[0].at);
            assert!(gaps.clone().count() == 99 && gaps.clone().all(|gap| gap == Duration::from_millis(100)));
        }
    }
}

#[test]
fn every_packet_is_there_once_and_lost_ones_say_so() {
    let capture = tcp();
    let lost = capture.packets.iter().filter(|packet| packet.comment() == Some("lost on the link")).count();
    assert!((5..60).contains(&lost), "{lost} of {}", capture.packets.len());
    assert!(capture.packets.iter().all(|packet| packet.deliveries <= 1));
    let folder = Folder::new("once");
    let written = capture.write(&folder.0, "one", Some("receiver>sender")).expect("the folder can be written");
    let file = fs::read(&written[0]).expect("it was written");
    let mut reader = PacketReader::new(file.as_slice()).expect("a capture");
    let mut packets = 0;
    while reader.next_packet().expect("a sound capture").is_some() {
        packets += 1;
    }
    assert_eq!(packets, capture.packets.len());
}

#[test]
fn an_unknown_link_is_told_with_those_that_there_are() {
    let folder = Folder::new("unknown");
    let error = sctp().write(&folder.0, "one", Some("left>right")).expect_err("there is no such link");
    assert_eq!(error.to_string(), "there is no link \"left>right\"; there are sender>receiver, receiver>sender");
    assert!(!folder.0.exists());
}

#[test]
fn marks_damage_and_copies_are_told() {
    let tcp = tcp();
    let first = tcp.packets.first().expect("there are packets");
    let packet = first.packet.clone();
    let mut capture = Capture { packets: Vec::new(), by_serial: BTreeMap::new(), ..tcp.clone() };
    capture.offered(first.at, first.link, &packet, Admission::Accepted);
    assert!(capture.packets[0].comment().is_some_and(|comment| comment.contains("on its way")));
    let mut marked = packet.clone();
    marked.ecn = EcnCodepoint::CongestionExperienced;
    capture.delivered(first.at, first.link, &marked);
    assert_eq!(capture.packets[0].comment(), Some("marked by the queue (ECN)"));
    let mut damaged = packet;
    if let Payload::Tcp(tcp) = &mut damaged.payload {
        tcp.is_corrupted = true;
    }
    capture.packets[0].deliveries = 0;
    capture.delivered(first.at, first.link, &damaged);
    assert_eq!(capture.packets[0].comment(), Some("delivered damaged"));
    capture.delivered(first.at, first.link, &damaged);
    assert_eq!(capture.packets[0].comment(), Some("delivered more than once"));
}

/// Datagrams at a constant rate for a second.
fn udp() -> Capture {
    let path =
        Topology::path(&[Duplex::symmetric(LinkConfig { loss: LossModel::Exact(vec![3]), ..LinkConfig::default() })]);
    let cbr = Workload::Cbr(Cbr {
        rate: festina_units::Bandwidth::from_bits_per_second(80_000),
        size: ByteCount::from_bytes(500),
    });
    let sender =
        UdpHost::new(path.sender, 1).with_flow(path.receiver, &cbr, Instant::ZERO, Some(Instant::from_secs(1)));
    let hosts: Vec<Host> = vec![sender.into(), UdpHost::new(path.receiver, 1).into()];
    let capture = Capture::of(&path.topology);
    let mut simulation: Simulation<Packet, Host, Capture> = Simulation::with_tap(path.topology, hosts, 1, capture);
    simulation.run_until(Instant::from_secs(2));
    simulation.into_tap()
}

/// What tshark prints about a file; `None` if it is not installed.
fn tshark(path: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(path)
        .args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"])
        .args(["-o", "udp.check_checksum:TRUE", "-o", "sctp.checksum:CRC 32c"])
        .args(arguments)
        .output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        output => output.expect("tshark can be run"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn tshark_dissects_every_packet_without_complaint() {
    let folder = Folder::new("tshark");
    let ecn = stream(Stack::tcp(TcpConfig { ecn: true, sack: true, ..TcpConfig::new_reno() }));
    for (name, capture) in [("tcp", tcp()), ("ecn", ecn), ("sctp", sctp()), ("udp", udp())] {
        let path = capture.write(&folder.0, name, None).expect("the folder can be written").remove(0);
        let Some(details) = tshark(&path, &["-V"]) else {
            assert!(std::env::var_os("CI").is_none(), "CI must have tshark installed");
            println!("skipped: tshark is not installed");
            return;
        };
        for complaint in ["Malformed", "incorrect", "Bad checksum", "truncated", "unreassembled"] {
            let line = details.lines().find(|line| line.contains(complaint));
            assert_eq!(line, None, "{name}: tshark says \"{complaint}\"");
        }
        let good = "!(ip.checksum.status == 0) && (tcp.checksum.status == 1 || udp.checksum.status == 1 || \
                    sctp.checksum.status == 1)";
        let good = tshark(&path, &["-Y", good]).expect("it is installed");
        assert_eq!(good.lines().count(), capture.packets.len(), "{name}");
        if name == "tcp" {
            let seen = tshark(&path, &["-Y", "tcp.analysis.retransmission"]).expect("it is installed");
            assert!(seen.lines().count() > 3, "tshark sees the retransmissions");
            let holes = tshark(&path, &["-Y", "tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment"]);
            assert_eq!(holes.as_deref(), Some(""), "nothing was sent that the capture does not hold");
        }
    }
}

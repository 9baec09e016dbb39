//! A capture with SCTP packets, read by tshark.

use std::env;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use festina_sctp::wire::{ChunkOut, CommonHeader, DataHeader, InitOut, PacketBuilder, Parameter, Ssn, StreamId, Tsn};
use festina_trace::{PcapngWriter, ip, read_flows};
use festina_units::{EcnCodepoint, Instant};

const START: Instant = Instant::from_nanos(1_700_000_000_123_456_789);

/// Builds one SCTP packet.
fn sctp_packet(verification_tag: u32, add: impl FnOnce(&mut PacketBuilder<'_>) -> bool) -> Vec<u8> {
    let header = CommonHeader { source_port: 5_000, destination_port: 5_001, verification_tag };
    let mut bytes = Vec::new();
    let mut builder = PacketBuilder::new(&mut bytes, header, 1_200);
    assert!(add(&mut builder), "the chunks fit");
    builder.finish();
    bytes
}

fn init(parameters: &'static [Parameter<'static>]) -> InitOut<'static> {
    InitOut {
        initiate_tag: 0x0102_0304,
        a_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 65_535,
        initial_tsn: Tsn(1),
        parameters,
    }
}

fn data(tsn: u32, payload_is_whole: bool) -> DataHeader {
    DataHeader {
        tsn: Tsn(tsn),
        stream: StreamId(3),
        ssn: Ssn(0),
        ppid: 51,
        unordered: false,
        beginning: true,
        end: payload_is_whole,
        immediate: true,
    }
}

/// One packet of every kind that an association sends, with the chunk types that tshark shall see.
fn sctp_packets() -> Vec<(&'static str, Vec<u8>)> {
    const COOKIE: &[u8] = &[0xc0; 61];
    vec![
        ("1", sctp_packet(0, |p| p.chunk(&ChunkOut::Init(init(&[]))))),
        ("2", sctp_packet(1, |p| p.chunk(&ChunkOut::InitAck(init(&[Parameter::StateCookie(COOKIE)]))))),
        (
            "10,0",
            sctp_packet(2, |p| p.chunk(&ChunkOut::CookieEcho(COOKIE)) && p.data(&data(1, true), b"a thin message")),
        ),
        (
            "11,3",
            sctp_packet(1, |p| {
                let gaps = [(2, 2), (4, 5)].into_iter();
                p.chunk(&ChunkOut::CookieAck) && p.sack(Tsn(1), 65_000, gaps, [Tsn(1)].into_iter())
            }),
        ),
        ("0,0", sctp_packet(2, |p| p.data(&data(2, true), b"odd") && p.data(&data(3, false), &[7; 1_000]))),
        ("4", sctp_packet(2, |p| p.chunk(&ChunkOut::Heartbeat { info: b"nonce" }))),
        ("8", sctp_packet(2, |p| p.chunk(&ChunkOut::ShutdownAck))),
    ]
}

/// Writes every packet in every encapsulation. Returns what tshark shall say about each.
fn write_capture(path: &Path) -> Vec<String> {
    let file = BufWriter::new(File::create(path).expect("the test can write its file"));
    let mut capture = PcapngWriter::new(file).expect("written");
    let v4: [IpAddr; 2] = [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()];
    let v6: [IpAddr; 2] = [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let port = 9_899;
    let mut expected = Vec::new();
    for name in ["ipv4", "ipv6", "udp"] {
        let interface = capture.add_interface(name).expect("written");
        for (chunk_types, sctp) in sctp_packets() {
            let packet = match name {
                "ipv4" => ip::encapsulate_sctp(v4[0], v4[1], EcnCodepoint::NotCapable, &sctp),
                "ipv6" => ip::encapsulate_sctp(v6[0], v6[1], EcnCodepoint::NotCapable, &sctp),
                _ => ip::encapsulate_udp(SocketAddr::new(v4[0], port), SocketAddr::new(v4[1], port), &sctp),
            }
            .expect("short packets of one family");
            let comment = format!("chunks {chunk_types}");
            capture.write_packet(interface, START, &packet, Some(&comment)).expect("written");
            expected.push(format!("{name}|1700000000.123456789|{chunk_types}|{comment}"));
        }
    }
    capture.finish().expect("written");
    expected
}

/// What tshark prints when it reads `path` and checks all checksums; `None` if it is not installed.
fn tshark(path: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(path)
        .args(["-o", "ip.check_checksum:TRUE"])
        .args(["-o", "udp.check_checksum:TRUE"])
        .args(["-o", "sctp.checksum:CRC 32c"])
        .args(arguments)
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.expect("tshark can be run"),
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file of this process alone, removed at the end.
struct ScratchFile(PathBuf);

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // A leftover in the temporary directory is no reason to fail.
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn tshark_dissects_the_capture_without_complaint() {
    let name = format!("festina-trace-{}.pcapng", std::process::id());
    let file = ScratchFile(env::temp_dir().join(name));
    let expected = write_capture(&file.0);

    let Some(details) = tshark(&file.0, &["-V"]) else {
        assert!(env::var_os("CI").is_none(), "CI must have tshark installed");
        println!("skipped: tshark is not installed");
        return;
    };
    for complaint in ["Malformed", "malformed", "incorrect", "Bad", "truncated"] {
        let line = details.lines().find(|line| line.contains(complaint));
        assert_eq!(line, None, "tshark says \"{complaint}\"");
    }

    let good_checksums = tshark(
        &file.0,
        &["-Y", "sctp.checksum.status == good && !(ip.checksum.status == bad) && !(udp.checksum.status == bad)"],
    )
    .expect("it is installed");
    assert_eq!(good_checksums.lines().count(), expected.len());

    let fields = tshark(
        &file.0,
        &[
            "-T",
            "fields",
            "-E",
            "separator=|",
            "-e",
            "frame.interface_name",
            "-e",
            "frame.time_epoch",
            "-e",
            "sctp.chunk_type",
            "-e",
            "frame.comment",
        ],
    )
    .expect("it is installed");
    assert_eq!(fields.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_tshark_writes_as_pcap_reads_back_as_the_same_flows() {
    let name = |extension| env::temp_dir().join(format!("festina-trace-again-{}.{extension}", std::process::id()));
    let (pcapng, pcap) = (ScratchFile(name("pcapng")), ScratchFile(name("pcap")));
    write_capture(&pcapng.0);
    let arguments = ["-F", "nsecpcap", "-w", pcap.0.to_str().expect("a plain path")];
    if tshark(&pcapng.0, &arguments).is_none() {
        assert!(env::var_os("CI").is_none(), "CI must have tshark installed");
        println!("skipped: tshark is not installed");
        return;
    }
    let [ours, theirs] = [&pcapng, &pcap]
        .map(|file| read_flows(BufReader::new(File::open(&file.0).expect("it was written"))).expect("a sound capture"));
    assert!(ours.len() >= 3, "SCTP over IPv4 and IPv6, and UDP");
    assert_eq!(ours, theirs);
}

//! How fast captures are analysed, and in how much memory.
//!
//! ```text
//! cargo run --release -p festina-trace --example measure -- make flows.pcapng 2000000
//! cargo run --release -p festina-trace --example measure -- analyse flows.pcapng
//! cargo run --release -p festina-trace --example measure -- scan 10000000
//! cargo run --release -p festina-trace --example measure -- talk 2000000
//! cargo run --release -p festina-trace --example measure -- list flows.pcapng
//! ```
//!
//! `list` prints a line for each retransmission: packet, cause, how sure, and whether it was spurious; and one for each packet that came
//! out of order. `make` writes TCP conversations of small segments and sends every fiftieth twice; `scan` analyses a SYN to each of many
//! ports, made while it is read, and `talk` a question to each and its answer.

use std::fs::File;
use std::io::{BufWriter, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant as Clock;

use festina_trace::{Analyser, AnalyserOptions, Finding, PcapngWriter, TcpSegment, analyse, encapsulate_tcp};
use festina_units::Instant;

const CONVERSATIONS: u64 = 1_000;
const USAGE: &str = "make FILE PACKETS | analyse FILE | scan FLOWS | talk FLOWS | list FILE";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", file, packets] => make(file, packets.parse()?),
        ["analyse", file] => measured(File::open(file)?),
        ["scan", flows] => measured(Scan::new(flows.parse()?, 1)),
        ["talk", flows] => measured(Scan::new(flows.parse()?, 2)),
        ["list", file] => list(file),
        _ => Err(USAGE.into()),
    }
}

/// Data and acknowledgement in turns.
fn make(file: &str, packets: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = PcapngWriter::new(BufWriter::new(File::create(file)?))?;
    let interface = writer.add_interface("made")?;
    let payload = [0; 100];
    for number in 0..packets {
        let (conversation, turn) = (number / 2 % CONVERSATIONS, number / 2 / CONVERSATIONS);
        let client = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0001), 10_000 + u16::try_from(conversation)?));
        let server = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0002), 80));
        let written = turn - turn / 50;
        let sequence = u32::try_from(written * 100 % (1 << 32))?;
        let packet = match number % 2 {
            0 => {
                let segment = TcpSegment { sequence, ack: Some(1), payload: &payload, ..TcpSegment::default() };
                encapsulate_tcp(client, server, &segment)?
            }
            _ => {
                let ack = Some(sequence.wrapping_add(100));
                encapsulate_tcp(server, client, &TcpSegment { sequence: 1, ack, ..TcpSegment::default() })?
            }
        };
        writer.write_packet(interface, Instant::from_micros(1_000_000 + 5 * number), &packet, None)?;
    }
    writer.finish()?;
    Ok(())
}

fn list(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let analyser = Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() });
    let (_, result) = analyse(File::open(file)?, analyser, |finding| match finding {
        Finding::Retransmission(copy) => {
            println!("{} {} {} {}", copy.packet, copy.cause.name(), copy.confidence.name(), copy.is_spurious);
        }
        Finding::OutOfOrder(late) => println!("{} out-of-order", late.packet),
        _ => {}
    });
    Ok(result?)
}

fn measured(source: impl Read) -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    let started = Clock::now();
    let mut resent = 0;
    let (summary, result) = analyse(source, Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding {
            resent += stream.repair.retransmissions();
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    result?;
    println!(
        "{summary:?}\n{resent} retransmissions, {seconds:.2} s, {:.0} packets a second",
        summary.packets as f64 / seconds
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("peak memory is not known"));
    Ok(())
}

/// A capture that is never whole anywhere: of SYNs, or of a question and an answer in each conversation.
struct Scan {
    left: u64,
    next: u64,
    packets_each: u64,
    ready: Vec<u8>,
    read: usize,
}

impl Scan {
    fn new(flows: u64, packets_each: u64) -> Self {
        Self { left: flows * packets_each, next: 0, packets_each, ready: Vec::new(), read: 0 }
    }

    fn packet(&mut self) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        self.next += 1;
        let from = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0001), 40_000));
        let flow = number / self.packets_each;
        let address = Ipv4Addr::from_bits(0x0b00_0000 + u32::try_from(flow / 60_000).ok()?);
        let to = SocketAddr::from((address, u16::try_from(flow % 60_000).ok()? + 1));
        let packet = match (self.packets_each, number % self.packets_each) {
            (1, _) => encapsulate_tcp(from, to, &TcpSegment { sequence: 7, syn: true, ..TcpSegment::default() }),
            (_, turn) => {
                let (source, destination) = if turn == 0 { (from, to) } else { (to, from) };
                let (sequence, ack) = if turn == 0 { (7, 9) } else { (9, 107) };
                let segment = TcpSegment { sequence, ack: Some(ack), payload: &[0; 100], ..TcpSegment::default() };
                encapsulate_tcp(source, destination, &segment)
            }
        };
        let packet = packet.ok()?;
        let len = u32::try_from(packet.len()).ok()?;
        let micros = 5 * number;
        let mut record = Vec::new();
        for word in [u32::try_from(micros / 1_000_000).ok()?, u32::try_from(micros % 1_000_000).ok()?, len, len] {
            record.extend(word.to_le_bytes());
        }
        record.extend(packet);
        Some(record)
    }
}

impl Read for Scan {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.read == self.ready.len() {
            self.read = 0;
            self.ready.clear();
            if self.next == 0 {
                for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
                    self.ready.extend(word.to_le_bytes());
                }
            }
            match self.packet() {
                Some(record) => self.ready.extend(record),
                None if self.ready.is_empty() => return Ok(0),
                None => {}
            }
        }
        let rest = &self.ready[self.read..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.read += len;
        Ok(len)
    }
}

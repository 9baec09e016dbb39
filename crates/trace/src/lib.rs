//! Writing and reading packet captures.
//!
//! Writing, for Wireshark and tshark:
//!
//! - [`pcapng`]: writes a capture file, with nanosecond timestamps, interface names and comments
//! - [`ip`]: puts an SCTP packet or a UDP payload into an IP packet
//! - [`tcp`]: the same for a TCP segment
//!
//! Reading, from tcpdump, Wireshark and others:
//!
//! - [`read`]: the packets of a pcap or pcapng file
//! - `dissect`: the data behind link and IP headers, and the SCTP packets of encrypted associations
//! - [`flow`]: times and sizes of each flow's writes, for a replay
//! - [`analysis`]: the streams of a capture: thinness, losses, repair, delays
//!
//! ```
//! use festina_trace::{PcapngWriter, ip};
//! use festina_units::{EcnCodepoint, Instant};
//!
//! let mut file = Vec::new();
//! let mut capture = PcapngWriter::new(&mut file)?;
//! let interface = capture.add_interface("forward")?;
//!
//! let sctp_packet = [0; 12];
//! let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//! let packet = ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &sctp_packet)?;
//! let at = Instant::from_secs(1_700_000_000);
//! capture.write_packet(interface, at, &packet, Some("lost on the wire"))?;
//! capture.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod analysis;
mod bytes;
mod compression;
mod dissect;
mod error;
pub mod flow;
mod histogram;
pub mod ip;
pub mod pcapng;
mod protocol;
pub mod read;
pub mod tcp;

pub use analysis::{
    Analyser, AnalyserOptions, Cause, Confidence, Finding, LiveStream, ReceiverSide, StreamReport, analyse,
};
pub use dissect::Decryption;
pub use error::ReadError;
pub use flow::{Flow, FlowWrite, Protocol, read_flows};
pub use histogram::Histogram;
pub use ip::EncapsulationError;
pub use pcapng::{InterfaceId, PcapngWriter};
pub use read::{CapturedPacket, PacketReader};
pub use tcp::{TcpOption, TcpSegment, encapsulate_tcp};

//! Errors of captures.

use std::io;

/// The reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system cannot read the file, or it is compressed and cannot be expanded.
    #[error("the capture cannot be read beyond byte {offset}")]
    Io {
        /// How many bytes were read, expanded if it is compressed.
        offset: u64,
        /// The error of the system or of the decoder.
        source: io::Error,
    },
    /// The file does not begin like a capture.
    #[error("this is neither a pcap nor a pcapng file")]
    NotACapture,
    /// The source ends before its first byte.
    #[error("the capture is empty: nothing came")]
    Empty,
    /// The file is compressed in a way that is not supported.
    #[error("the capture is compressed by {by}; expand it first with `{by} -dc`")]
    Compressed {
        /// The command that has compressed it.
        by: &'static str,
    },
    /// The file contradicts itself.
    #[error("the capture is damaged at byte {offset}: {problem}")]
    Damaged {
        /// Start of the invalid block or record.
        offset: u64,
        /// Description of the fault.
        problem: &'static str,
    },
    /// The file ends within a packet.
    #[error("the capture ends within a packet, at byte {offset}; it was cut off")]
    CutOff {
        /// Where the packet starts.
        offset: u64,
    },
    /// Packets were captured on an unsupported kind of link.
    #[error(
        "packets of link type {link_type} cannot be read, first at byte {offset}; known are Ethernet, PPP, Cisco HDLC, bare IP, loopback and Linux cooked"
    )]
    LinkType {
        /// The number of the link type.
        link_type: u16,
        /// Where the packet starts.
        offset: u64,
    },
    /// The file exceeds a limit.
    #[error("the capture has more than {max} {what}")]
    TooMuch {
        /// The limited items.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

//! The SCTP packets of encrypted associations, by the keys of the capture or of a key log.

use std::fmt;

use festina_secure::reading::{KeyLog, Reader, Seen, Suites};

use super::Transport;

const UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;
/// Verification tag and checksum, which encrypted packets do without.
const TAG_AND_CHECKSUM: [u8; 8] = [0; 8];

/// Whether a packet belongs to an encrypted association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// None is known.
    None,
    /// It could not be decrypted.
    Kept,
    /// It is an SCTP packet behind a UDP header. On the link it was longer by these bytes.
    Removed { bytes: usize },
}

/// How encrypted associations are read. The secrets of a capture count as well as those of the key log.
#[derive(Clone, Debug)]
pub struct Decryption {
    /// The cipher suites.
    pub suites: &'static Suites,
    /// Secrets that the capture does not hold itself.
    pub keys: KeyLog,
}

/// Decrypts the packets of a capture.
pub(super) struct Decrypter {
    reader: Reader,
    chunks: Vec<u8>,
    /// The latest SCTP packet behind its UDP header.
    packet: Vec<u8>,
    closed: u64,
}

impl Decrypter {
    pub(super) fn new(Decryption { suites, keys }: Decryption) -> Self {
        Self { reader: Reader::new(suites, keys), chunks: Vec::new(), packet: Vec::new(), closed: 0 }
    }

    pub(super) fn add_keys(&mut self, key_log: &[u8]) {
        self.reader.add_keys(key_log);
    }

    pub(super) fn closed(&self) -> u64 {
        self.closed
    }

    fn open<'a>(&'a mut self, found: Transport<'a>) -> Transport<'a> {
        let Some((header, payload)) = found.bytes.split_at_checked(UDP_HEADER_BYTES) else { return found };
        let ports = match self.reader.read(payload, &mut self.chunks) {
            Seen::Foreign => return found,
            Seen::Closed => {
                self.closed += 1;
                return Transport { encryption: Encryption::Kept, ..found };
            }
            Seen::Opened(_, ports) => ports,
        };
        self.packet.clear();
        self.packet.extend_from_slice(header);
        self.packet.extend(ports.into_iter().flat_map(u16::to_be_bytes));
        self.packet.extend(TAG_AND_CHECKSUM);
        self.packet.extend_from_slice(&self.chunks);
        let len = self.packet.len();
        let encryption = Encryption::Removed { bytes: found.len.saturating_sub(len) };
        Transport { bytes: &self.packet, len, encryption, ..found }
    }
}

impl fmt::Debug for Decrypter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Decrypter").field("closed", &self.closed).finish_non_exhaustive()
    }
}

/// Returns the SCTP packet of an encrypted association, and any other packet as it is.
pub(super) fn decrypted<'a>(decrypter: &'a mut Option<Decrypter>, found: Transport<'a>) -> Transport<'a> {
    match decrypter {
        Some(decrypter) if found.protocol == UDP => decrypter.open(found),
        _ => found,
    }
}

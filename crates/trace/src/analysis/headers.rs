//! The contents of a TCP segment or an SCTP packet, as far as they were captured.

use crate::bytes::{u16_at, u32_at};
use crate::dissect::Transport;

/// SACK blocks that fit into a TCP header, and the maximum number of gap ack blocks or duplicates of a SACK chunk that
/// are read.
const TCP_BLOCKS_MAX: usize = 4;
const GAPS_MAX: usize = 64;
const DUPLICATES_MAX: usize = 64;
/// Maximum number of chunks of one packet that are read: more than an Ethernet frame holds, fewer than a jumbo frame of
/// empty chunks.
const CHUNKS_MAX: usize = 512;

/// A TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) sequence: u32,
    pub(super) ack: Option<u32>,
    pub(super) is_syn: bool,
    pub(super) is_fin: bool,
    pub(super) is_rst: bool,
    pub(super) window: u16,
    pub(super) payload_bytes: u32,
    pub(super) sack_permitted: bool,
    /// The largest payload that its sender wants to receive, from a SYN.
    pub(super) segment_bytes_max: Option<u16>,
    /// TSval and TSecr.
    pub(super) timestamps: Option<(u32, u32)>,
    blocks: [(u32, u32); TCP_BLOCKS_MAX],
    blocks_len: usize,
}

impl Tcp {
    /// `None` if the fixed part of the header was not captured or makes no sense.
    pub(super) fn parse(transport: &Transport<'_>) -> Option<Self> {
        let header = transport.bytes.first_chunk::<20>()?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        let payload_bytes = u32::try_from(transport.len.checked_sub(header_bytes.max(20))?).ok()?;
        let flags = header[13];
        let mut tcp = Self {
            sequence: u32_at(header, 4)?,
            ack: (flags & 0x10 != 0).then(|| u32_at(header, 8)).flatten(),
            is_syn: flags & 0x02 != 0,
            is_fin: flags & 0x01 != 0,
            is_rst: flags & 0x04 != 0,
            window: u16_at(header, 14)?,
            payload_bytes,
            ..Self::default()
        };
        let end = header_bytes.min(transport.bytes.len());
        tcp.options(transport.bytes.get(20..end).unwrap_or_default());
        Some(tcp)
    }

    fn options(&mut self, mut options: &[u8]) {
        while let Some((&kind, rest)) = options.split_first() {
            match kind {
                0 => return,
                1 => {
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let Some(len) = rest.first().map(|len| usize::from(*len)).filter(|len| *len >= 2) else { return };
            let Some(value) = options.get(2..len) else { return };
            match kind {
                2 => self.segment_bytes_max = u16_at(value, 0),
                4 => self.sack_permitted = true,
                5 => {
                    for block in value.chunks_exact(8).take(TCP_BLOCKS_MAX) {
                        if let (Some(start), Some(end), Some(free)) =
                            (u32_at(block, 0), u32_at(block, 4), self.blocks.get_mut(self.blocks_len))
                        {
                            *free = (start, end);
                            self.blocks_len += 1;
                        }
                    }
                }
                8 => self.timestamps = u32_at(value, 0).zip(u32_at(value, 4)),
                _ => {}
            }
            options = options.get(len..).unwrap_or_default();
        }
    }

    pub(super) fn blocks(&self) -> &[(u32, u32)] {
        self.blocks.get(..self.blocks_len).unwrap_or_default()
    }
}

/// A DATA or I-DATA chunk (RFC 9260 §3.3.1, RFC 8260 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) tsn: u32,
    pub(super) bytes: u32,
    pub(super) is_beginning: bool,
    pub(super) is_end: bool,
    /// The stream within the association; `None` if it does not wait for others.
    pub(super) ordered_in: Option<u16>,
}

/// A SACK or NR-SACK chunk (RFC 9260 §3.3.4): ranges are of TSNs, the end exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sack {
    pub(super) cumulative: u32,
    pub(super) gaps: Vec<(u32, u32)>,
    pub(super) duplicates: Vec<u32>,
}

/// The parts of an SCTP packet that the analysis needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sctp {
    /// The verification tag.
    pub(super) tag: u32,
    /// The first chunk is HEARTBEAT or its answer.
    pub(super) is_heartbeat: bool,
    pub(super) data: Vec<Data>,
    pub(super) sack: Option<Sack>,
    /// Ranges of TSNs that the sender abandons, the end exclusive (RFC 3758 §3.2, RFC 8260 §2.3.1, E-FORWARD-TSN).
    pub(super) abandoned: Vec<(u32, u32)>,
    /// The sender's first TSN, from INIT. An INIT ACK may be sent several times, each with a different one.
    pub(super) initial_tsn: Option<u32>,
    pub(super) answered_tsn: Option<u32>,
    /// Some chunks lie beyond the captured bytes.
    pub(super) is_cut: bool,
}

impl Sctp {
    /// Reads the chunks behind the common header into `self`, as far as they were captured.
    ///
    /// `len` is how long the packet was on the link.
    pub(super) fn read(&mut self, packet: &[u8], len: usize) {
        const COMMON_HEADER_BYTES: usize = 12;
        const HEARTBEATS: [u8; 2] = [4, 5];
        self.data.clear();
        self.abandoned.clear();
        (self.sack, self.initial_tsn, self.answered_tsn) = (None, None, None);
        self.is_cut = false;
        self.tag = u32_at(packet, 4).unwrap_or(0);
        self.is_heartbeat = packet.get(COMMON_HEADER_BYTES).is_some_and(|chunk_type| HEARTBEATS.contains(chunk_type));
        let mut rest = packet.get(COMMON_HEADER_BYTES..).unwrap_or_default();
        let mut known = COMMON_HEADER_BYTES;
        for _ in 0..CHUNKS_MAX {
            let (Some(&chunk_type), Some(&flags), Some(chunk_bytes)) = (rest.first(), rest.get(1), u16_at(rest, 2))
            else {
                return;
            };
            let chunk_bytes = usize::from(chunk_bytes);
            if chunk_bytes < 4 {
                return;
            }
            self.chunk(chunk_type, flags, chunk_bytes, rest.get(..chunk_bytes).unwrap_or(rest));
            known += chunk_bytes.next_multiple_of(4);
            self.is_cut = known + 4 <= len && known + 4 > packet.len();
            rest = rest.get(chunk_bytes.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// One chunk of `len` bytes; `bytes` were captured.
    fn chunk(&mut self, chunk_type: u8, flags: u8, len: usize, bytes: &[u8]) {
        const DATA: u8 = 0;
        const INIT: u8 = 1;
        const INIT_ACK: u8 = 2;
        const SACK: u8 = 3;
        const NR_SACK: u8 = 16;
        const I_DATA: u8 = 64;
        const FORWARD_TSN: u8 = 192;
        const I_FORWARD_TSN: u8 = 194;
        const E_FORWARD_TSN: u8 = 245;
        /// TSNs below the new cumulative one that may be outstanding.
        const OUTSTANDING_MAX: u32 = 1 << 30;
        match chunk_type {
            DATA | I_DATA => {
                let header_bytes = if chunk_type == DATA { 16 } else { 20 };
                let (Some(tsn), Some(user_bytes)) = (u32_at(bytes, 4), len.checked_sub(header_bytes)) else { return };
                let user_bytes = u32::try_from(user_bytes).unwrap_or(u32::MAX);
                let data = Data {
                    tsn,
                    bytes: user_bytes,
                    is_beginning: flags & 2 != 0,
                    is_end: flags & 1 != 0,
                    ordered_in: u16_at(bytes, 8).filter(|_| flags & 4 == 0),
                };
                self.data.push(data);
            }
            SACK => self.sack = sack(bytes, 16, 12, 14),
            NR_SACK => self.sack = sack(bytes, 20, 12, 16),
            FORWARD_TSN | I_FORWARD_TSN => {
                let through = u32_at(bytes, 4).map(|tsn| tsn.wrapping_add(1));
                self.abandoned.extend(through.map(|through| (through.wrapping_sub(OUTSTANDING_MAX), through)));
            }
            E_FORWARD_TSN => {
                let Some((cumulative, count)) = u32_at(bytes, 4).zip(u16_at(bytes, 8)) else { return };
                let room = GAPS_MAX.saturating_sub(self.abandoned.len()).min(count.into());
                self.abandoned.extend(blocks(bytes.get(12..).unwrap_or_default(), cumulative, room));
            }
            INIT => self.initial_tsn = u32_at(bytes, 16),
            INIT_ACK => self.answered_tsn = u32_at(bytes, 16),
            _ => {}
        }
    }
}

/// A SACK whose lists begin at `lists` and whose numbers of gap ack blocks and of duplicates are at these places. An NR-SACK has the
/// number of its further blocks between the two.
fn sack(bytes: &[u8], lists: usize, gaps_at: usize, duplicates_at: usize) -> Option<Sack> {
    let cumulative = u32_at(bytes, 4)?;
    let gaps = usize::from(u16_at(bytes, gaps_at)?);
    let further = if duplicates_at == gaps_at + 2 { 0 } else { usize::from(u16_at(bytes, gaps_at + 2)?) };
    let duplicates = usize::from(u16_at(bytes, duplicates_at)?);
    let gaps_read = blocks(bytes.get(lists..).unwrap_or_default(), cumulative, gaps + further).collect();
    let list = bytes.get(lists + 4 * (gaps + further)..).unwrap_or_default().chunks_exact(4);
    let duplicates = list.take(duplicates.min(DUPLICATES_MAX)).filter_map(|tsn| u32_at(tsn, 0)).collect();
    Some(Sack { cumulative, gaps: gaps_read, duplicates })
}

/// Returns the ranges of TSNs of gap ack blocks, or of blocks with the same format.
fn blocks(list: &[u8], cumulative: u32, count: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
    let blocks = list.chunks_exact(4).take(count.min(GAPS_MAX));
    blocks.filter_map(|block| u16_at(block, 0).zip(u16_at(block, 2))).map(move |(start, end)| {
        (cumulative.wrapping_add(u32::from(start)), cumulative.wrapping_add(u32::from(end) + 1))
    })
}

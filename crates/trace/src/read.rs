//! Reading captures: pcap, with times in micro- or nanoseconds, and pcapng, in either byte order.
//!
//! A damaged file is an error that says where, never a panic, and costs no more memory than its largest packet.

use std::io::{self, ErrorKind, Read};

use festina_units::Instant;

/// The largest packet and the largest block that make sense.
const PACKET_BYTES_MAX: u32 = 1 << 20;
const BLOCK_BYTES_MAX: u32 = 1 << 22;
/// The most interfaces of one section of a pcapng file.
const INTERFACES_MAX: usize = 65_536;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system cannot read the file.
    #[error("the capture cannot be read")]
    Io(#[from] io::Error),
    /// The file does not begin as captures do.
    #[error("this is neither a pcap nor a pcapng file")]
    NotACapture,
    /// The file contradicts itself.
    #[error("the capture is damaged at byte {offset}: {problem}")]
    Damaged {
        /// Where the block or record starts that makes no sense.
        offset: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file ends within a packet.
    #[error("the capture ends within a packet, at byte {offset}; it was cut off")]
    CutOff {
        /// Where the packet starts.
        offset: u64,
    },
    /// Packets were captured on a kind of link that is not known here.
    #[error("packets of link type {link_type} cannot be read; known are Ethernet, bare IP, loopback and Linux cooked")]
    LinkType {
        /// The number of the link type.
        link_type: u16,
    },
    /// There is more in the file than is read.
    #[error("the capture has more than {max} {what}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How many are read.
        max: usize,
    },
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// When it was seen, counted from the Unix epoch.
    pub at: Instant,
    /// What kind of link it was seen on, a number of the tcpdump group's list.
    pub link_type: u16,
    /// Its bytes, as far as they were captured.
    pub data: &'a [u8],
    /// How many bytes it had on the link.
    pub original_bytes: u32,
}

/// Reads the packets of a capture one by one. Wrap a file into a [`BufReader`](io::BufReader).
#[derive(Debug)]
pub struct PacketReader<R> {
    source: Source<R>,
    format: Format,
    /// The body of the record or block at hand.
    body: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Pcap { order: Order, units_per_s: u64, link_type: u16 },
    Pcapng { order: Order, interfaces: Vec<Interface> },
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    units_per_s: u64,
    offset_s: i64,
}

/// Where a packet stands in the body and what is known about it.
struct Found {
    at: Instant,
    link_type: u16,
    start: usize,
    end: usize,
    original_bytes: u32,
}

impl<R: Read> PacketReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// If the source fails or this is no capture.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut source = Source { inner: source, offset: 0, record_start: 0 };
        let mut magic = [0; 4];
        source.fill(&mut magic).map_err(|error| match error {
            ReadError::CutOff { .. } => ReadError::NotACapture,
            other => other,
        })?;
        let format = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => pcap(&mut source, Order::Big, MICROSECONDS)?,
            [0xd4, 0xc3, 0xb2, 0xa1] => pcap(&mut source, Order::Little, MICROSECONDS)?,
            [0xa1, 0xb2, 0x3c, 0x4d] => pcap(&mut source, Order::Big, NANOSECONDS)?,
            [0x4d, 0x3c, 0xb2, 0xa1] => pcap(&mut source, Order::Little, NANOSECONDS)?,
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::Pcapng { order: section(&mut source)?, interfaces: Vec::new() },
            _ => return Err(ReadError::NotACapture),
        };
        Ok(Self { source, format, body: Vec::new() })
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// If the source fails, or the file is damaged or ends within a packet.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, ReadError> {
        let Self { source, format, body } = self;
        let found = match format {
            Format::Pcap { order, units_per_s, link_type } => {
                record(source, *order, body)?.map(|(seconds, fraction, original_bytes)| {
                    let at = time(0, seconds, u64::from(fraction), *units_per_s);
                    Found { at, link_type: *link_type, start: 0, end: body.len(), original_bytes }
                })
            }
            Format::Pcapng { order, interfaces } => packet_block(source, order, interfaces, body)?,
        };
        Ok(found.map(|found| CapturedPacket {
            at: found.at,
            link_type: found.link_type,
            data: body.get(found.start..found.end).unwrap_or_default(),
            original_bytes: found.original_bytes,
        }))
    }
}

const MICROSECONDS: u64 = 1_000_000;
const NANOSECONDS: u64 = 1_000_000_000;

/// The file header of pcap, behind the magic number.
fn pcap<R: Read>(source: &mut Source<R>, order: Order, units_per_s: u64) -> Result<Format, ReadError> {
    let mut header = [0; 20];
    source.fill(&mut header)?;
    // Above the type are flags about checksums of Ethernet frames.
    let link_type = order.low_half(order.u32_at(&header, 16));
    Ok(Format::Pcap { order, units_per_s, link_type })
}

/// One record of pcap, whose data goes to `body`: seconds, fraction and original length.
fn record<R: Read>(
    source: &mut Source<R>,
    order: Order,
    body: &mut Vec<u8>,
) -> Result<Option<(u64, u32, u32)>, ReadError> {
    let mut header = [0; 16];
    if !source.begin(&mut header)? {
        return Ok(None);
    }
    let [seconds, fraction, len, original_bytes] = [0, 4, 8, 12].map(|at| order.u32_at(&header, at));
    if len > PACKET_BYTES_MAX {
        return Err(source.damaged("a packet of more than a megabyte"));
    }
    source.take(len, body)?;
    Ok(Some((u64::from(seconds), fraction, original_bytes)))
}

mod block {
    pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const OLD_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const PACKET: u32 = 6;
    /// Type, length, and length again.
    pub(super) const FRAME_BYTES: u32 = 12;
}

/// A section header behind its type. It says in which byte order all that follows is written.
fn section<R: Read>(source: &mut Source<R>) -> Result<Order, ReadError> {
    let mut start = [0; 8];
    source.fill(&mut start)?;
    let order = match start {
        [_, _, _, _, 0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
        [_, _, _, _, 0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
        _ => return Err(source.damaged("a section without a byte order")),
    };
    let len = order.u32_at(&start, 0);
    // The byte order has been read already.
    let mut body = Vec::new();
    source.block_body(len, 4, order, &mut body)?;
    Ok(order)
}

/// Reads blocks until one holds a packet.
fn packet_block<R: Read>(
    source: &mut Source<R>,
    order: &mut Order,
    interfaces: &mut Vec<Interface>,
    body: &mut Vec<u8>,
) -> Result<Option<Found>, ReadError> {
    loop {
        let mut block_type = [0; 4];
        if !source.begin(&mut block_type)? {
            return Ok(None);
        }
        if block_type == block::SECTION {
            *order = section(source)?;
            interfaces.clear();
            continue;
        }
        let mut len = [0; 4];
        source.fill(&mut len)?;
        source.block_body(order.u32_at(&len, 0), 0, *order, body)?;
        match order.u32_at(&block_type, 0) {
            block::INTERFACE => {
                if interfaces.len() == INTERFACES_MAX {
                    return Err(ReadError::TooMuch { what: "interfaces", max: INTERFACES_MAX });
                }
                interfaces.push(interface(source, *order, body)?);
            }
            block::PACKET => {
                let index = order.u32_at(body, 0);
                return packet(source, *order, interfaces, index, body).map(Some);
            }
            block::OLD_PACKET => {
                let index = u32::from(order.u16_at(body, 0));
                return packet(source, *order, interfaces, index, body).map(Some);
            }
            block::SIMPLE_PACKET => return Err(source.damaged("packets without times, which cannot be replayed")),
            _ => {}
        }
    }
}

fn interface<R>(source: &Source<R>, order: Order, body: &[u8]) -> Result<Interface, ReadError> {
    const OPTIONS_START: usize = 8;
    const TSRESOL: u16 = 9;
    const TSOFFSET: u16 = 14;

    let mut interface = Interface { link_type: order.u16_at(body, 0), units_per_s: MICROSECONDS, offset_s: 0 };
    let mut options = body.get(OPTIONS_START..).unwrap_or_default();
    while let Some((head, rest)) = options.split_at_checked(4) {
        let (code, len) = (order.u16_at(head, 0), usize::from(order.u16_at(head, 2)));
        let Some(value) = rest.get(..len) else {
            return Err(source.damaged("an option of an interface that is longer than its block"));
        };
        match (code, value) {
            (TSRESOL, [resolution]) => {
                interface.units_per_s = units_per_s(*resolution)
                    .ok_or_else(|| source.damaged("an interface with a resolution of time that has no use"))?;
            }
            (TSOFFSET, &[_, _, _, _, _, _, _, _]) => interface.offset_s = order.u64_at(value, 0).cast_signed(),
            _ => {}
        }
        options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(interface)
}

/// Units in a second: a power of ten, or of two if the highest bit is set.
fn units_per_s(resolution: u8) -> Option<u64> {
    match resolution & 0x80 {
        0 => 10u64.checked_pow(u32::from(resolution)),
        _ => 2u64.checked_pow(u32::from(resolution & 0x7f)),
    }
}

/// A packet block: two words of time, captured and original length, and the bytes, behind the word that names the interface.
fn packet<R>(
    source: &Source<R>,
    order: Order,
    interfaces: &[Interface],
    index: u32,
    body: &[u8],
) -> Result<Found, ReadError> {
    const DATA_START: usize = 20;
    let interface = usize::try_from(index).ok().and_then(|index| interfaces.get(index));
    let interface = interface.ok_or_else(|| source.damaged("a packet of an interface that was not described"))?;
    let [high, low, len, original_bytes] = [4, 8, 12, 16].map(|at| order.u32_at(body, at));
    let end = usize::try_from(len).ok().and_then(|len| DATA_START.checked_add(len)).filter(|end| *end <= body.len());
    let end = end.ok_or_else(|| source.damaged("a packet that is longer than its block"))?;
    let units = u64::from(high) << 32 | u64::from(low);
    let at = time(interface.offset_s, 0, units, interface.units_per_s);
    Ok(Found { at, link_type: interface.link_type, start: DATA_START, end, original_bytes })
}

/// A time in nanoseconds; what lies outside of the range of [`Instant`] is moved to its edge.
fn time(offset_s: i64, seconds: u64, units: u64, units_per_s: u64) -> Instant {
    let fraction_ns = u128::from(units) * u128::from(NANOSECONDS) / u128::from(units_per_s.max(1));
    let whole_s = i128::from(offset_s) + i128::from(seconds);
    let total_ns = whole_s * i128::from(NANOSECONDS) + i128::try_from(fraction_ns).unwrap_or(i128::MAX / 2);
    let bounded = total_ns.clamp(0, i128::from(u64::MAX));
    Instant::from_nanos(u64::try_from(bounded).unwrap_or(u64::MAX))
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

impl Order {
    /// The number at `at`; zero beyond the end, which lengths have ruled out where it matters.
    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
        match self {
            Self::Big => u32::from_be_bytes(word),
            Self::Little => u32::from_le_bytes(word),
        }
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        let half = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).copied().unwrap_or_default();
        match self {
            Self::Big => u16::from_be_bytes(half),
            Self::Little => u16::from_le_bytes(half),
        }
    }

    fn u64_at(self, bytes: &[u8], at: usize) -> u64 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).copied().unwrap_or_default();
        match self {
            Self::Big => u64::from_be_bytes(word),
            Self::Little => u64::from_le_bytes(word),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the other half is not wanted")]
    fn low_half(self, word: u32) -> u16 {
        word as u16
    }
}

/// The bytes of the file, and where we are in them.
#[derive(Debug)]
struct Source<R> {
    inner: R,
    offset: u64,
    /// Where the record or block at hand starts.
    record_start: u64,
}

impl<R> Source<R> {
    fn damaged(&self, problem: &'static str) -> ReadError {
        ReadError::Damaged { offset: self.record_start, problem }
    }
}

impl<R: Read> Source<R> {
    /// Reads the start of a record or block; `false` if the file ends in front of it.
    fn begin(&mut self, start: &mut [u8]) -> Result<bool, ReadError> {
        self.record_start = self.offset;
        let Some((first, rest)) = start.split_first_mut() else {
            return Ok(true);
        };
        let read = loop {
            match self.inner.read(std::slice::from_mut(first)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if read == 0 {
            return Ok(false);
        }
        self.offset += 1;
        self.fill(rest)?;
        Ok(true)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.offset = self.offset.saturating_add(bytes.len() as u64);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(ReadError::CutOff { offset: self.record_start })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces `body` by the next `len` bytes.
    fn take(&mut self, len: u32, body: &mut Vec<u8>) -> Result<(), ReadError> {
        body.clear();
        // Not reserved at once: a length that lies costs no more memory than there are bytes.
        let read = self.inner.by_ref().take(u64::from(len)).read_to_end(body)?;
        self.offset = self.offset.saturating_add(read as u64);
        if read as u64 == u64::from(len) { Ok(()) } else { Err(ReadError::CutOff { offset: self.record_start }) }
    }

    /// Reads the rest of a block of `len` bytes, `read` bytes of whose body are known, and the length at its end.
    fn block_body(&mut self, len: u32, read: u32, order: Order, body: &mut Vec<u8>) -> Result<(), ReadError> {
        if !len.is_multiple_of(4) || !(block::FRAME_BYTES + read..=BLOCK_BYTES_MAX).contains(&len) {
            return Err(self.damaged("a block whose length makes no sense"));
        }
        self.take(len - block::FRAME_BYTES - read, body)?;
        let mut again = [0; 4];
        self.fill(&mut again)?;
        if order.u32_at(&again, 0) == len { Ok(()) } else { Err(self.damaged("a block whose two lengths differ")) }
    }
}

#[cfg(test)]
mod tests;

//! Reading captures: pcap, with times in micro- or nanoseconds, and pcapng, in either byte order, bare or compressed by gzip or zstd.
//!
//! A damaged file gives an error with its place, never a panic, and needs no more memory than its largest block and its secrets.
//! Packets before the damage are returned.

mod source;

use std::io::Read;

use source::Source;

use festina_units::Instant;

use crate::error::ReadError;
use crate::pcapng::SECRETS_TLS_KEY_LOG;

/// Maximum size of a packet, and of a block without secrets.
const PACKET_BYTES_MAX: u32 = 1 << 20;
const BLOCK_BYTES_MAX: u32 = 1 << 22;
/// Maximum number of interfaces of one section of a pcapng file.
const INTERFACES_MAX: usize = 65_536;
/// Maximum number of bytes of secrets between two packets: as many as the command reads from a key log.
const SECRETS_BYTES_MAX: u32 = 1 << 26;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Its number, counted from 1 as Wireshark does.
    pub number: u64,
    /// Where its record starts in the file, expanded if it is compressed.
    pub offset: u64,
    /// When it was seen, counted from the Unix epoch.
    pub at: Instant,
    /// The kind of link on which it was seen, a number of the tcpdump group's list.
    pub link_type: u16,
    /// Its bytes, as far as they were captured.
    pub data: &'a [u8],
    /// How many bytes it had on the link.
    pub original_bytes: u32,
    /// Key logs of TLS in the format of NSS that the file holds between this packet and the one before (Decryption Secrets Blocks).
    pub secrets: &'a [u8],
}

/// Reads the packets of a capture one by one, a quarter of a megabyte at a time.
#[derive(Debug)]
pub struct PacketReader<R: Read> {
    source: Source<R>,
    format: Format,
    packets: u64,
    /// Secrets since the last packet.
    secrets: Vec<u8>,
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

/// A packet and its metadata.
struct Found<'a> {
    at: Instant,
    link_type: u16,
    data: &'a [u8],
    original_bytes: u32,
}

impl<R: Read> PacketReader<R> {
    /// Opens a capture.
    ///
    /// # Errors
    /// If the source fails or this is no capture.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut source = Source::new(source)?;
        if !source.begin()? {
            return Err(ReadError::Empty);
        }
        let magic = match source.take(4) {
            Ok(magic) => magic.first_chunk::<4>().copied().unwrap_or_default(),
            Err(ReadError::CutOff { .. }) => return Err(ReadError::NotACapture),
            Err(other) => return Err(other),
        };
        let format = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => pcap(&mut source, Order::Big, MICROSECONDS)?,
            [0xd4, 0xc3, 0xb2, 0xa1] => pcap(&mut source, Order::Little, MICROSECONDS)?,
            [0xa1, 0xb2, 0x3c, 0x4d] => pcap(&mut source, Order::Big, NANOSECONDS)?,
            [0x4d, 0x3c, 0xb2, 0xa1] => pcap(&mut source, Order::Little, NANOSECONDS)?,
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::Pcapng { order: section(&mut source)?, interfaces: Vec::new() },
            [0xfd, b'7', b'z', b'X'] => return Err(ReadError::Compressed { by: "xz" }),
            [b'B', b'Z', b'h', _] => return Err(ReadError::Compressed { by: "bzip2" }),
            _ => return Err(ReadError::NotACapture),
        };
        Ok(Self { source, format, packets: 0, secrets: Vec::new() })
    }

    /// Returns the next packet, or `None` at the end.
    ///
    /// # Errors
    /// If the source fails, or the file is damaged or ends within a packet.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, ReadError> {
        let Self { source, format, packets, secrets } = self;
        secrets.clear();
        let is_there = match format {
            Format::Pcap { .. } => source.begin()?,
            Format::Pcapng { order, interfaces } => find_packet(source, order, interfaces, secrets)?,
        };
        if !is_there {
            return Ok(None);
        }
        *packets += 1;
        let (number, offset) = (*packets, source.record_start);
        let Found { at, link_type, data, original_bytes } = match format {
            Format::Pcap { order, units_per_s, link_type } => record(source, *order, *units_per_s, *link_type)?,
            Format::Pcapng { order, interfaces } => packet(source, *order, interfaces)?,
        };
        Ok(Some(CapturedPacket { number, offset, at, link_type, data, original_bytes, secrets }))
    }
}

const MICROSECONDS: u64 = 1_000_000;
const NANOSECONDS: u64 = 1_000_000_000;

/// Reads the file header of pcap, behind the magic number.
fn pcap<R: Read>(source: &mut Source<R>, order: Order, units_per_s: u64) -> Result<Format, ReadError> {
    let header = source.take(20)?;
    // Above the type are flags about checksums of Ethernet frames.
    let link_type = order.low_half(order.u32_at(header, 16));
    Ok(Format::Pcap { order, units_per_s, link_type })
}

/// Reads one record of pcap.
fn record<R: Read>(
    source: &mut Source<R>,
    order: Order,
    units_per_s: u64,
    link_type: u16,
) -> Result<Found<'_>, ReadError> {
    let header = source.take(16)?;
    let [seconds, fraction, len, original_bytes] = [0, 4, 8, 12].map(|at| order.u32_at(header, at));
    if len > PACKET_BYTES_MAX {
        return Err(source.damaged("a packet of more than a megabyte"));
    }
    let at = time(0, u64::from(seconds), u64::from(fraction), units_per_s);
    let data = source.take(usize::try_from(len).unwrap_or(usize::MAX))?;
    Ok(Found { at, link_type, data, original_bytes })
}

mod block {
    pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const OLD_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const PACKET: u32 = 6;
    pub(super) const SECRETS: u32 = 10;
    /// Type, length, and length again.
    pub(super) const FRAME_BYTES: u32 = 12;
}

/// Reads a section header, behind its type, and returns the byte order of the section.
fn section<R: Read>(source: &mut Source<R>) -> Result<Order, ReadError> {
    let start = source.take(8)?;
    let order = match start {
        [_, _, _, _, 0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
        [_, _, _, _, 0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
        _ => return Err(source.damaged("a section without a byte order")),
    };
    let len = order.u32_at(start, 0);
    // The byte order has been read already.
    source.block_body(len, 4, order, BLOCK_BYTES_MAX)?;
    Ok(order)
}

/// Reads blocks until one contains a packet. Its type has been read then.
fn find_packet<R: Read>(
    source: &mut Source<R>,
    order: &mut Order,
    interfaces: &mut Vec<Interface>,
    secrets: &mut Vec<u8>,
) -> Result<bool, ReadError> {
    while source.begin()? {
        let block_type = source.take(4)?.first_chunk::<4>().copied().unwrap_or_default();
        if block_type == block::SECTION {
            *order = section(source)?;
            interfaces.clear();
            continue;
        }
        let block_type = order.u32_at(&block_type, 0);
        if matches!(block_type, block::PACKET | block::OLD_PACKET) {
            return Ok(true);
        }
        let len = order.u32_at(source.take(4)?, 0);
        let bytes_max = match block_type {
            block::SECRETS if len > SECRETS_BYTES_MAX => return Err(TOO_MANY_SECRETS),
            block::SECRETS => SECRETS_BYTES_MAX,
            _ => BLOCK_BYTES_MAX,
        };
        source.block_body(len, 0, *order, bytes_max)?;
        match block_type {
            block::INTERFACE if interfaces.len() == INTERFACES_MAX => {
                return Err(ReadError::TooMuch { what: "interfaces", max: INTERFACES_MAX });
            }
            block::INTERFACE => interfaces.push(interface(source, *order, usize::try_from(len).unwrap_or(0))?),
            block::SECRETS => take_secrets(source, *order, usize::try_from(len).unwrap_or(0), secrets)?,
            block::SIMPLE_PACKET => return Err(source.damaged("packets without times, which cannot be replayed")),
            _ => {}
        }
    }
    Ok(false)
}

const TOO_MANY_SECRETS: ReadError =
    ReadError::TooMuch { what: "bytes of secrets before a packet", max: SECRETS_BYTES_MAX as usize };

/// Takes a key log out of a block of `len` bytes with secrets (§4.7). Secrets of other protocols are passed over.
fn take_secrets<R: Read>(source: &Source<R>, order: Order, len: usize, secrets: &mut Vec<u8>) -> Result<(), ReadError> {
    const DATA_START: usize = 8;
    let body = block_body(source, len);
    if order.u32_at(body, 0) != SECRETS_TLS_KEY_LOG {
        return Ok(());
    }
    let end = usize::try_from(order.u32_at(body, 4)).ok().and_then(|len| DATA_START.checked_add(len));
    let key_log = end.and_then(|end| body.get(DATA_START..end));
    let key_log = key_log.ok_or_else(|| source.damaged("secrets that are longer than their block"))?;
    if secrets.len() + key_log.len() > SECRETS_BYTES_MAX as usize {
        return Err(TOO_MANY_SECRETS);
    }
    secrets.extend_from_slice(key_log);
    secrets.push(b'\n');
    Ok(())
}

/// Returns the body of a block of `len` bytes that was just read.
fn block_body<R: Read>(source: &Source<R>, len: usize) -> &[u8] {
    const LENGTH_BYTES: usize = 4;
    let body = source.taken(len.saturating_sub(2 * LENGTH_BYTES));
    body.get(..body.len().saturating_sub(LENGTH_BYTES)).unwrap_or_default()
}

/// Parses an interface description of `len` bytes.
fn interface<R: Read>(source: &Source<R>, order: Order, len: usize) -> Result<Interface, ReadError> {
    const OPTIONS_START: usize = 8;
    const TSRESOL: u16 = 9;
    const TSOFFSET: u16 = 14;

    let body = block_body(source, len);
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

/// Returns the units in a second: a power of ten, or of two if the highest bit is set.
fn units_per_s(resolution: u8) -> Option<u64> {
    match resolution & 0x80 {
        0 => 10u64.checked_pow(u32::from(resolution)),
        _ => 2u64.checked_pow(u32::from(resolution & 0x7f)),
    }
}

/// Reads a packet block, behind its type: the interface, two words of time, captured and original length, and the
/// bytes.
fn packet<'a, R: Read>(
    source: &'a mut Source<R>,
    order: Order,
    interfaces: &[Interface],
) -> Result<Found<'a>, ReadError> {
    const DATA_START: usize = 20;
    let is_old = order.u32_at(source.taken(4), 0) == block::OLD_PACKET;
    let len = order.u32_at(source.take(4)?, 0);
    let body = source.block_body(len, 0, order, BLOCK_BYTES_MAX)?;
    let body_bytes = body.len();
    let index = if is_old { u32::from(order.u16_at(body, 0)) } else { order.u32_at(body, 0) };
    let [high, low, len, original_bytes] = [4, 8, 12, 16].map(|at| order.u32_at(body, at));
    let interface = usize::try_from(index).ok().and_then(|index| interfaces.get(index));
    let interface = interface.ok_or_else(|| source.damaged("a packet of an interface that was not described"))?;
    let end = usize::try_from(len).ok().and_then(|len| DATA_START.checked_add(len)).filter(|end| *end <= body_bytes);
    let end = end.ok_or_else(|| source.damaged("a packet that is longer than its block"))?;
    let units = u64::from(high) << 32 | u64::from(low);
    let at = time(interface.offset_s, 0, units, interface.units_per_s);
    // The body is followed by its length.
    let data = source.taken(body_bytes + 4).get(DATA_START..end).unwrap_or_default();
    Ok(Found { at, link_type: interface.link_type, data, original_bytes })
}

/// Returns a time. Times outside the range of [`Instant`] are moved to its edge.
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
    /// Returns the number at `at`, or zero beyond the end, which earlier length checks exclude where it matters.
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

#[cfg(test)]
mod tests;

//! The form in which a DATA or I-DATA chunk is summed into REPAIR chunks: without type, length, TSN, I bit and padding, and without fields that are
//! zero.
//!
//! ```text
//! flags (1) | stream identifier (0 or 2) | SSN (2) or MID (4) | PPID or FSN (0 or 4) | payload ...
//! ```
//!
//! The flags are U, B and E, and a bit for each optional field that is there. A receiver that computes the form of a lost chunk makes the chunk of it.

use super::chunk::{BEGINNING, DataHeader, END, IDataHeader, UNORDERED, flag};
use super::framing::{FragmentHeader, Framing};
use super::serial::{Mid, Ssn, StreamId, Tsn};

/// The stream identifier is there.
const HAS_STREAM: u8 = 1 << 4;
/// PPID or FSN is there.
const HAS_LAST: u8 = 1 << 5;

/// Fields of DATA and I-DATA before the payload, but for the number within the stream.
#[derive(Clone, Copy)]
struct Fields {
    /// U, B and E.
    flags: u8,
    stream: StreamId,
    /// PPID or FSN.
    last: u32,
}

impl Fields {
    fn write(self, number: &[u8], payload: &[u8], symbol: &mut Vec<u8>) {
        let has_stream = flag(self.stream.0 != 0, HAS_STREAM);
        symbol.push(self.flags | has_stream | flag(self.last != 0, HAS_LAST));
        if has_stream != 0 {
            symbol.extend_from_slice(&self.stream.0.to_be_bytes());
        }
        symbol.extend_from_slice(number);
        if self.last != 0 {
            symbol.extend_from_slice(&self.last.to_be_bytes());
        }
        symbol.extend_from_slice(payload);
    }

    /// Takes the fields off the front of a symbol. Returns them with the number and the payload.
    fn read(framing: Framing, mut symbol: &[u8]) -> Option<(Self, u32, &[u8])> {
        let [flags] = take(&mut symbol)?;
        if flags & !(UNORDERED | BEGINNING | END | HAS_STREAM | HAS_LAST) != 0 {
            return None;
        }
        let stream = if flags & HAS_STREAM == 0 { 0 } else { u16::from_be_bytes(take(&mut symbol)?) };
        let number = match framing {
            Framing::Data => u16::from_be_bytes(take(&mut symbol)?).into(),
            Framing::IData => u32::from_be_bytes(take(&mut symbol)?),
        };
        let last = if flags & HAS_LAST == 0 { 0 } else { u32::from_be_bytes(take(&mut symbol)?) };
        Some((Self { flags, stream: StreamId(stream), last }, number, symbol))
    }

    fn is_set(self, bit: u8) -> bool {
        self.flags & bit != 0
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn flags(unordered: bool, beginning: bool, end: bool) -> u8 {
    flag(unordered, UNORDERED) | flag(beginning, BEGINNING) | flag(end, END)
}

impl DataHeader {
    /// Appends the symbol of a chunk.
    pub(crate) fn write_symbol(&self, payload: &[u8], symbol: &mut Vec<u8>) {
        let flags = flags(self.unordered, self.beginning, self.end);
        Fields { flags, stream: self.stream, last: self.ppid }.write(&self.ssn.0.to_be_bytes(), payload, symbol);
    }
}

impl IDataHeader {
    /// Appends the symbol of a chunk.
    pub(crate) fn write_symbol(&self, payload: &[u8], symbol: &mut Vec<u8>) {
        let flags = flags(self.unordered, self.beginning, self.end);
        let fields = Fields { flags, stream: self.stream, last: self.ppid_or_fsn };
        fields.write(&self.mid.0.to_be_bytes(), payload, symbol);
    }
}

impl FragmentHeader {
    /// Appends the symbol of a chunk in this framing.
    pub(crate) fn write_symbol(&self, framing: Framing, payload: &[u8], symbol: &mut Vec<u8>) {
        match framing {
            Framing::Data => self.as_data().write_symbol(payload, symbol),
            Framing::IData => self.as_i_data().write_symbol(payload, symbol),
        }
    }
}

/// Returns the bytes of the chunk with this symbol, without padding; `None` if it is none.
pub(crate) fn chunk_of_symbol(framing: Framing, tsn: Tsn, symbol: &[u8]) -> Option<Vec<u8>> {
    let (fields, number, payload) = Fields::read(framing, symbol)?;
    let length = u16::try_from(framing.header_bytes() + payload.len()).ok()?;
    let (unordered, beginning, end) = (fields.is_set(UNORDERED), fields.is_set(BEGINNING), fields.is_set(END));
    let Fields { stream, last, .. } = fields;
    let immediate = false;
    let mut chunk = Vec::with_capacity(length.into());
    match framing {
        Framing::Data => {
            let ssn = Ssn::wrap(number.into());
            let header = DataHeader { tsn, stream, ssn, ppid: last, unordered, beginning, end, immediate };
            chunk.extend_from_slice(&header.to_bytes(length));
        }
        Framing::IData => {
            let (mid, ppid_or_fsn) = (Mid(number), last);
            let header = IDataHeader { tsn, stream, mid, ppid_or_fsn, unordered, beginning, end, immediate };
            chunk.extend_from_slice(&header.to_bytes(length));
        }
    }
    chunk.extend_from_slice(payload);
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::tests::chunk_bytes;

    fn header(stream: u16, fragment: u32, ppid: u32, bits: u8) -> FragmentHeader {
        FragmentHeader {
            tsn: Tsn(7),
            stream: StreamId(stream),
            message: 0x0001_0002,
            fragment,
            ppid,
            unordered: bits & 1 != 0,
            end: bits & 2 != 0,
            immediate: bits & 4 != 0,
        }
    }

    fn symbol(framing: Framing, header: &FragmentHeader, payload: &[u8]) -> Vec<u8> {
        let mut symbol = Vec::new();
        header.write_symbol(framing, payload, &mut symbol);
        symbol
    }

    #[test]
    fn the_symbol_of_a_common_chunk_has_three_bytes_before_its_payload() {
        assert_eq!(symbol(Framing::Data, &header(0, 0, 0, 6), b"payload"), b"\x03\x00\x02payload");
        let all = symbol(Framing::IData, &header(3, 0, 51, 6), b"x");
        assert_eq!(all, [0x33, 0, 3, 0, 1, 0, 2, 0, 0, 0, 51, b'x']);
    }

    proptest! {
        #[test]
        fn the_chunk_of_a_symbol_is_the_chunk_without_its_i_bit(
            stream in prop::sample::select(vec![0, 1, 256, u16::MAX]),
            fragment in 0..3_u32,
            ppid in prop::sample::select(vec![0, 1, u32::MAX]),
            bits in 0..8_u8,
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            for framing in [Framing::Data, Framing::IData] {
                let header = header(stream, fragment, ppid, bits);
                let plain = FragmentHeader { immediate: false, ..header };
                let mut chunk = chunk_of_symbol(framing, header.tsn, &symbol(framing, &header, &payload)).expect("sound");
                chunk.resize(chunk.len().next_multiple_of(4), 0);
                prop_assert_eq!(chunk, chunk_bytes(|builder| builder.fragment(framing, &plain, &payload)));
            }
        }

        #[test]
        fn any_bytes_are_a_symbol_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for framing in [Framing::Data, Framing::IData] {
                if let Some(chunk) = chunk_of_symbol(framing, Tsn(7), &bytes) {
                    prop_assert!(chunk.len() <= bytes.len() + framing.header_bytes());
                }
            }
        }
    }

    #[test]
    fn a_symbol_that_is_cut_short_or_has_other_flags_is_none() {
        let whole = symbol(Framing::Data, &header(3, 0, 51, 6), b"");
        assert_eq!(whole.len(), 9);
        for end in 0..whole.len() {
            assert_eq!(chunk_of_symbol(Framing::Data, Tsn(7), &whole[..end]), None, "{end}");
        }
        for bit in [3, 6, 7] {
            let mut other = whole.clone();
            other[0] |= 1 << bit;
            assert_eq!(chunk_of_symbol(Framing::Data, Tsn(7), &other), None, "{bit}");
        }
    }
}

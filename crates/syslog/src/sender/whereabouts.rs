//! A relay's durable record of where its lines went, so that after a start no line is sent to a second collector that a first one may have. It
//! follows the sender's identity in the same file.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::spool;
use crate::wire::{RANGES_MAX, put_ranges, take_ranges};

/// The most bytes that are read.
pub(super) const WHEREABOUTS_BYTES_MAX: usize = 128 << 20;

/// The version of the bytes.
const VERSION: u8 = 1;

/// One set of numbers for each priority.
pub(super) type Numbers = Vec<Ranges>;

/// No number of any priority.
pub(super) fn nothing() -> Numbers {
    vec![Ranges::default(); usize::from(PRIORITIES)]
}

/// Where lines went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    /// Lines that need no more work, wherever they are found.
    pub(super) settled: Numbers,
    pub(super) collectors: Vec<Held>,
}

/// What one collector may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) name: String,
    /// Any line that is in no `held` may be there.
    pub(super) is_open: bool,
    /// These are there or nowhere.
    pub(super) held: Numbers,
}

impl Whereabouts {
    /// The bytes; `None` if there are too many gaps between the numbers.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        put_numbers(&mut bytes, &self.settled)?;
        for one in &self.collectors {
            bytes.put_u16(u16::try_from(one.name.len()).ok()?);
            bytes.put_slice(one.name.as_bytes());
            bytes.put_u8(u8::from(one.is_open));
            put_numbers(&mut bytes, &one.held)?;
        }
        let sum = spool::checksum(&bytes);
        bytes.put_u32(sum);
        Some(bytes.to_vec())
    }

    /// Reads the bytes; `None` if they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut body = Bytes::copy_from_slice(bytes);
        let mut sum = body.split_off(body.len().checked_sub(4)?);
        if spool::checksum(&body) != sum.get_u32() || body.try_get_u8().ok()? != VERSION {
            return None;
        }
        let settled = take_numbers(&mut body)?;
        let mut collectors = Vec::new();
        while !body.is_empty() {
            let length = usize::from(body.try_get_u16().ok()?);
            if length > body.len() {
                return None;
            }
            let name = String::from_utf8(body.split_to(length).to_vec()).ok()?;
            let is_open = body.try_get_u8().ok()? != 0;
            collectors.push(Held { name, is_open, held: take_numbers(&mut body)? });
        }
        Some(Self { settled, collectors })
    }
}

fn put_numbers(bytes: &mut BytesMut, numbers: &[Ranges]) -> Option<()> {
    for ranges in numbers {
        if ranges.len() > RANGES_MAX {
            return None;
        }
        put_ranges(bytes, ranges);
    }
    Some(())
}

fn take_numbers(bytes: &mut Bytes) -> Option<Numbers> {
    (0..PRIORITIES).map(|_| take_ranges(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_a_torn_or_changed_one_is_not() {
        let mut numbers = vec![Ranges::default(); usize::from(PRIORITIES)];
        numbers[1].raise(7);
        numbers[1].insert(9, 12);
        let one = |name: &str, is_open| Held { name: name.to_owned(), is_open, held: numbers.clone() };
        let told = Whereabouts { settled: numbers.clone(), collectors: vec![one("a", true), one("b", false)] };
        let bytes = told.encode().expect("it is short");
        assert_eq!(Whereabouts::decode(&bytes), Some(told));
        for length in 0..bytes.len() {
            assert_eq!(Whereabouts::decode(&bytes[..length]), None, "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Whereabouts::decode(&changed), None, "{at}");
        }
    }
}

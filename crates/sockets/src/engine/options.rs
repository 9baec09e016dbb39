//! Options of a socket: RFC 6458 §8, with Linux's numbers, layouts and errors.

use std::collections::BTreeMap;

use crate::ancillary;
use crate::numbers::{Errno, cmsg, event, flag};
use crate::wire::{Header, Kind, mark};

pub(super) const RTOINFO: i32 = 0;
pub(super) const ASSOCINFO: i32 = 1;
pub(super) const INITMSG: i32 = 2;
pub(super) const NODELAY: i32 = 3;
pub(super) const AUTOCLOSE: i32 = 4;
pub(super) const PRIMARY_ADDR: i32 = 6;
pub(super) const ADAPTATION_LAYER: i32 = 7;
pub(super) const DISABLE_FRAGMENTS: i32 = 8;
pub(super) const PEER_ADDR_PARAMS: i32 = 9;
pub(super) const DEFAULT_SEND_PARAM: i32 = 10;
pub(super) const EVENTS: i32 = 11;
pub(super) const MAPPED_V4: i32 = 12;
pub(super) const MAXSEG: i32 = 13;
pub(super) const STATUS: i32 = 14;
pub(super) const PEER_ADDR_INFO: i32 = 15;
pub(super) const DELAYED_SACK: i32 = 16;
pub(super) const CONTEXT: i32 = 17;
pub(super) const FRAGMENT_INTERLEAVE: i32 = 18;
pub(super) const PARTIAL_DELIVERY_POINT: i32 = 19;
pub(super) const MAX_BURST: i32 = 20;
pub(super) const ASSOC_NUMBER: i32 = 28;
pub(super) const ASSOC_ID_LIST: i32 = 29;
pub(super) const AUTO_ASCONF: i32 = 30;
pub(super) const RECVRCVINFO: i32 = 32;
pub(super) const RECVNXTINFO: i32 = 33;
pub(super) const DEFAULT_SNDINFO: i32 = 34;
pub(super) const REUSE_PORT: i32 = 36;
pub(super) const PEER_ADDRS: i32 = 108;
pub(super) const LOCAL_ADDRS: i32 = 109;
pub(super) const PR_SUPPORTED: i32 = 113;
pub(super) const DEFAULT_PRINFO: i32 = 114;
pub(super) const RECONFIG_SUPPORTED: i32 = 117;
pub(super) const ENABLE_STREAM_RESET: i32 = 118;
pub(super) const RESET_STREAMS: i32 = 119;
pub(super) const ADD_STREAMS: i32 = 121;
pub(super) const STREAM_SCHEDULER: i32 = 123;
pub(super) const INTERLEAVING_SUPPORTED: i32 = 125;
pub(super) const EVENT: i32 = 127;
pub(super) const ASCONF_SUPPORTED: i32 = 128;
pub(super) const AUTH_SUPPORTED: i32 = 129;
pub(super) const ECN_SUPPORTED: i32 = 130;
pub(super) const REMOTE_UDP_PORT: i32 = 132;

/// Bytes of a `struct sctp_event_subscribe`.
const SUBSCRIBE_BYTES: usize = event::COUNT as usize;

/// What setting an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Something that this side does anyway, or that is taken into account where it is read.
    Honoured,
    /// It is remembered and shown, and has no effect on associations. Each is reported once.
    Recorded,
    /// Only the value in force can be set.
    Fixed,
}

/// An option whose value is a structure of fixed size.
struct Row {
    name: i32,
    text: &'static str,
    /// The sizes that Linux accepts, the largest first.
    sizes: &'static [usize],
    /// Numbers that differ from 0 in the default value: position, size, number.
    default: &'static [(usize, usize, u32)],
    effect: Effect,
}

const fn row(
    name: i32,
    text: &'static str,
    sizes: &'static [usize],
    default: &'static [(usize, usize, u32)],
    effect: Effect,
) -> Row {
    Row { name, text, sizes, default, effect }
}

const ROWS: [Row; 24] = {
    use Effect::{Fixed, Honoured, Recorded};
    [
        row(RTOINFO, "SCTP_RTOINFO", &[16], &[(4, 4, 1_000), (8, 4, 60_000), (12, 4, 1_000)], Recorded),
        row(ASSOCINFO, "SCTP_ASSOCINFO", &[20], &[(4, 2, 10), (16, 4, 60_000)], Recorded),
        row(INITMSG, "SCTP_INITMSG", &[8], &[(0, 2, 10), (2, 2, 65_535), (4, 2, 8), (6, 2, 60_000)], Honoured),
        // There is no Nagle algorithm that could be turned off.
        row(NODELAY, "SCTP_NODELAY", &[4], &[], Honoured),
        row(AUTOCLOSE, "SCTP_AUTOCLOSE", &[4], &[], Recorded),
        row(ADAPTATION_LAYER, "SCTP_ADAPTATION_LAYER", &[4], &[], Recorded),
        row(DISABLE_FRAGMENTS, "SCTP_DISABLE_FRAGMENTS", &[4], &[], Fixed),
        row(
            PEER_ADDR_PARAMS,
            "SCTP_PEER_ADDR_PARAMS",
            &[156, 152],
            &[(132, 4, 30_000), (136, 2, 5), (142, 4, 200), (146, 4, 0x29)],
            Recorded,
        ),
        row(MAPPED_V4, "SCTP_I_WANT_MAPPED_V4_ADDR", &[4], &[(0, 4, 1)], Honoured),
        row(MAXSEG, "SCTP_MAXSEG", &[8, 4], &[], Recorded),
        row(DELAYED_SACK, "SCTP_DELAYED_SACK", &[12, 8], &[(4, 4, 200), (8, 4, 2)], Recorded),
        row(CONTEXT, "SCTP_CONTEXT", &[8], &[], Honoured),
        // Messages larger than a part come one after the other, never interleaved.
        row(FRAGMENT_INTERLEAVE, "SCTP_FRAGMENT_INTERLEAVE", &[4], &[], Honoured),
        row(PARTIAL_DELIVERY_POINT, "SCTP_PARTIAL_DELIVERY_POINT", &[4], &[], Recorded),
        row(MAX_BURST, "SCTP_MAX_BURST", &[8, 4], &[(4, 4, 4)], Recorded),
        row(AUTO_ASCONF, "SCTP_AUTO_ASCONF", &[4], &[], Recorded),
        row(RECVRCVINFO, "SCTP_RECVRCVINFO", &[4], &[], Honoured),
        row(RECVNXTINFO, "SCTP_RECVNXTINFO", &[4], &[], Fixed),
        row(REUSE_PORT, "SCTP_REUSE_PORT", &[4], &[], Recorded),
        row(PR_SUPPORTED, "SCTP_PR_SUPPORTED", &[8], &[(4, 4, 1)], Fixed),
        row(RECONFIG_SUPPORTED, "SCTP_RECONFIG_SUPPORTED", &[8], &[(4, 4, 1)], Fixed),
        row(ENABLE_STREAM_RESET, "SCTP_ENABLE_STREAM_RESET", &[8], &[(4, 4, 7)], Recorded),
        row(STREAM_SCHEDULER, "SCTP_STREAM_SCHEDULER", &[8], &[], Fixed),
        row(INTERLEAVING_SUPPORTED, "SCTP_INTERLEAVING_SUPPORTED", &[8], &[], Fixed),
    ]
};

const MORE_ROWS: [Row; 4] = {
    use Effect::Fixed;
    [
        row(ASCONF_SUPPORTED, "SCTP_ASCONF_SUPPORTED", &[8], &[], Fixed),
        row(AUTH_SUPPORTED, "SCTP_AUTH_SUPPORTED", &[8], &[], Fixed),
        row(ECN_SUPPORTED, "SCTP_ECN_SUPPORTED", &[8], &[(4, 4, 1)], Fixed),
        row(REMOTE_UDP_PORT, "SCTP_REMOTE_UDP_ENCAPS_PORT", &[144], &[], Effect::Honoured),
    ]
};

impl Row {
    fn find(name: i32) -> Option<&'static Self> {
        ROWS.iter().chain(&MORE_ROWS).find(|row| row.name == name)
    }

    fn default(&self) -> Vec<u8> {
        let mut value = vec![0; self.sizes[0]];
        for (at, size, number) in self.default {
            value[*at..at + size].copy_from_slice(&number.to_ne_bytes()[..*size]);
        }
        value
    }
}

/// The options of a socket. Sockets that a listener accepts begin with those of the listener.
#[derive(Clone, Debug)]
pub(super) struct Options {
    values: BTreeMap<i32, Vec<u8>>,
    /// A bit for each type of event.
    subscriptions: u16,
    /// How messages are sent without ancillary data.
    send: Header,
}

impl Default for Options {
    fn default() -> Self {
        Self { values: BTreeMap::new(), subscriptions: 0, send: Header::new(Kind::Data) }
    }
}

/// A successful setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// It has its effect.
    Done,
    /// It is only shown again: the option's name.
    Recorded(&'static str),
}

impl Options {
    fn value(&self, name: i32) -> Vec<u8> {
        self.values.get(&name).cloned().unwrap_or_else(|| Row::find(name).map(Row::default).unwrap_or_default())
    }

    fn two(&self, name: i32, at: usize) -> u16 {
        self.value(name).get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
    }

    fn four(&self, name: i32, at: usize) -> u32 {
        self.value(name).get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Streams to ask for, attempts to connect and their longest interval in milliseconds.
    pub(super) fn init(&self) -> (u16, u16, u16) {
        (self.two(INITMSG, 0), self.two(INITMSG, 4), self.two(INITMSG, 6))
    }

    /// Milliseconds before the first repetition of an INIT.
    pub(super) fn rto_initial(&self) -> u32 {
        self.four(RTOINFO, 4)
    }

    pub(super) fn keeps_mapped(&self) -> bool {
        self.four(MAPPED_V4, 0) != 0
    }

    /// The peer's UDP port, if the program has set one.
    pub(super) fn peer_udp_port(&self) -> Option<u16> {
        let value = self.values.get(&REMOTE_UDP_PORT)?;
        Some(u16::from_be_bytes(*value.get(136..)?.first_chunk()?)).filter(|port| *port != 0)
    }

    pub(super) fn subscribes(&self, kind: u16) -> bool {
        self.subscriptions >> (kind - event::DATA_IO) & 1 == 1
    }

    /// The marks and the context of received messages.
    pub(super) fn mark(&self, header: &mut Header) {
        if self.subscribes(event::DATA_IO) {
            header.marks |= mark::DATA_IO;
        }
        if self.four(RECVRCVINFO, 0) != 0 {
            header.marks |= mark::RCVINFO;
        }
        header.context = self.four(CONTEXT, 4);
    }

    /// Fills in what the program has not said about a message.
    pub(super) fn complete(&self, header: &mut Header) {
        if header.marks & mark::HAS_INFO == 0 {
            (header.stream, header.ppid, header.context) = (self.send.stream, self.send.ppid, self.send.context);
            header.flags |= self.send.flags & !flag::POLICY;
        }
        if header.marks & mark::HAS_POLICY == 0 {
            header.flags |= self.send.flags & flag::POLICY;
            header.policy_value = self.send.policy_value;
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// As Linux: an unknown option, a wrong size, or a value that cannot be honoured.
    pub(super) fn set(&mut self, name: i32, value: &[u8]) -> Result<Set, Errno> {
        match name {
            EVENTS => self.subscribe_all(value)?,
            EVENT => self.subscribe(value)?,
            DEFAULT_SEND_PARAM => self.set_send(cmsg::SNDRCV, value, 32)?,
            DEFAULT_SNDINFO => self.set_send(cmsg::SNDINFO, value, 16)?,
            DEFAULT_PRINFO => self.set_policy(value)?,
            // Authentication is off, as it is on Linux by default.
            21..=27 | 35 => return Err(Errno::EACCES),
            _ => return self.set_row(name, value),
        }
        Ok(Set::Done)
    }

    fn set_row(&mut self, name: i32, value: &[u8]) -> Result<Set, Errno> {
        let row = Row::find(name).ok_or(Errno::ENOPROTOOPT)?;
        let is_flag = row.sizes == [4];
        let size = row.sizes.iter().copied().find(|size| value.len() == *size || is_flag && value.len() > *size);
        let value = &value[..size.ok_or(Errno::EINVAL)?];
        // The old form of some options is a number without an association.
        let value = match (value.len(), row.sizes) {
            (4, [8, 4]) => [&[0; 4], value].concat(),
            _ => value.to_vec(),
        };
        let before = self.value(name);
        let mut wanted = before.clone();
        wanted[..value.len()].copy_from_slice(&value);
        match row.effect {
            Effect::Fixed if self.differs(name, &before, &wanted) => return Err(Errno::EOPNOTSUPP),
            Effect::Fixed => return Ok(Set::Done),
            Effect::Honoured | Effect::Recorded => {}
        }
        if name == FRAGMENT_INTERLEAVE && !(0..=1).contains(&wanted[0]) {
            return Err(Errno::EINVAL);
        }
        self.keep_zeros(name, &before, &mut wanted)?;
        let changes = wanted != before;
        self.values.insert(name, wanted);
        Ok(if row.effect == Effect::Recorded && changes { Set::Recorded(row.text) } else { Set::Done })
    }

    /// Whether the value itself differs, not the association in front of it.
    fn differs(&self, name: i32, before: &[u8], wanted: &[u8]) -> bool {
        let start = if Row::find(name).is_some_and(|row| row.sizes == [4]) { 0 } else { 4 };
        before[start..] != wanted[start..]
    }

    /// In these options, 0 leaves a number as it is.
    fn keep_zeros(&self, name: i32, before: &[u8], wanted: &mut [u8]) -> Result<(), Errno> {
        let numbers: &[(usize, usize)] = match name {
            RTOINFO => &[(4, 4), (8, 4), (12, 4)],
            INITMSG => &[(0, 2), (2, 2), (4, 2), (6, 2)],
            ASSOCINFO => &[(4, 2), (16, 4)],
            PEER_ADDR_PARAMS => &[(132, 4), (136, 2), (138, 4), (142, 4)],
            _ => &[],
        };
        for (at, size) in numbers {
            if wanted[*at..at + size].iter().all(|byte| *byte == 0) {
                wanted[*at..at + size].copy_from_slice(&before[*at..at + size]);
            }
        }
        if name == RTOINFO {
            let number = |at: usize| u32::from_ne_bytes([wanted[at], wanted[at + 1], wanted[at + 2], wanted[at + 3]]);
            let (initial, max, min) = (number(4), number(8), number(12));
            if min > max || !(min..=max).contains(&initial) && initial != u32::MAX {
                return Err(Errno::EINVAL);
            }
        }
        Ok(())
    }

    fn subscribe_all(&mut self, value: &[u8]) -> Result<(), Errno> {
        if value.len() > SUBSCRIBE_BYTES {
            return Err(Errno::EINVAL);
        }
        for (bit, wanted) in value.iter().enumerate() {
            self.subscriptions = self.subscriptions & !(1 << bit) | u16::from(*wanted != 0) << bit;
        }
        Ok(())
    }

    fn subscribe(&mut self, value: &[u8]) -> Result<(), Errno> {
        let [_, _, _, _, low, high, on, ..] = *value else { return Err(Errno::EINVAL) };
        let bit = u16::from_ne_bytes([low, high]).wrapping_sub(event::DATA_IO);
        // The first bit belongs to SCTP_EVENTS alone.
        if !(1..event::COUNT).contains(&bit) {
            return Err(Errno::EINVAL);
        }
        self.subscriptions = self.subscriptions & !(1 << bit) | u16::from(on != 0) << bit;
        Ok(())
    }

    fn set_send(&mut self, kind: i32, value: &[u8], size: usize) -> Result<(), Errno> {
        if value.len() != size {
            return Err(Errno::EINVAL);
        }
        let mut send = Header::new(Kind::Data);
        ancillary::read_default(kind, value, &mut send)?;
        let (policy, value) = (self.send.flags & flag::POLICY, self.send.policy_value);
        if send.marks & mark::HAS_POLICY == 0 {
            send.flags |= policy;
            send.policy_value = value;
        }
        self.send = send;
        Ok(())
    }

    fn set_policy(&mut self, value: &[u8]) -> Result<(), Errno> {
        let [_, _, _, _, v0, v1, v2, v3, p0, p1, _, _] = *value else { return Err(Errno::EINVAL) };
        let policy = u16::from_ne_bytes([p0, p1]);
        if policy & !flag::POLICY != 0 {
            return Err(Errno::EINVAL);
        }
        self.send.flags = self.send.flags & !flag::POLICY | policy;
        self.send.policy_value = u32::from_ne_bytes([v0, v1, v2, v3]);
        Ok(())
    }

    /// Returns the value of an option, for a buffer of `room` bytes.
    ///
    /// # Errors
    /// As Linux: an unknown option, or no room.
    pub(super) fn get(&self, name: i32, room: usize) -> Result<Vec<u8>, Errno> {
        match name {
            EVENTS => {
                let count = room.min(SUBSCRIBE_BYTES);
                let bits = (0..count).map(|bit| u8::try_from(self.subscriptions >> bit & 1).unwrap_or(1)).collect();
                if room == 0 { Err(Errno::EINVAL) } else { Ok(bits) }
            }
            DEFAULT_SEND_PARAM => sized(ancillary::sndrcvinfo(&self.send), room),
            DEFAULT_PRINFO => {
                let policy = u32::from(self.send.flags & flag::POLICY);
                sized(
                    [0, self.send.policy_value, policy].iter().flat_map(|number| number.to_ne_bytes()).collect(),
                    room,
                )
            }
            21..=27 | 35 => Err(Errno::EACCES),
            _ => {
                let row = Row::find(name).ok_or(Errno::ENOPROTOOPT)?;
                let size = row.sizes.iter().copied().find(|size| room >= *size).ok_or(Errno::EINVAL)?;
                let value = self.value(name);
                Ok(if size == 4 && row.sizes == [8, 4] { value[4..].to_vec() } else { value[..size].to_vec() })
            }
        }
    }
}

/// The value, if it fits.
pub(super) fn sized(value: Vec<u8>, room: usize) -> Result<Vec<u8>, Errno> {
    if room < value.len() { Err(Errno::EINVAL) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn defaults_are_those_of_linux() {
        let options = Options::default();
        assert_eq!(options.init(), (10, 8, 60_000));
        assert!(options.keeps_mapped());
        assert_eq!(options.get(RTOINFO, 64).unwrap().len(), 16, "an oversized buffer tells the size");
        assert_eq!(options.get(PEER_ADDR_PARAMS, 155).unwrap().len(), 152, "of older headers");
        assert_eq!(options.get(RTOINFO, 15), Err(Errno::EINVAL));
        assert_eq!(options.get(99, 64), Err(Errno::ENOPROTOOPT));
    }

    #[test]
    fn zero_keeps_a_number() {
        let mut options = Options::default();
        assert_eq!(options.set(INITMSG, &[30, 0, 0, 0, 0, 0, 0, 0]), Ok(Set::Done));
        assert_eq!(options.init(), (30, 8, 60_000));
        let rto = |numbers: [u32; 4]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>();
        assert_eq!(options.set(RTOINFO, &rto([0, 0, 500, 0])), Err(Errno::EINVAL), "the maximum is below the minimum");
        assert_eq!(options.set(RTOINFO, &rto([0, 700, 5_000, 200])), Ok(Set::Recorded("SCTP_RTOINFO")));
        assert_eq!(options.set(RTOINFO, &rto([0, 700, 5_000, 200])), Ok(Set::Done), "nothing changes");
        assert_eq!(options.rto_initial(), 700);
    }

    #[test]
    fn events_are_subscribed_to_by_either_option() {
        let mut options = Options::default();
        // As many as UERANSIM knows.
        options.set(EVENTS, &[1, 1, 0, 0, 0, 1, 0, 0]).unwrap();
        assert!(options.subscribes(event::DATA_IO) && options.subscribes(event::SHUTDOWN));
        assert_eq!(options.set(EVENTS, &[0; 15]), Err(Errno::EINVAL));
        let one = |kind: u16, on: u8| [&[0; 4][..], &kind.to_ne_bytes(), &[on, 0]].concat();
        options.set(EVENT, &one(event::SENDER_DRY, 1)).unwrap();
        options.set(EVENT, &one(event::SHUTDOWN, 0)).unwrap();
        assert!(options.subscribes(event::SENDER_DRY) && !options.subscribes(event::SHUTDOWN));
        assert_eq!(options.set(EVENT, &one(event::DATA_IO, 1)), Err(Errno::EINVAL));
        assert_eq!(options.get(EVENTS, 64).unwrap().len(), 14);
    }

    #[test]
    fn what_is_not_done_cannot_be_set() {
        let mut options = Options::default();
        let value = |value: u32| [[0; 4], value.to_ne_bytes()].concat();
        assert_eq!(options.set(AUTH_SUPPORTED, &value(0)), Ok(Set::Done));
        assert_eq!(options.set(AUTH_SUPPORTED, &value(1)), Err(Errno::EOPNOTSUPP));
        assert_eq!(options.set(DISABLE_FRAGMENTS, &1_u32.to_ne_bytes()), Err(Errno::EOPNOTSUPP));
        assert_eq!(options.set(23, &[0; 8]), Err(Errno::EACCES));
        assert_eq!(options.set(2_000, &[0; 8]), Err(Errno::ENOPROTOOPT));
    }

    #[test]
    fn defaults_of_messages_yield_to_ancillary_data() {
        let mut options = Options::default();
        let mut default = Header::new(Kind::Data);
        (default.stream, default.ppid) = (4, 9);
        options.set(DEFAULT_SEND_PARAM, &ancillary::sndrcvinfo(&default)).unwrap();
        options.set(DEFAULT_PRINFO, &[0, 0, 0, 0, 3, 0, 0, 0, 0x20, 0, 0, 0]).unwrap();
        let mut plain = Header::new(Kind::Data);
        options.complete(&mut plain);
        assert_eq!((plain.stream, plain.ppid, plain.flags, plain.policy_value), (4, 9, flag::RTX, 3));
        let mut own = Header { marks: mark::HAS_INFO | mark::HAS_POLICY, ..Header::new(Kind::Data) };
        let before = own;
        options.complete(&mut own);
        assert_eq!(own, before);
    }

    proptest! {
        #[test]
        fn any_value_is_taken_or_refused(name in -1..140_i32, value in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut options = Options::default();
            let is_taken = options.set(name, &value).is_ok();
            if let Ok(shown) = options.get(name, 200) {
                prop_assert!(shown.len() <= 200);
            }
            if is_taken && Row::find(name).is_some_and(|row| row.sizes.contains(&value.len())) {
                prop_assert!(options.get(name, value.len()).is_ok());
            }
        }
    }
}

//! Options of a socket: RFC 6458 §8, with Linux's numbers, layouts and errors.

use std::collections::BTreeMap;

use festina::Duration;

use super::timing::Timing;
use crate::ancillary;
use crate::numbers::{Errno, cmsg, event, flag};
use crate::wire::{Header, Kind, mark};

pub(super) const INITMSG: i32 = 2;
pub(super) const NODELAY: i32 = 3;
pub(super) const AUTOCLOSE: i32 = 4;
pub(super) const PRIMARY_ADDR: i32 = 6;
pub(super) const ADAPTATION_LAYER: i32 = 7;
pub(super) const DISABLE_FRAGMENTS: i32 = 8;
pub(super) const DEFAULT_SEND_PARAM: i32 = 10;
pub(super) const EVENTS: i32 = 11;
pub(super) const MAPPED_V4: i32 = 12;
pub(super) const MAXSEG: i32 = 13;
pub(super) const STATUS: i32 = 14;
pub(super) const PEER_ADDR_INFO: i32 = 15;
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

/// Where the port is in a `struct sctp_udpencaps`.
pub(super) const UDP_PORT_AT: usize = 136;
/// Bytes of a `struct sctp_event_subscribe`.
const SUBSCRIBE_BYTES: usize = event::COUNT as usize;
/// Bytes of a message that fit into a packet of the default size.
pub(super) const FRAGMENT_BYTES: u32 = 1_200;
/// Peers may reset streams, restart associations, and add streams.
const STREAM_RESETS: u32 = 7;

/// What setting an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Something that this side does anyway, or that is taken into account where it is read.
    Honoured,
    /// Only the value in force can be set.
    Fixed,
}

/// An option whose value is a structure of fixed size.
struct Row {
    name: i32,
    /// The sizes that Linux accepts, the largest first.
    sizes: &'static [usize],
    /// Numbers that differ from 0 in the default value: position, size, number.
    default: &'static [(usize, usize, u32)],
    effect: Effect,
}

const fn row(name: i32, sizes: &'static [usize], default: &'static [(usize, usize, u32)], effect: Effect) -> Row {
    Row { name, sizes, default, effect }
}

const ROWS: [Row; 20] = {
    use Effect::{Fixed, Honoured};
    [
        row(INITMSG, &[8], &[(0, 2, 10), (2, 2, 65_535), (4, 2, 8), (6, 2, 60_000)], Honoured),
        // There is no Nagle algorithm that could be turned off.
        row(NODELAY, &[4], &[], Honoured),
        row(AUTOCLOSE, &[4], &[], Honoured),
        row(ADAPTATION_LAYER, &[4], &[], Fixed),
        row(DISABLE_FRAGMENTS, &[4], &[], Fixed),
        row(MAPPED_V4, &[4], &[(0, 4, 1)], Honoured),
        // A message is never split into smaller parts than this.
        row(MAXSEG, &[8, 4], &[], Honoured),
        row(CONTEXT, &[8], &[], Honoured),
        // Messages larger than a part come one after the other, never interleaved.
        row(FRAGMENT_INTERLEAVE, &[4], &[], Honoured),
        row(PARTIAL_DELIVERY_POINT, &[4], &[], Fixed),
        row(MAX_BURST, &[8, 4], &[(4, 4, 4)], Fixed),
        // Addresses of wildcard sockets are not announced when they change, which the command says.
        row(AUTO_ASCONF, &[4], &[], Honoured),
        row(RECVRCVINFO, &[4], &[], Honoured),
        row(RECVNXTINFO, &[4], &[], Fixed),
        row(REUSE_PORT, &[4], &[], Fixed),
        row(PR_SUPPORTED, &[8], &[(4, 4, 1)], Fixed),
        row(RECONFIG_SUPPORTED, &[8], &[(4, 4, 1)], Fixed),
        row(ENABLE_STREAM_RESET, &[8], &[(4, 4, STREAM_RESETS)], Honoured),
        row(STREAM_SCHEDULER, &[8], &[], Fixed),
        row(INTERLEAVING_SUPPORTED, &[8], &[], Fixed),
    ]
};

const MORE_ROWS: [Row; 4] = {
    use Effect::Fixed;
    [
        row(ASCONF_SUPPORTED, &[8], &[], Fixed),
        row(AUTH_SUPPORTED, &[8], &[], Fixed),
        row(ECN_SUPPORTED, &[8], &[(4, 4, 1)], Fixed),
        row(REMOTE_UDP_PORT, &[144], &[], Effect::Honoured),
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
    /// Timers and limits of associations to come.
    pub(super) timing: Timing,
    /// Without effect.
    pub(super) traffic_class: i32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            subscriptions: 0,
            send: Header::new(Kind::Data),
            timing: Timing::default(),
            traffic_class: 0,
        }
    }
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

    /// Time after which an association without messages is shut down.
    pub(super) fn autoclose(&self) -> Option<Duration> {
        let seconds = self.four(AUTOCLOSE, 0);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    pub(super) fn keeps_mapped(&self) -> bool {
        self.four(MAPPED_V4, 0) != 0
    }

    /// The peer's UDP port, if the program has set one.
    pub(super) fn peer_udp_port(&self) -> Option<u16> {
        let value = self.values.get(&REMOTE_UDP_PORT)?;
        Some(u16::from_be_bytes(*value.get(UDP_PORT_AT..)?.first_chunk()?)).filter(|port| *port != 0)
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
    pub(super) fn set(&mut self, name: i32, value: &[u8]) -> Result<(), Errno> {
        match name {
            EVENTS => self.subscribe_all(value)?,
            EVENT => self.subscribe(value)?,
            DEFAULT_SEND_PARAM => self.set_send(cmsg::SNDRCV, value, 32)?,
            DEFAULT_SNDINFO => self.set_send(cmsg::SNDINFO, value, 16)?,
            DEFAULT_PRINFO => self.set_policy(value)?,
            // Authentication is off, as it is on Linux by default.
            21..=27 | 35 => return Err(Errno::EACCES),
            _ => self.set_row(name, value)?,
        }
        Ok(())
    }

    fn set_row(&mut self, name: i32, value: &[u8]) -> Result<(), Errno> {
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
        let number = || u32::from_ne_bytes([wanted[4], wanted[5], wanted[6], wanted[7]]);
        match name {
            _ if row.effect == Effect::Fixed => {
                return if self.differs(name, &before, &wanted) { Err(Errno::EOPNOTSUPP) } else { Ok(()) };
            }
            FRAGMENT_INTERLEAVE if !(0..=1).contains(&wanted[0]) => return Err(Errno::EINVAL),
            MAXSEG if (1..FRAGMENT_BYTES).contains(&number()) => return Err(Errno::EOPNOTSUPP),
            ENABLE_STREAM_RESET if number() > STREAM_RESETS => return Err(Errno::EINVAL),
            ENABLE_STREAM_RESET if number() == 0 => return Err(Errno::EOPNOTSUPP),
            // In this option, 0 leaves a number as it is.
            INITMSG => {
                for (number, before) in wanted.chunks_exact_mut(2).zip(before.chunks_exact(2)) {
                    if number == [0; 2] {
                        number.copy_from_slice(before);
                    }
                }
            }
            _ => {}
        }
        self.values.insert(name, wanted);
        Ok(())
    }

    /// Whether the value itself differs, not the association in front of it.
    fn differs(&self, name: i32, before: &[u8], wanted: &[u8]) -> bool {
        let start = if Row::find(name).is_some_and(|row| row.sizes == [4]) { 0 } else { 4 };
        before[start..] != wanted[start..]
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
        assert_eq!(options.get(INITMSG, 64).unwrap().len(), 8, "an oversized buffer tells the size");
        assert_eq!(options.get(INITMSG, 7), Err(Errno::EINVAL));
        assert_eq!(options.get(99, 64), Err(Errno::ENOPROTOOPT));
    }

    #[test]
    fn zero_keeps_a_number() {
        let mut options = Options::default();
        assert_eq!(options.set(INITMSG, &[30, 0, 0, 0, 0, 0, 0, 0]), Ok(()));
        assert_eq!(options.init(), (30, 8, 60_000));
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
        assert_eq!(options.set(AUTH_SUPPORTED, &value(0)), Ok(()));
        assert_eq!(options.set(AUTH_SUPPORTED, &value(1)), Err(Errno::EOPNOTSUPP));
        assert_eq!(options.set(DISABLE_FRAGMENTS, &1_u32.to_ne_bytes()), Err(Errno::EOPNOTSUPP));
        let fragments = [0, 500, 1_199, 1_200, 9_000].map(|bytes| options.set(MAXSEG, &value(bytes)).is_ok());
        assert_eq!(fragments, [true, false, false, true, true], "messages are split into parts of at most 1,200 bytes");
        assert_eq!(options.set(MAX_BURST, &value(5)), Err(Errno::EOPNOTSUPP));
        assert_eq!(
            [0, 1, 7, 8].map(|bits| options.set(ENABLE_STREAM_RESET, &value(bits)).is_ok()),
            [false, true, true, false]
        );
        for name in [ADAPTATION_LAYER, PARTIAL_DELIVERY_POINT, REUSE_PORT] {
            assert_eq!(options.set(name, &1_u32.to_ne_bytes()), Err(Errno::EOPNOTSUPP), "{name}");
        }
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

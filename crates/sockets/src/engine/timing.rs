//! Timers and limits of associations: `SCTP_RTOINFO`, `SCTP_ASSOCINFO`, `SCTP_PEER_ADDR_PARAMS`, `SCTP_DELAYED_SACK`.

use std::net::SocketAddr;

use festina::{Duration, Transport};

use crate::address::{self, STORAGE_BYTES};
use crate::numbers::Errno;

pub(super) const RTOINFO: i32 = 0;
pub(super) const ASSOCINFO: i32 = 1;
pub(super) const PEER_ADDR_PARAMS: i32 = 9;
pub(super) const DELAYED_SACK: i32 = 16;

/// The default of `srto_min`. It stands for the lower bound of the loss-recovery profile.
const RTO_MIN_MS: u32 = 1_000;
/// The only lifetime of a cookie.
const COOKIE_LIFE_MS: u32 = 60_000;
/// Longest delay of a SACK (RFC 9260 §6.2).
const SACK_DELAY_MAX_MS: u32 = 500;
/// Longest time that the transport takes.
const DAY_MS: u32 = 24 * 3_600 * 1_000;
/// An IP packet that is never exceeded: IPv6's minimum MTU.
const PATH_BYTES: u32 = 1_280;
/// The smallest path MTU that Linux takes.
const PATH_BYTES_MIN: u32 = 512;

/// `spp_flags`.
mod flag {
    pub(super) const HB_ENABLE: u32 = 1;
    pub(super) const HB_DISABLE: u32 = 2;
    pub(super) const HB_DEMAND: u32 = 4;
    pub(super) const PMTUD_ENABLE: u32 = 8;
    pub(super) const PMTUD_DISABLE: u32 = 16;
    pub(super) const SACKDELAY_ENABLE: u32 = 32;
    pub(super) const SACKDELAY_DISABLE: u32 = 64;
    pub(super) const HB_TIME_IS_ZERO: u32 = 128;
    /// The flow label and the traffic class of IP.
    pub(super) const IP_FIELDS: u32 = 0x300;
}

/// The settings of an association, or of those that a socket will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    rto_initial_ms: u32,
    rto_max_ms: u32,
    rto_min_ms: u32,
    association_retries: u16,
    has_heartbeats: bool,
    heartbeat_ms: u32,
    path_retries: u16,
    delays_sacks: bool,
    sack_delay_ms: u32,
    sack_packets: u32,
}

impl Default for Timing {
    /// Linux's values, which are those of RFC 9260.
    fn default() -> Self {
        Self {
            rto_initial_ms: 1_000,
            rto_max_ms: 60_000,
            rto_min_ms: RTO_MIN_MS,
            association_retries: 10,
            has_heartbeats: true,
            heartbeat_ms: 30_000,
            path_retries: 5,
            delays_sacks: true,
            sack_delay_ms: 200,
            sack_packets: 2,
        }
    }
}

/// The association at the start of an option's value, if the option is one of these.
pub(super) fn association_of(name: i32, value: &[u8]) -> Option<i32> {
    let is_known = [RTOINFO, ASSOCINFO, PEER_ADDR_PARAMS, DELAYED_SACK].contains(&name);
    is_known.then(|| value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes)))
}

/// The address that `SCTP_PEER_ADDR_PARAMS` is about, unless it is about all of them.
pub(super) fn address_of(name: i32, value: &[u8]) -> Option<SocketAddr> {
    let given = value.get(4..).filter(|_| name == PEER_ADDR_PARAMS).and_then(address::read)?.0;
    (!given.ip().to_canonical().is_unspecified()).then_some(given)
}

fn two(value: &[u8], at: usize) -> u16 {
    value.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

fn four(value: &[u8], at: usize) -> u32 {
    value.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The number that was given; 0 keeps the one before.
fn unless_zero<N: Default + PartialEq>(given: N, before: N) -> N {
    if given == N::default() { before } else { given }
}

impl Timing {
    /// Milliseconds before the first repetition of an INIT.
    pub(super) fn rto_initial_ms(&self) -> u32 {
        self.rto_initial_ms
    }

    /// Sets one of the options.
    ///
    /// # Errors
    /// As Linux; EOPNOTSUPP for what an association cannot do.
    pub(super) fn set(&mut self, name: i32, value: &[u8]) -> Result<(), Errno> {
        let changed = match (name, value.len()) {
            (RTOINFO, 16) => self.with_rto(value)?,
            (ASSOCINFO, 20) => self.with_retries(value)?,
            (PEER_ADDR_PARAMS, 152 | 156) => self.with_path(value)?,
            (DELAYED_SACK, 8 | 12) => self.with_sack(value)?,
            _ => return Err(Errno::EINVAL),
        };
        *self = changed;
        Ok(())
    }

    fn with_rto(&self, value: &[u8]) -> Result<Self, Errno> {
        let changed = Self {
            rto_initial_ms: unless_zero(four(value, 4), self.rto_initial_ms),
            rto_max_ms: unless_zero(four(value, 8), self.rto_max_ms),
            rto_min_ms: unless_zero(four(value, 12), self.rto_min_ms),
            ..*self
        };
        if changed.rto_min_ms > changed.rto_max_ms { Err(Errno::EINVAL) } else { Ok(changed) }
    }

    fn with_retries(&self, value: &[u8]) -> Result<Self, Errno> {
        if ![0, COOKIE_LIFE_MS].contains(&four(value, 16)) {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(Self { association_retries: unless_zero(two(value, 4), self.association_retries), ..*self })
    }

    fn with_path(&self, value: &[u8]) -> Result<Self, Errno> {
        let (interval_ms, path_bytes, delay_ms, flags) =
            (four(value, 132), four(value, 138), four(value, 142), four(value, 146));
        let is_both = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
        if is_both(flag::HB_ENABLE, flag::HB_DISABLE)
            || is_both(flag::PMTUD_ENABLE, flag::PMTUD_DISABLE)
            || is_both(flag::SACKDELAY_ENABLE, flag::SACKDELAY_DISABLE)
            || delay_ms > SACK_DELAY_MAX_MS
            || (1..PATH_BYTES_MIN).contains(&path_bytes)
        {
            return Err(Errno::EINVAL);
        }
        // Packets fit into every path, found out or not, but not into a smaller one.
        let is_smaller = flags & flag::PMTUD_DISABLE != 0 && (1..PATH_BYTES).contains(&path_bytes);
        if flags & (flag::HB_DEMAND | flag::IP_FIELDS) != 0 || is_smaller {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut changed = *self;
        if flags & flag::HB_ENABLE != 0 && (interval_ms > 0 || flags & flag::HB_TIME_IS_ZERO != 0) {
            changed.heartbeat_ms = interval_ms;
        }
        changed.has_heartbeats = flags & flag::HB_DISABLE == 0 && (self.has_heartbeats || flags & flag::HB_ENABLE != 0);
        if flags & flag::SACKDELAY_ENABLE != 0 {
            changed.sack_delay_ms = unless_zero(delay_ms, self.sack_delay_ms);
        }
        changed.delays_sacks =
            flags & flag::SACKDELAY_DISABLE == 0 && (self.delays_sacks || flags & flag::SACKDELAY_ENABLE != 0);
        changed.path_retries = unless_zero(two(value, 136), self.path_retries);
        Ok(changed)
    }

    fn with_sack(&self, value: &[u8]) -> Result<Self, Errno> {
        let delay_ms = four(value, 4);
        // The old form is a delay, which 0 turns off.
        let packets = if value.len() == 8 { u32::from(delay_ms == 0) } else { four(value, 8) };
        if delay_ms > SACK_DELAY_MAX_MS {
            return Err(Errno::EINVAL);
        }
        let mut changed = *self;
        if delay_ms > 0 {
            (changed.sack_delay_ms, changed.delays_sacks) = (delay_ms, true);
        }
        match packets {
            0 => {}
            1 => changed.delays_sacks = false,
            packets => (changed.sack_packets, changed.delays_sacks) = (packets, true),
        }
        Ok(changed)
    }

    /// Returns the value of one of the options for a buffer of `room` bytes, which holds `given` now.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn get(&self, name: i32, given: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        let sizes: &[usize] = match name {
            RTOINFO => &[16],
            ASSOCINFO => &[20],
            PEER_ADDR_PARAMS => &[156, 152],
            _ => &[12, 8],
        };
        let size = sizes.iter().copied().find(|size| room >= *size).ok_or(Errno::EINVAL)?;
        let mut value = vec![0; size];
        // The association, and with some the address.
        let asked = if name == PEER_ADDR_PARAMS { 4 + STORAGE_BYTES } else { 4 };
        let asked = given.get(..asked).unwrap_or_default();
        value[..asked.len()].copy_from_slice(asked);
        let mut put = |at: usize, bytes: &[u8]| value[at..at + bytes.len()].copy_from_slice(bytes);
        match name {
            RTOINFO => {
                put(4, &self.rto_initial_ms.to_ne_bytes());
                put(8, &self.rto_max_ms.to_ne_bytes());
                put(12, &self.rto_min_ms.to_ne_bytes());
            }
            ASSOCINFO => {
                put(4, &self.association_retries.to_ne_bytes());
                put(16, &COOKIE_LIFE_MS.to_ne_bytes());
            }
            PEER_ADDR_PARAMS => {
                let heartbeats = if self.has_heartbeats { flag::HB_ENABLE } else { flag::HB_DISABLE };
                let sacks = if self.delays_sacks { flag::SACKDELAY_ENABLE } else { flag::SACKDELAY_DISABLE };
                put(132, &self.heartbeat_ms.to_ne_bytes());
                put(136, &self.path_retries.to_ne_bytes());
                put(142, &self.sack_delay_ms.to_ne_bytes());
                put(146, &(heartbeats | flag::PMTUD_ENABLE | sacks).to_ne_bytes());
            }
            _ => {
                let (delay_ms, packets) =
                    if self.delays_sacks { (self.sack_delay_ms, self.sack_packets) } else { (0, 1) };
                put(4, &delay_ms.to_ne_bytes());
                if size == 12 {
                    put(8, &packets.to_ne_bytes());
                }
            }
        }
        Ok(value)
    }

    /// Returns the transport settings with these timers and limits.
    pub(super) fn apply(&self, transport: Transport) -> Transport {
        let milliseconds = |time: u32| Duration::from_millis(time.clamp(1, DAY_MS).into());
        let heartbeat = Duration::from_millis(self.heartbeat_ms.min(DAY_MS).into());
        let sack_packets = if self.delays_sacks { u8::try_from(self.sack_packets).unwrap_or(u8::MAX) } else { 1 };
        let transport = transport
            .with_peer_timeout(None)
            .with_heartbeat_interval(self.has_heartbeats.then_some(heartbeat))
            .with_sack_delay(Duration::from_millis(self.sack_delay_ms.into()));
        transport.with_expert(|expert| {
            let expert = expert
                .with_rto_initial(milliseconds(self.rto_initial_ms))
                .with_rto_max(milliseconds(self.rto_max_ms))
                .with_association_retries(self.association_retries.into(), self.patience())
                .with_path_retries(self.path_retries.into())
                .with_sack_every_packets(sack_packets);
            match self.rto_min_ms {
                RTO_MIN_MS => expert,
                rto_min_ms => expert.with_rto_min(milliseconds(rto_min_ms)),
            }
        })
    }

    /// The time after which the standard's timeouts reach the limit of an association. Profiles with shorter ones take as long.
    fn patience(&self) -> Duration {
        let (mut timeout, mut total) = (u64::from(self.rto_min_ms), 0_u64);
        for _ in 0..=self.association_retries {
            total += timeout.min(self.rto_max_ms.into());
            timeout = timeout.saturating_mul(2);
        }
        Duration::from_millis(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    /// A `struct sctp_paddrparams`: interval, retries, path MTU, delay, flags.
    fn path(interval: u32, retries: u16, path_bytes: u32, delay: u32, flags: u32) -> Vec<u8> {
        let mut value = vec![0; 132];
        value.extend(interval.to_ne_bytes());
        value.extend(retries.to_ne_bytes());
        value.extend(numbers(&[path_bytes, delay, flags, 0, 0]));
        value.resize(156, 0);
        value
    }

    #[test]
    fn defaults_are_those_of_linux_and_are_shown_as_they_are_set() {
        let timing = Timing::default();
        assert_eq!(timing.get(RTOINFO, &[], 64), Ok(numbers(&[0, 1_000, 60_000, 1_000])));
        assert_eq!(timing.get(DELAYED_SACK, &[], 64), Ok(numbers(&[0, 200, 2])));
        assert_eq!(timing.get(DELAYED_SACK, &[], 8), Ok(numbers(&[0, 200])));
        assert_eq!(timing.get(PEER_ADDR_PARAMS, &[], 155), Ok(path(30_000, 5, 0, 200, 0x29)[..152].to_vec()));
        assert_eq!(timing.get(RTOINFO, &[], 15), Err(Errno::EINVAL));
        assert_eq!(timing.patience(), Duration::from_secs(1 + 2 + 4 + 8 + 16 + 32 + 5 * 60));
        for name in [RTOINFO, ASSOCINFO, PEER_ADDR_PARAMS, DELAYED_SACK] {
            let mut again = timing;
            again.set(name, &timing.get(name, &[], 200).unwrap()).unwrap();
            assert_eq!(again, timing, "{name}");
        }
    }

    #[test]
    fn zero_keeps_a_number() {
        let mut timing = Timing::default();
        assert_eq!(timing.set(RTOINFO, &numbers(&[0, 0, 500, 0])), Err(Errno::EINVAL), "below the minimum");
        timing.set(RTOINFO, &numbers(&[0, 3_000, 0, 250])).unwrap();
        assert_eq!(timing.get(RTOINFO, &[], 16), Ok(numbers(&[0, 3_000, 60_000, 250])));
        timing.set(ASSOCINFO, &numbers(&[0, 4, 0, 0, 0])).unwrap();
        timing.set(ASSOCINFO, &numbers(&[0, 0, 0, 0, 60_000])).unwrap();
        assert_eq!(timing.association_retries, 4);
        assert_eq!(timing.set(ASSOCINFO, &numbers(&[0, 0, 0, 0, 5_000])), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn flags_of_a_path_choose_what_changes() {
        let mut timing = Timing::default();
        timing.set(PEER_ADDR_PARAMS, &path(7_000, 3, 0, 100, 0)).unwrap();
        assert_eq!((timing.heartbeat_ms, timing.path_retries, timing.sack_delay_ms), (30_000, 3, 200), "no flag");
        timing.set(PEER_ADDR_PARAMS, &path(7_000, 0, 0, 100, 0x21)).unwrap();
        assert_eq!((timing.heartbeat_ms, timing.path_retries, timing.sack_delay_ms), (7_000, 3, 100));
        timing.set(PEER_ADDR_PARAMS, &path(9_000, 0, 0, 0, 0x42)).unwrap();
        assert_eq!((timing.has_heartbeats, timing.heartbeat_ms, timing.delays_sacks), (false, 7_000, false));
        timing.set(PEER_ADDR_PARAMS, &path(0, 0, 0, 0, 0x81)).unwrap();
        assert_eq!((timing.has_heartbeats, timing.heartbeat_ms), (true, 0));
        let refused = |value: Vec<u8>| Timing::default().set(PEER_ADDR_PARAMS, &value).unwrap_err();
        for flags in [3, 24, 96] {
            assert_eq!(refused(path(0, 0, 0, 0, flags)), Errno::EINVAL);
        }
        assert_eq!([path(0, 0, 0, 501, 0), path(0, 0, 511, 0, 16)].map(refused), [Errno::EINVAL; 2]);
        let impossible = [path(0, 0, 0, 0, 4), path(0, 0, 1_000, 0, 16), path(0, 0, 0, 0, 0x200)];
        assert_eq!(impossible.map(refused), [Errno::EOPNOTSUPP; 3]);
        timing.set(PEER_ADDR_PARAMS, &path(0, 0, 1_500, 0, 16)).unwrap();
    }

    #[test]
    fn sacks_are_delayed_by_either_option() {
        let mut timing = Timing::default();
        timing.set(DELAYED_SACK, &numbers(&[0, 0, 1])).unwrap();
        assert_eq!(timing.get(DELAYED_SACK, &[], 12), Ok(numbers(&[0, 0, 1])));
        timing.set(DELAYED_SACK, &numbers(&[0, 50])).unwrap();
        assert_eq!(timing.get(DELAYED_SACK, &[], 12), Ok(numbers(&[0, 50, 2])));
        timing.set(DELAYED_SACK, &numbers(&[0, 0])).unwrap();
        assert!(!timing.delays_sacks);
        timing.set(DELAYED_SACK, &numbers(&[0, 0, 3])).unwrap();
        assert_eq!(timing.get(DELAYED_SACK, &[], 12), Ok(numbers(&[0, 50, 3])));
        assert_eq!(timing.set(DELAYED_SACK, &numbers(&[0, 501, 0])), Err(Errno::EINVAL));
        assert_eq!(timing.set(DELAYED_SACK, &[0; 4]), Err(Errno::EINVAL));
    }

    #[test]
    fn every_setting_is_one_that_the_transport_takes() {
        let mut timing = Timing::default();
        timing.set(RTOINFO, &numbers(&[0, u32::MAX, u32::MAX, u32::MAX])).unwrap();
        timing.set(ASSOCINFO, &numbers(&[0, 0xffff, 0, 0, 0])).unwrap();
        timing.set(PEER_ADDR_PARAMS, &path(u32::MAX, u16::MAX, 0, 500, 0x21)).unwrap();
        timing.set(DELAYED_SACK, &numbers(&[0, 0, u32::MAX])).unwrap();
        timing.apply(Transport::default()).validate().unwrap();
    }
}

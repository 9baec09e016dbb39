//! Sums of packets and bytes.

use std::ops::{AddAssign, Div, Sub};

use festina::Stats;
use festina_netsim::LinkCounters;

/// The packets of both ends, of any kind: data, copies, SACKs, heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of the clients.
    pub(crate) packets_there: u64,
    /// With the headers of SCTP, UDP and IPv4, as all bytes here.
    pub(crate) bytes_there: u64,
    /// Of the servers.
    pub(crate) packets_back: u64,
    pub(crate) bytes_back: u64,
}

impl Cost {
    /// The packets offered to the links there and back; each has `uncounted` header bytes that the links do not count.
    pub(crate) fn of(there: &LinkCounters, back: &LinkCounters, uncounted: usize) -> Self {
        let bytes = |link: &LinkCounters| link.offered_bytes.bytes() + link.offered * uncounted as u64;
        Self {
            packets_there: there.offered,
            bytes_there: bytes(there),
            packets_back: back.offered,
            bytes_back: bytes(back),
        }
    }

    /// Packets there, packets back, and bytes of both, per message. `None` if there is no message.
    pub(crate) fn per_message(&self, messages: u64) -> Option<[f64; 3]> {
        let counts = [self.packets_there, self.packets_back, self.bytes_there + self.bytes_back];
        (messages > 0).then(|| counts.map(|count| count as f64 / messages as f64))
    }

    fn combine(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            packets_there: operation(self.packets_there, other.packets_there),
            bytes_there: operation(self.bytes_there, other.bytes_there),
            packets_back: operation(self.packets_back, other.packets_back),
            bytes_back: operation(self.bytes_back, other.bytes_back),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = self.combine(other, u64::saturating_add);
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }
}

impl Div<u64> for Cost {
    type Output = Self;

    fn div(self, divisor: u64) -> Self {
        self.combine(Self::default(), |dividend, _| dividend.checked_div(divisor).unwrap_or(0))
    }
}

/// What a number of associations sent in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentTotals {
    /// SCTP packets.
    pub(crate) packets: u64,
    /// Bytes of those packets, without UDP and IP headers.
    pub(crate) bytes: u64,
    /// DATA chunks sent again because the retransmission timer expired.
    pub(crate) timeout: u64,
    /// DATA chunks sent again by fast retransmit.
    pub(crate) fast: u64,
    /// DATA chunks sent again because a packet that left anyway had room.
    pub(crate) bundled: u64,
    /// DATA chunks sent again as a probe ahead of the timer.
    pub(crate) probe: u64,
    /// DATA chunks sent again in a packet of their own as redundancy: with retransmissions that leave twice.
    pub(crate) copy: u64,
    /// DATA chunks sent again although the earlier copy had arrived, as far as acknowledgements tell.
    pub(crate) spurious: u64,
}

impl SentTotals {
    /// The messages sent so far by one association.
    pub(crate) fn of(stats: &Stats) -> Self {
        let sent = &stats.sent;
        Self {
            packets: sent.packets,
            bytes: sent.bytes,
            timeout: sent.retransmitted.timeout,
            fast: sent.retransmitted.fast,
            bundled: sent.retransmitted.reported_bundled + sent.retransmitted.bundled,
            probe: sent.retransmitted.probe,
            copy: sent.retransmitted.copies,
            spurious: sent.spurious,
        }
    }

    /// Retransmitted DATA chunks, of any cause.
    pub(crate) fn retransmissions(&self) -> u64 {
        self.timeout + self.fast + self.bundled + self.probe + self.copy
    }

    fn combine(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            packets: operation(self.packets, other.packets),
            bytes: operation(self.bytes, other.bytes),
            timeout: operation(self.timeout, other.timeout),
            fast: operation(self.fast, other.fast),
            bundled: operation(self.bundled, other.bundled),
            probe: operation(self.probe, other.probe),
            copy: operation(self.copy, other.copy),
            spurious: operation(self.spurious, other.spurious),
        }
    }
}

impl AddAssign for SentTotals {
    fn add_assign(&mut self, other: Self) {
        *self = self.combine(other, u64::saturating_add);
    }
}

impl Sub for SentTotals {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }
}

impl Div<u64> for SentTotals {
    type Output = Self;

    fn div(self, divisor: u64) -> Self {
        self.combine(Self::default(), |dividend, _| dividend.checked_div(divisor).unwrap_or(0))
    }
}

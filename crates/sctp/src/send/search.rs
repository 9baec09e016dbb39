//! The search for the largest packet that a path carries (RFC 8899), by probes without data: HEARTBEAT and PAD (RFC 4820).
//!
//! Sizes grow only by probes that were answered. Lost data reduces nothing: when no large packet has been acknowledged for an RTO, pairs of probes are
//! sent, one of the present size and one of a lone HEARTBEAT. The size is reduced only if no probe of the present size is answered while lone heartbeats
//! are. At a loss of 15 % each way all ten are lost by chance in 3 of a million such rounds.

use core::ops::RangeInclusive;

use festina_units::{Duration, Instant, OptionalInstant};

use crate::outstanding::Credit;
use crate::wire::COMMON_HEADER_BYTES;

/// Sizes of IP packets that many paths carry, from IPv6's minimum to jumbo frames: Ethernet, below PPPoE, VXLAN and WireGuard.
const USUAL_MTUS: [usize; 7] = [1_280, 1_400, 1_420, 1_450, 1_492, ETHERNET_MTU, 9_000];
const ETHERNET_MTU: usize = 1_500;

/// Unanswered probes after which a larger size counts as too large.
const ATTEMPTS_MAX: u8 = 2;

/// Time after which a larger size is tried again (PMTU_RAISE_TIMER, RFC 8899 §5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// Probes of the present size in a round that ends in a reduction.
const LARGE_PROBES: u8 = 10;
/// The first of them are sent whether or not anything is answered. Later ones would be lost in an outage.
const LARGE_PROBES_BLIND: u8 = 3;
/// Pairs in a round, with or without a probe of the present size.
const PAIRS_MAX: u8 = 20;
/// Answers to lone heartbeats that show that the path works for them.
const SMALL_ANSWERS_MIN: u32 = 5;

/// Transmissions of a chunk that seems stuck. With RFC 9260's timer and an RTO of 1 s the last of them leaves after 15 s.
const STUCK_TRANSMISSIONS_MIN: u8 = 5;

/// The search on one path.
#[derive(Debug)]
pub(crate) struct Search {
    /// Bytes of packets that are carried for certain.
    base: usize,
    /// Bytes of the largest packet that was answered.
    found: usize,
    /// The smallest size that was not answered.
    too_large: usize,
    /// Headers around a packet, to guess usual sizes.
    header_bytes: usize,
    stage: Stage,
    /// When larger sizes may be tried again.
    raise_at: Instant,
    /// The nonce of the round's first probe; the others count up from it.
    first_nonce: Option<u64>,
    /// Probes of the round so far.
    sent: u64,
    unproved: Unproved,
    /// The next acknowledgement may be that of a copy on another path.
    doubts_acknowledgements: bool,
}

/// Evidence that large packets still arrive.
#[derive(Debug, Default)]
struct Unproved {
    /// When the first large packet left since the last evidence, and the RTO and the round trip then.
    since: OptionalInstant,
    times: Times,
    /// When the next one left.
    later: OptionalInstant,
    /// TSNs of the new chunks in one of the large packets.
    tsns: Option<RangeInclusive<u64>>,
}

/// What a path's estimator says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) rto: Duration,
    pub(crate) srtt: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No probe is needed.
    Rest,
    /// A larger size is tried; `first` is the number of its first probe.
    Probing { bytes: usize, attempts: u8, first: u64, sent: Sent },
    /// Whether the present size is still carried.
    Doubting(Doubt),
}

/// Whether the probe has left.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Not,
    Yes { missed_at: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    bytes: usize,
    times: Times,
    /// Probes of the present size so far.
    large: u8,
    /// Lone heartbeats so far, and a bit for the number of each that was answered.
    small: u8,
    answered: u64,
    /// When the next pair leaves, or when the round is judged.
    next_at: Instant,
    /// The large one of a pair has left, and the small one follows.
    is_half: bool,
}

/// A probe that leaves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Bytes of its packet; `None` for a lone HEARTBEAT.
    pub(crate) bytes: Option<usize>,
    pub(crate) nonce: u64,
}

impl Search {
    /// A search that begins at packets of `base` bytes, inside of this many bytes of headers.
    pub(crate) fn new(base: usize, header_bytes: usize) -> Self {
        Self {
            base,
            found: base,
            too_large: usize::MAX,
            header_bytes,
            stage: Stage::Rest,
            raise_at: Instant::ZERO,
            first_nonce: None,
            sent: 0,
            unproved: Unproved::default(),
            doubts_acknowledgements: false,
        }
    }

    /// Bytes of the largest packet that was answered.
    pub(crate) fn found(&self) -> usize {
        self.found
    }

    /// The path became another one.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.base, self.header_bytes);
    }

    /// Nothing more is sent.
    pub(crate) fn end(&mut self) {
        (self.unproved, self.stage, self.raise_at) = (Unproved::default(), Stage::Rest, Instant::MAX);
    }

    /// No packet beyond `ceiling` bytes leaves this host.
    pub(crate) fn limit(&mut self, ceiling: usize) {
        (self.base, self.found) = (self.base.min(ceiling), self.found.min(ceiling));
        match self.stage {
            Stage::Probing { bytes, .. } if bytes > ceiling => self.proceed(Instant::ZERO, ceiling),
            Stage::Doubting(doubt) if doubt.bytes > ceiling => self.stage = Stage::Rest,
            _ => {}
        }
    }

    /// There is data for larger packets: looks for one up to `ceiling`, unless that was done lately.
    pub(crate) fn is_wanted(&mut self, now: Instant, ceiling: usize) {
        if matches!(self.stage, Stage::Rest) && now >= self.raise_at {
            self.too_large = usize::MAX;
            self.begin_round();
            self.proceed(now, ceiling);
        }
    }

    /// The next size above the one that was found.
    fn candidate(&self, ceiling: usize) -> Option<usize> {
        let fits = |bytes: &usize| (self.found + 1..=ceiling).contains(bytes) && *bytes < self.too_large;
        let usual = |mtu: usize| mtu.saturating_sub(self.header_bytes) & !3;
        let sizes = || USUAL_MTUS.into_iter().map(usual).chain([ceiling & !3]).filter(fits);
        if self.too_large == usize::MAX {
            return Some(usual(ETHERNET_MTU)).filter(fits).or_else(|| sizes().max());
        }
        let mut sorted: Vec<usize> = sizes().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// Tries the next size, or rests if there is none.
    fn proceed(&mut self, now: Instant, ceiling: usize) {
        self.stage = if let Some(bytes) = self.candidate(ceiling) {
            Stage::Probing { bytes, attempts: 0, first: self.sent, sent: Sent::Not }
        } else {
            self.raise_at = now + RAISE_AFTER;
            Stage::Rest
        };
    }

    /// Returns whether a probe leaves now.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Rest => false,
            Stage::Probing { sent, .. } => matches!(sent, Sent::Not),
            Stage::Doubting(doubt) => doubt.has_more() && now >= doubt.next_at,
        }
    }

    /// Takes the probe that leaves now. `nonce` makes an unpredictable number for the first one of a round.
    pub(crate) fn take(&mut self, now: Instant, rto: Duration, nonce: impl FnOnce() -> u64) -> Option<Probe> {
        if !self.is_ready(now) {
            return None;
        }
        let bytes = match &mut self.stage {
            Stage::Rest => return None,
            Stage::Probing { bytes, sent, .. } => {
                *sent = Sent::Yes { missed_at: now + rto };
                Some(*bytes)
            }
            Stage::Doubting(doubt) => doubt.take(now),
        };
        let number = if bytes.is_none() { self.sent | SMALL } else { self.sent };
        self.sent += 1;
        Some(Probe { bytes, nonce: self.first_nonce.get_or_insert_with(nonce).wrapping_add(number) })
    }

    /// When to look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let probe_at = match self.stage {
            Stage::Rest | Stage::Probing { sent: Sent::Not, .. } => None,
            Stage::Probing { sent: Sent::Yes { missed_at }, .. } => Some(missed_at),
            Stage::Doubting(doubt) => return Some(doubt.next_at),
        };
        let doubted_at = self.unproved.since.get().map(|since| since + self.unproved.times.rto);
        [probe_at, doubted_at].into_iter().flatten().min()
    }

    /// Handles a deadline. `size` is the present packet size.
    pub(crate) fn handle_timeout(&mut self, now: Instant, size: usize, ceiling: usize) {
        if let Stage::Doubting(doubt) = self.stage {
            if now >= doubt.next_at && !doubt.has_more() {
                self.judge(now, doubt, ceiling);
            }
            return;
        }
        if self.unproved.since.get().is_some_and(|since| now >= since + self.unproved.times.rto) {
            self.begin_round();
            return self.stage = Stage::Doubting(Doubt::new(now, size, self.unproved.times));
        }
        if let Stage::Probing { bytes, attempts, sent, .. } = &mut self.stage
            && matches!(*sent, Sent::Yes { missed_at } if now >= missed_at)
        {
            (*attempts, *sent) = (*attempts + 1, Sent::Not);
            if *attempts >= ATTEMPTS_MAX {
                self.too_large = *bytes;
                self.proceed(now, ceiling);
            }
        }
    }

    /// A round without evidence for the present size is over.
    fn judge(&mut self, now: Instant, doubt: Doubt, ceiling: usize) {
        (self.unproved, self.stage) = (Unproved::default(), Stage::Rest);
        if doubt.large >= LARGE_PROBES && doubt.answered.count_ones() >= SMALL_ANSWERS_MIN {
            (self.found, self.too_large) = (self.base, doubt.bytes);
            self.proceed(now, ceiling);
        }
    }

    fn begin_round(&mut self) {
        (self.first_nonce, self.sent) = (None, 0);
    }

    /// A heartbeat with this nonce was answered. Returns whether it was a probe.
    pub(crate) fn answered(&mut self, now: Instant, nonce: u64, ceiling: usize) -> bool {
        let Some(first_nonce) = self.first_nonce else { return false };
        let offset = nonce.wrapping_sub(first_nonce);
        let (number, is_small) = (offset & !SMALL, offset & SMALL != 0);
        if number >= self.sent {
            return false;
        }
        match &mut self.stage {
            Stage::Rest => {}
            Stage::Probing { bytes, first, .. } => {
                if number >= *first {
                    self.found = *bytes;
                    self.proceed(now, ceiling);
                }
            }
            Stage::Doubting(doubt) if is_small => {
                doubt.answered |= 1_u64.checked_shl(u32::try_from(number).unwrap_or(u32::MAX)).unwrap_or_default();
            }
            Stage::Doubting(_) => self.prove(now),
        }
        true
    }

    /// A large packet that left at `sent_at` has arrived. Nothing is known of later ones.
    fn prove(&mut self, sent_at: Instant) {
        let Unproved { later, times, .. } = core::mem::take(&mut self.unproved);
        if let Some(later) = later.get().filter(|&later| later > sent_at) {
            self.unproved = Unproved { since: later.into(), times, ..Unproved::default() };
        }
        if matches!(self.stage, Stage::Doubting(_)) {
            self.stage = Stage::Rest;
        }
    }

    /// A packet of `bytes` leaves with these new chunks. One without any is doubted if the earliest chunk has been sent so often that it seems stuck:
    /// then no new data follows, and a round may have ended in an outage, or by the acknowledgement of a chunk that left before.
    pub(crate) fn packet_left(
        &mut self,
        now: Instant,
        bytes: usize,
        tsns: RangeInclusive<u64>,
        transmissions: u8,
        times: Times,
    ) {
        if bytes <= self.base || tsns.is_empty() && transmissions < STUCK_TRANSMISSIONS_MIN {
            return;
        }
        if self.unproved.since.get().is_none() {
            self.unproved.since = now.into();
            self.unproved.times = times;
        } else if self.unproved.since.get().is_some_and(|since| now > since) {
            self.unproved.later.get_or_insert(now);
        }
        if !tsns.is_empty() {
            self.unproved.tsns.get_or_insert(tsns);
        }
    }

    /// The next acknowledgement may be that of a copy on another path, which shows nothing.
    pub(crate) fn doubt_acknowledgements(&mut self, doubts: bool) {
        self.doubts_acknowledgements = doubts;
    }

    /// Looks for evidence in an acknowledgement: a chunk that fits only into a large packet, or one of a large packet's.
    pub(crate) fn acked(&mut self, credit: &Credit, chunks_max: usize) {
        if self.doubts_acknowledgements {
            return;
        }
        // The SACK of an earlier packet may be delayed.
        let is_since = |sent_at| self.unproved.since.get().is_some_and(|since| sent_at >= since);
        let Some(highest) = credit.highest_acked.filter(|highest| is_since(highest.sent_at)) else { return };
        let bytes = credit.chunk_bytes_max;
        let is_large = bytes + COMMON_HEADER_BYTES > self.base && bytes <= chunks_max;
        let tsns = self.unproved.tsns.as_ref();
        if is_large || tsns.is_some_and(|tsns| tsns.contains(&highest.tsn) && highest.transmissions == 1) {
            // Of a chunk that was sent again, an earlier transmission may have arrived.
            let since = self.unproved.since.get().unwrap_or_default();
            self.prove(if highest.transmissions == 1 { highest.sent_at } else { since });
        } else if tsns.is_some_and(|tsns| highest.tsn > *tsns.end()) {
            self.unproved.tsns = None;
        }
    }
}

/// Marks the numbers of lone heartbeats.
const SMALL: u64 = 1 << 32;

impl Doubt {
    fn new(now: Instant, bytes: usize, times: Times) -> Self {
        Self { bytes, times, large: 0, small: 0, answered: 0, next_at: now, is_half: false }
    }

    fn has_more(&self) -> bool {
        self.is_half || self.large < LARGE_PROBES && self.small < PAIRS_MAX
    }

    /// The next one of a pair: the large one, unless it would be lost in an outage, and then the small one. Returns the bytes of the large one.
    fn take(&mut self, now: Instant) -> Option<usize> {
        if !self.is_half && (self.large < LARGE_PROBES_BLIND || self.answered > 0) {
            (self.large, self.is_half) = (self.large + 1, true);
            return Some(self.bytes);
        }
        (self.small, self.is_half) = (self.small + 1, false);
        // The delay of SACKs makes SRTT longer than the round trip of probes.
        let Times { rto, srtt } = self.times;
        self.next_at = now + if self.has_more() { rto / 10 } else { (srtt + srtt / 4).clamp(rto / 2, rto / 10 * 9) };
        None
    }
}

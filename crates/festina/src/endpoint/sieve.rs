//! While a flood of INITs lasts, the operating system drops most of them before they cost a system call or a wake-up.
//!
//! Which of them it drops is chance, as it is for those that the endpoint sheds itself. Packets of associations always pass.

use festina_sctp::wire::{Packet, chunk_type};
use festina_units::{Duration, Instant};

/// Interval between evaluations of the flood.
const PERIOD: Duration = Duration::from_millis(20);

/// At most one of 65,536 INITs passes.
const HALVINGS_MAX: u32 = 16;

/// A sieve is not worth its change below three times this rate. Tests cannot rely on a machine that sends that fast.
const PER_SECOND_MIN: u32 = if cfg!(test) { 200 } else { 20_000 };

/// Decides how often to halve the INITs that pass, so that slightly more arrive than the endpoint wants to process.
#[derive(Debug)]
pub(super) struct Sieve {
    /// Target rate.
    per_second: u32,
    halvings: u32,
    /// INITs that came since `begun`.
    inits: u64,
    /// When the present period began.
    begun: Instant,
    /// The system has no sieve.
    missing: bool,
}

impl Sieve {
    /// The endpoint looks at `per_second` strays.
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = per_second.max(PER_SECOND_MIN);
        Self { per_second, halvings: 0, inits: 0, begun: Instant::ZERO, missing: false }
    }

    /// Counts an out-of-the-blue packet. Returns the average number of further INITs that the system has dropped for it.
    pub(super) fn note(&mut self, packet: &[u8]) -> usize {
        if Packet::first_chunk_type(packet) != Some(chunk_type::INIT) || packet.get(4..8) != Some(&[0; 4]) {
            return 0;
        }
        self.inits += 1;
        (1 << self.halvings) - 1
    }

    /// Returns whether there is nothing to judge: no INIT came, and all would pass.
    pub(super) fn is_idle(&self) -> bool {
        self.inits == 0 && self.halvings == 0
    }

    /// Returns the new number of halvings by the system, if it changes.
    pub(super) fn judge(&mut self, now: Instant) -> Option<u32> {
        let elapsed = now.saturating_duration_since(self.begun);
        if elapsed < PERIOD {
            return None;
        }
        let wanted = u128::from(self.per_second) * elapsed.as_micros() / 1_000_000;
        let halvings = judged(self.halvings, self.inits.into(), wanted);
        let changed = halvings != self.halvings && !self.missing;
        (self.inits, self.begun) = (0, now);
        if changed {
            self.halvings = halvings;
        }
        changed.then_some(halvings)
    }

    /// The system has no sieve: all INITs pass.
    pub(super) fn give_up(&mut self) {
        (self.missing, self.halvings) = (true, 0);
    }

    /// When a sieve that is in use has to be judged again. No packet may come before.
    pub(super) fn judged_by(&self) -> Option<Instant> {
        (self.halvings > 0).then(|| self.begun + PERIOD)
    }
}

/// More halvings if over three times the target arrived, fewer if less than five quarters did. The distance between the two keeps chance from
/// changing a suitable sieve.
fn judged(mut halvings: u32, mut came: u128, wanted: u128) -> u32 {
    while came > wanted * 3 && halvings < HALVINGS_MAX {
        came /= 2;
        halvings += 1;
    }
    while came * 4 < wanted * 5 && halvings > 0 {
        came *= 2;
        halvings -= 1;
    }
    halvings
}

/// Returns the socket filter: of packets without a verification tag whose first chunk is an INIT, a random one of two to the power of `halvings`
/// passes. Offsets count from the UDP header.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn program(halvings: u32) -> [socket2::SockFilter; 9] {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Where a load finds a random word (`SKF_AD_OFF + SKF_AD_RANDOM`).
    const RANDOM: u32 = 0xffff_f038;
    const TAG_AT: u32 = 8 + 4;
    const CHUNK_TYPE_AT: u32 = 8 + 12;
    let mask = 1_u32.checked_shl(halvings).map_or(u32::MAX, |one_of| one_of - 1);
    [
        (LOAD_WORD, 0, 0, TAG_AT),
        (JUMP_IF_EQUAL, 0, 5, 0),
        (LOAD_BYTE, 0, 0, CHUNK_TYPE_AT),
        (JUMP_IF_EQUAL, 0, 3, chunk_type::INIT.into()),
        (LOAD_WORD, 0, 0, RANDOM),
        (AND, 0, 0, mask),
        (JUMP_IF_EQUAL, 0, 1, 0),
        (RETURN, 0, 0, u32::MAX),
        (RETURN, 0, 0, 0),
    ]
    .map(|(code, if_true, if_false, operand)| socket2::SockFilter::new(code, if_true, if_false, operand))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An INIT as far as its first bytes tell.
    const INIT: [u8; 16] = [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, chunk_type::INIT, 0, 0, 4];

    /// Seconds of a flood; returns the INITs per second that passed in the end, and the halvings.
    fn flooded(sieve: &mut Sieve, begin: Instant, per_second: u64) -> (u64, u32) {
        let mut passed = 0;
        for period in 1..=100 {
            passed = (per_second / 50) >> sieve.halvings;
            let _dropped: usize = (0..passed).map(|_| sieve.note(&INIT)).sum();
            sieve.judge(begin + PERIOD * period);
        }
        (passed * 50, sieve.halvings)
    }

    fn sieve() -> (Sieve, Instant) {
        let (mut sieve, begin) = (Sieve::new(20_000), Instant::from_secs(3_600));
        assert_eq!(sieve.judge(begin), None);
        (sieve, begin)
    }

    #[test]
    fn a_little_more_than_wanted_passes_whatever_the_rate_of_the_flood() {
        for per_second in [61_000, 100_000, 150_000, 1_000_000, 50_000_000] {
            let (mut sieve, begin) = sieve();
            let (passed, halvings) = flooded(&mut sieve, begin, per_second);
            assert!(halvings > 0 && (24_000..=60_000).contains(&passed), "{passed} of {per_second} pass");
        }
    }

    #[test]
    fn what_the_endpoint_can_shed_itself_needs_no_sieve() {
        let (mut sieve, begin) = sieve();
        assert_eq!(flooded(&mut sieve, begin, 55_000), (55_000, 0));
        assert_eq!(sieve.judged_by(), None);
    }

    #[test]
    fn the_sieve_opens_one_period_after_the_flood() {
        let (mut sieve, begin) = sieve();
        flooded(&mut sieve, begin, 1_000_000);
        let judged_by = sieve.judged_by().unwrap();
        assert_eq!(sieve.judge(judged_by), Some(0));
        assert_eq!(sieve.judged_by(), None);
    }

    #[test]
    fn only_inits_without_a_tag_count_and_each_stands_for_those_dropped() {
        let (mut sieve, _) = sieve();
        sieve.halvings = 3;
        assert_eq!(sieve.note(&INIT), 7);
        let (mut tagged, mut data) = (INIT, INIT);
        (tagged[7], data[12]) = (1, 0);
        assert_eq!((sieve.note(&tagged), sieve.note(&data), sieve.note(&INIT[..12])), (0, 0, 0));
        assert_eq!(sieve.inits, 1);
    }

    #[test]
    fn a_system_without_sieve_is_asked_once() {
        let (mut sieve, begin) = sieve();
        let _dropped: usize = (0..10_000).map(|_| sieve.note(&INIT)).sum();
        assert!(sieve.judge(begin + PERIOD).is_some());
        sieve.give_up();
        assert_eq!(flooded(&mut sieve, begin + PERIOD, 1_000_000), (1_000_000, 0));
    }
}

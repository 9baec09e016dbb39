//! Which collector gets which lines: the first of the list that is there, or for each group of sources the first of a list of its own.
//!
//! One that has gone is replaced after a while, not at once: most come back soon. One that comes back is trusted after as long a while.

use festina_units::{Duration, duration};

use crate::record::SLOTS;
use crate::spool;

/// Collectors that one relay may have.
pub const COLLECTORS_MAX: usize = 8;

/// How lines go to collectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Their names, which stay the same over restarts. At least one, and at most [`COLLECTORS_MAX`].
    pub collectors: Vec<String>,
    /// Whether each source has a collector of its own, instead of all the first.
    pub spread: bool,
    /// Time after which another collector replaces an absent one.
    pub after: Duration,
    /// Time after which lines that wait for a gone collector are also sent to another; `None` means never.
    pub repeat_after: Option<Duration>,
}

impl Routing {
    /// Default of [`Routing::after`].
    pub const AFTER_DEFAULT: Duration = Duration::from_secs(10);

    /// All lines to one collector.
    pub fn to_one(name: &str) -> Self {
        Self { collectors: vec![name.to_owned()], spread: false, after: Self::AFTER_DEFAULT, repeat_after: None }
    }
}

/// Where a collector is. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// It is away since then; its lines wait for it.
    Awaited { since_us: u64 },
    /// It answers since then. If it was gone before, others stay in its place for a while.
    Here { since_us: u64, gone_since_us: Option<u64> },
    /// It is gone since then; its lines were repeated or not.
    Gone { since_us: u64, repeated: bool },
}

/// What time has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Collectors that are gone now, one bit each.
    pub(super) gone: u8,
    /// Collectors whose lines are to be sent to others.
    pub(super) repeat: u8,
}

/// Where all collectors are.
pub(super) struct Routes {
    presences: Vec<Presence>,
    /// For each group of sources, collectors in the order in which they are asked.
    ranks: Vec<Vec<usize>>,
    after_us: u64,
    repeat_after_us: Option<u64>,
}

impl Routes {
    pub(super) fn new(routing: &Routing, now_us: u64) -> Self {
        let micros = |time| duration::saturating_nanos(time) / 1_000;
        let in_order: Vec<usize> = (0..routing.collectors.len()).collect();
        let ranked = |slot| {
            let mut ranked = in_order.clone();
            if routing.spread {
                ranked.sort_by_key(|&index| std::cmp::Reverse(weight(&routing.collectors[index], slot)));
            }
            ranked
        };
        Self {
            presences: vec![Presence::Awaited { since_us: now_us }; routing.collectors.len()],
            ranks: (0..SLOTS).map(ranked).collect(),
            after_us: micros(routing.after),
            repeat_after_us: routing.repeat_after.map(micros),
        }
    }

    /// The collector for new lines of a group of sources. It may be away for a moment: then they wait.
    pub(super) fn target(&self, slot: u8) -> Option<usize> {
        let ranked = &self.ranks[usize::from(slot % SLOTS)];
        let first = |fits: &dyn Fn(usize) -> bool| ranked.iter().copied().find(|&one| fits(one));
        first(&|one| self.is_trusted(one)).or_else(|| first(&|one| self.is_here(one)))
    }

    /// The collector for lines of a group of sources that cannot wait: one that is there, if any is.
    pub(super) fn target_now(&self, slot: u8) -> usize {
        let ranked = &self.ranks[usize::from(slot % SLOTS)];
        let target = self.target(slot).filter(|&target| self.is_here(target));
        target.or_else(|| ranked.iter().copied().find(|&one| self.is_here(one))).unwrap_or(ranked[0])
    }

    /// Whether there is but one collector.
    pub(super) fn is_only(&self) -> bool {
        self.presences.len() == 1
    }

    pub(super) fn is_here(&self, collector: usize) -> bool {
        matches!(self.presences[collector], Presence::Here { .. })
    }

    pub(super) fn is_gone(&self, collector: usize) -> bool {
        matches!(self.presences[collector], Presence::Gone { .. })
    }

    /// Whether new lines go to it: it is there, or away for no more than a moment.
    pub(super) fn is_trusted(&self, collector: usize) -> bool {
        matches!(self.presences[collector], Presence::Awaited { .. } | Presence::Here { gone_since_us: None, .. })
    }

    /// The collector has welcomed this relay.
    pub(super) fn welcomed(&mut self, collector: usize, now_us: u64) {
        let gone_since_us = match self.presences[collector] {
            Presence::Gone { since_us, .. } => Some(since_us),
            Presence::Here { gone_since_us, .. } => gone_since_us,
            Presence::Awaited { .. } => None,
        };
        self.presences[collector] = Presence::Here { since_us: now_us, gone_since_us };
    }

    /// The association with a collector has ended.
    pub(super) fn left(&mut self, collector: usize, now_us: u64) {
        if let Presence::Here { gone_since_us, .. } = self.presences[collector] {
            self.presences[collector] = match gone_since_us {
                None => Presence::Awaited { since_us: now_us },
                Some(since_us) => Presence::Gone { since_us, repeated: false },
            };
        }
    }

    /// Time has passed.
    pub(super) fn keep_time(&mut self, now_us: u64) -> News {
        let mut news = News::default();
        for (index, presence) in self.presences.iter_mut().enumerate() {
            match presence {
                Presence::Awaited { since_us } if now_us.saturating_sub(*since_us) >= self.after_us => {
                    *presence = Presence::Gone { since_us: now_us, repeated: false };
                    news.gone |= 1 << index;
                }
                Presence::Here { since_us, gone_since_us } if now_us.saturating_sub(*since_us) >= self.after_us => {
                    *gone_since_us = None;
                }
                Presence::Gone { since_us, repeated }
                    if !*repeated
                        && self.repeat_after_us.is_some_and(|after| now_us.saturating_sub(*since_us) >= after) =>
                {
                    *repeated = true;
                    news.repeat |= 1 << index;
                }
                _ => {}
            }
        }
        news
    }
}

/// Weight of a collector for a group of sources: the greatest wins (rendezvous hashing), so that an added collector takes sources from others and
/// moves none between them.
fn weight(collector: &str, slot: u8) -> u64 {
    let mut mixed = u64::from(spool::checksum(collector.as_bytes())) << 8 | u64::from(slot);
    // The finalizer of splitmix64: equal distances between checksums must not mean equal orders.
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn routing(collectors: &[&str], spread: bool) -> Routing {
        Routing {
            collectors: collectors.iter().map(|&name| name.to_owned()).collect(),
            spread,
            after: Duration::from_secs(10),
            repeat_after: Some(Duration::from_secs(100)),
        }
    }

    #[test]
    fn a_collector_is_replaced_after_a_while_and_trusted_again_after_as_long_a_while() {
        let mut routes = Routes::new(&routing(&["a", "b"], false), 0);
        assert_eq!((routes.target(0), routes.target_now(0)), (Some(0), 0));
        routes.welcomed(1, SECOND);
        assert_eq!((routes.target(0), routes.target_now(0)), (Some(0), 1));
        assert_eq!(routes.keep_time(9 * SECOND), News::default());
        assert_eq!(routes.keep_time(10 * SECOND), News { gone: 1, repeat: 0 });
        assert_eq!(routes.target(0), Some(1));
        routes.welcomed(0, 20 * SECOND);
        routes.keep_time(29 * SECOND);
        assert_eq!(routes.target(0), Some(1));
        routes.keep_time(30 * SECOND);
        assert_eq!(routes.target(0), Some(0));
        // Once trusted, it is waited for again.
        routes.left(0, 40 * SECOND);
        routes.keep_time(49 * SECOND);
        assert_eq!(routes.target(0), Some(0));
    }

    #[test]
    fn one_that_does_not_stay_is_not_waited_for_and_is_taken_when_there_is_no_other() {
        let mut routes = Routes::new(&routing(&["a", "b"], false), 0);
        assert_eq!(routes.keep_time(10 * SECOND), News { gone: 3, repeat: 0 });
        assert_eq!(routes.target(0), None);
        routes.welcomed(1, 11 * SECOND);
        assert_eq!(routes.target(0), Some(1));
        routes.left(1, 12 * SECOND);
        assert!(routes.is_gone(1));
        // For both the time began when they were gone first.
        assert_eq!(routes.keep_time(109 * SECOND), News::default());
        assert_eq!(routes.keep_time(110 * SECOND), News { gone: 0, repeat: 3 });
        assert_eq!(routes.keep_time(500 * SECOND), News::default());
    }

    #[test]
    fn sources_are_spread_and_one_more_collector_moves_none_between_the_others() {
        let homes = |names: &[&str]| {
            let routes = Routes::new(&routing(names, true), 0);
            (0..SLOTS).map(|slot| routes.target(slot).expect("all are present")).collect::<Vec<_>>()
        };
        let (two, three) =
            (homes(&["192.0.2.1:9899", "192.0.2.2:9899"]), homes(&["192.0.2.1:9899", "192.0.2.2:9899", "[::1]:9"]));
        for (homes, collectors) in [(&two, 2), (&three, 3)] {
            for collector in 0..collectors {
                let share = homes.iter().filter(|&&home| home == collector).count();
                assert!(share * collectors >= usize::from(SLOTS) / 2, "{homes:?}");
            }
        }
        assert!(two.iter().zip(&three).all(|(before, after)| before == after || *after == 2));
    }
}

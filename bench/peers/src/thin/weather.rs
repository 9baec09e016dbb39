//! A path whose delay changes while a connection lasts, as it does for a phone or behind a busy router.
//!
//! | part | effect |
//! |---|---|
//! | route | every 2 to 8 s another one, with a round trip of 40 to 200 ms, each as likely as another |
//! | queue | every 10 s another flow fills it for half a second, on the way there: up to 80 ms more, and back to none in another half |
//! | jitter | 0 to 10 ms more for each packet, in order |
//! | reordering | 1 % of the packets 15 ms late, so that others overtake them |

use std::time::Duration;

use festina_netsim::RandomStream;
use festina_units::Probability;

use super::task::nanos;
use crate::measure::Wire;

/// The shortest time from one end to the other.
const DELAY_MIN: Duration = Duration::from_millis(20);
/// How much longer a route may take, each way.
const ROUTE_EXTRA_MAX: Duration = Duration::from_millis(80);
const ROUTE_LASTS_MIN: Duration = Duration::from_secs(2);
const ROUTE_LASTS_MORE: Duration = Duration::from_secs(6);
const QUEUE_EVERY: Duration = Duration::from_secs(10);
const QUEUE_GROWS_FOR: Duration = Duration::from_millis(500);
const QUEUE_MAX: Duration = Duration::from_millis(80);
const JITTER_MAX: Duration = Duration::from_millis(10);

/// The mean round trip of the routes, for which fixed timers are set.
pub const MEAN_ROUND_TRIP: Duration = Duration::from_millis(120);

/// The parts of the path that do not change.
pub(super) fn wire(loss: Probability) -> Wire {
    Wire { delay: DELAY_MIN, loss, reordering: Probability::from_percent(1), hold_back: Duration::from_millis(15) }
}

/// One direction of the path.
#[derive(Debug)]
pub(super) struct Weather {
    /// When each route begins, and how much longer than the shortest it takes one way.
    routes: Vec<(Duration, Duration)>,
    random: RandomStream,
    jitter: RandomStream,
    has_queue: bool,
}

impl Weather {
    /// Both directions of a connection have the same routes.
    pub(super) fn new(seed: u64, is_there: bool) -> Self {
        let name = if is_there { "there/jitter" } else { "back/jitter" };
        Weather {
            routes: Vec::new(),
            random: RandomStream::new(seed, "routes"),
            jitter: RandomStream::new(seed, name),
            has_queue: is_there,
        }
    }

    /// How long a packet takes on the route of this instant without queue and jitter.
    pub(super) fn delay(&mut self, at: Duration) -> Duration {
        DELAY_MIN + self.route(at)
    }

    /// How much longer than the shortest time a packet takes that leaves now.
    pub(super) fn extra(&mut self, now: Duration) -> Duration {
        let jitter = below(&mut self.jitter, JITTER_MAX);
        let queue = if self.has_queue { queue(now) } else { Duration::ZERO };
        self.route(now) + queue + jitter
    }

    fn route(&mut self, at: Duration) -> Duration {
        while self.routes.last().is_none_or(|(begins, _)| *begins <= at) {
            let begins = self.routes.last().map_or(Duration::ZERO, |(begins, _)| {
                *begins + ROUTE_LASTS_MIN + below(&mut self.random, ROUTE_LASTS_MORE)
            });
            self.routes.push((begins, below(&mut self.random, ROUTE_EXTRA_MAX)));
        }
        let after = self.routes.partition_point(|(begins, _)| *begins <= at);
        self.routes[after - 1].1
    }
}

/// The waiting time in the queue.
fn queue(now: Duration) -> Duration {
    let into = Duration::from_nanos(nanos(now) % nanos(QUEUE_EVERY));
    let left = into.abs_diff(QUEUE_GROWS_FOR);
    QUEUE_MAX.mul_f64(1.0 - left.min(QUEUE_GROWS_FOR).div_duration_f64(QUEUE_GROWS_FOR))
}

fn below(random: &mut RandomStream, limit: Duration) -> Duration {
    Duration::from_nanos(random.below(nanos(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_the_same_routes_and_the_queue_is_on_one() {
        let [mut there, mut back] = [true, false].map(|is_there| Weather::new(7, is_there));
        let mut delays = Vec::new();
        for ms in (0..600_000).step_by(100) {
            let at = Duration::from_millis(ms);
            let delay = there.delay(at);
            assert_eq!(delay, back.delay(at));
            let (queued, clear) = (there.extra(at) + DELAY_MIN, back.extra(at) + DELAY_MIN);
            assert!(queued >= delay + queue(at) && queued < delay + queue(at) + JITTER_MAX, "{ms}: {queued:?}");
            assert!(clear >= delay && clear < delay + JITTER_MAX, "{ms}: {clear:?}");
            delays.push(delay);
        }
        // An earlier instant has the route that it had.
        assert_eq!(there.delay(Duration::ZERO), delays[0]);
        let mean = delays.iter().sum::<Duration>() / 6_000;
        assert!(mean.abs_diff(MEAN_ROUND_TRIP / 2) < Duration::from_millis(6), "{mean:?}");
        assert!(delays.iter().all(|delay| (DELAY_MIN..Duration::from_millis(100)).contains(delay)));
        delays.dedup();
        assert!((90..180).contains(&delays.len()), "{} routes", delays.len());
    }

    #[test]
    fn the_queue_fills_and_drains_in_a_second_of_ten() {
        let ms = Duration::from_millis;
        for (at, waits) in [(0, 0), (250, 40), (500, 80), (750, 40), (1_000, 0), (5_000, 0), (10_500, 80)] {
            assert_eq!(queue(ms(at)), ms(waits), "{at}");
        }
    }
}

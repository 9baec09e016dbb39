//! Which packets a link loses.

use std::ops::Range;
use std::sync::Arc;

use festina_units::{Duration, Instant, Probability, duration};

use crate::random::RandomStream;

/// A rule for losing packets on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LossModel {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost with the same probability, independently of all others.
    Independent(Probability),
    /// Losses come in bursts.
    GilbertElliott(GilbertElliott),
    /// Losses come in bursts that last for a number of packets, regardless of the time between them.
    PacketGilbertElliott(PacketGilbertElliott),
    /// Loses exactly these packets, counted from zero in the order in which they are offered to the link. The list's
    /// order and repetitions do not matter.
    Exact(Vec<u64>),
    /// A recorded pattern: the n-th packet is lost if the n-th entry is true. After the last entry it repeats.
    Replay(Vec<bool>),
    /// Loses every packet offered within one of these periods, which are in chronological order and do not overlap.
    Outages(Arc<[Range<Instant>]>),
}

/// A channel that alternates between a good and a bad state, each for an exponentially distributed time. As the states
/// last for a time and not for a number of packets, thin and thick streams see the same channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// Mean duration of the good state.
    pub mean_good: Duration,
    /// Mean duration of the bad state.
    pub mean_bad: Duration,
    /// Probability of losing a packet in the good state.
    pub loss_in_good: Probability,
    /// Probability of losing a packet in the bad state.
    pub loss_in_bad: Probability,
}

impl GilbertElliott {
    /// Returns a channel that loses every packet in bursts of this mean length, with a mean loss rate of `loss`; `None`
    /// unless the loss is above 0 % and below 100 %, or if it is too small for such bursts.
    pub fn bursts(loss: Probability, mean_bad: Duration) -> Option<Self> {
        let kept_ppb = Probability::ONE.ppb().checked_sub(loss.ppb()).filter(|kept_ppb| *kept_ppb > 0)?;
        let mean_good_ns = (mean_bad.as_nanos() * u128::from(kept_ppb)).checked_div(loss.ppb().into())?;
        let mean_good = Duration::from_nanos(u64::try_from(mean_good_ns).ok()?);
        Some(Self { mean_good, mean_bad, loss_in_good: Probability::ZERO, loss_in_bad: Probability::ONE })
    }

    /// Returns the long-run share of packets lost, for packets evenly spread over time.
    pub fn mean_loss(&self) -> Probability {
        let good = u128::from(duration::saturating_nanos(self.mean_good));
        let bad = u128::from(duration::saturating_nanos(self.mean_bad));
        let weighted = good * u128::from(self.loss_in_good.ppb()) + bad * u128::from(self.loss_in_bad.ppb());
        let ppb = weighted.checked_div(good + bad).unwrap_or(0);
        Probability::from_ppb(u32::try_from(ppb).unwrap_or(u32::MAX))
    }

    /// Draws the periods of the bad state from time zero to `end`. With [`LossModel::Outages`] a link follows this
    /// course, so it is known beforehand and independent of the traffic. The channel starts in the good state. A state
    /// without duration does not occur.
    pub fn outages(&self, end: Instant, random: &mut RandomStream) -> Arc<[Range<Instant>]> {
        let mut outages = Vec::new();
        let mut now = Instant::ZERO;
        if self.mean_bad.is_zero() {
            return outages.into();
        }
        while now < end {
            let begins = now + random.exponential(self.mean_good);
            let ends = begins + random.exponential(self.mean_bad).max(Duration::from_nanos(1));
            outages.push(begins..ends);
            now = ends;
        }
        outages.into()
    }
}

/// A channel that may change its state after each packet, as netem's `gemodel` does.
///
/// A sender that backs off in the bad state stays in it for longer. Use this model to compare with netem, and
/// [`GilbertElliott`] for a network whose bursts are independent of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketGilbertElliott {
    /// Probability that the good state ends with a packet.
    pub good_to_bad: Probability,
    /// Probability that the bad state ends with a packet.
    pub bad_to_good: Probability,
    /// Probability of losing a packet in the good state.
    pub loss_in_good: Probability,
    /// Probability of losing a packet in the bad state.
    pub loss_in_bad: Probability,
}

/// The state of a [`LossModel`], which decides packet by packet.
#[derive(Debug)]
pub(crate) struct LossProcess {
    state: State,
    /// One sample per packet for every model.
    drops: RandomStream,
}

#[derive(Debug)]
enum State {
    None,
    Independent(Probability),
    GilbertElliott(Channel),
    PacketGilbertElliott {
        parameters: PacketGilbertElliott,
        is_bad: bool,
        changes: RandomStream,
    },
    Exact {
        /// The remaining indices, in descending order.
        remaining: Vec<u64>,
        next_index: u64,
    },
    Replay {
        pattern: Vec<bool>,
        next_index: usize,
    },
    Outages {
        periods: Arc<[Range<Instant>]>,
        /// Number of outages that are over.
        over: usize,
    },
}

impl LossProcess {
    /// Creates the process of `model` that draws from the streams of `seed` whose names begin with `name`.
    pub(crate) fn new(model: &LossModel, seed: u64, name: &str) -> Self {
        let state = match model {
            LossModel::None => State::None,
            LossModel::Independent(probability) => State::Independent(*probability),
            LossModel::GilbertElliott(parameters) => {
                let random = RandomStream::new(seed, &format!("{name}/channel"));
                State::GilbertElliott(Channel::new(*parameters, random))
            }
            LossModel::PacketGilbertElliott(parameters) => State::PacketGilbertElliott {
                parameters: *parameters,
                is_bad: false,
                changes: RandomStream::new(seed, &format!("{name}/channel")),
            },
            LossModel::Exact(indices) => {
                let mut remaining = indices.clone();
                remaining.sort_unstable_by(|a, b| b.cmp(a));
                remaining.dedup();
                State::Exact { remaining, next_index: 0 }
            }
            LossModel::Replay(pattern) => State::Replay { pattern: pattern.clone(), next_index: 0 },
            LossModel::Outages(periods) => State::Outages { periods: periods.clone(), over: 0 },
        };
        Self { state, drops: RandomStream::new(seed, name) }
    }

    /// Returns whether the packet offered at `now` is lost. Must be called once per packet, in order.
    pub(crate) fn is_next_lost(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::None => false,
            State::Independent(probability) => self.drops.chance(*probability),
            State::GilbertElliott(channel) => self.drops.chance(channel.loss_at(now)),
            State::PacketGilbertElliott { parameters, is_bad, changes } => {
                let (change, loss) = if *is_bad {
                    (parameters.bad_to_good, parameters.loss_in_bad)
                } else {
                    (parameters.good_to_bad, parameters.loss_in_good)
                };
                *is_bad ^= changes.chance(change);
                self.drops.chance(loss)
            }
            State::Exact { remaining, next_index } => {
                let index = *next_index;
                *next_index += 1;
                remaining.pop_if(|lost| *lost == index).is_some()
            }
            State::Replay { pattern, next_index } => {
                let is_lost = pattern.get(*next_index).copied().unwrap_or(false);
                *next_index = (*next_index + 1).checked_rem(pattern.len()).unwrap_or(0);
                is_lost
            }
            State::Outages { periods, over } => {
                *over += periods[*over..].iter().take_while(|period| period.end <= now).count();
                periods.get(*over).is_some_and(|period| period.contains(&now))
            }
        }
    }
}

/// The state of a Gilbert-Elliott channel.
///
/// A two-state Markov process with sojourn means G and B is equivalent to one whose state is redrawn, bad with
/// probability B/(G+B), at the points of a Poisson process with mean spacing GB/(G+B). As the spacings are memoryless,
/// all points since the last packet act as one: the cost per packet is constant however long the pause was.
#[derive(Debug)]
struct Channel {
    parameters: GilbertElliott,
    is_bad: bool,
    redrawn_at: Instant,
    random: RandomStream,
}

impl Channel {
    fn new(parameters: GilbertElliott, random: RandomStream) -> Self {
        let mut channel = Self { parameters, is_bad: false, redrawn_at: Instant::ZERO, random };
        channel.redraw(Instant::ZERO);
        channel
    }

    fn loss_at(&mut self, now: Instant) -> Probability {
        if now >= self.redrawn_at {
            self.redraw(now);
        }
        if self.is_bad { self.parameters.loss_in_bad } else { self.parameters.loss_in_good }
    }

    fn redraw(&mut self, now: Instant) {
        let good = duration::saturating_nanos(self.parameters.mean_good);
        let bad = duration::saturating_nanos(self.parameters.mean_bad);
        self.is_bad = self.random.below(good.saturating_add(bad)) < bad;
        let spacing = (u128::from(good) * u128::from(bad)).checked_div(u128::from(good) + u128::from(bad)).unwrap_or(0);
        let spacing = Duration::from_nanos(u64::try_from(spacing).unwrap_or(u64::MAX));
        self.redrawn_at = now + self.random.exponential(spacing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: &LossModel, packets: u64, spacing: Duration) -> Vec<bool> {
        let mut process = LossProcess::new(model, 7, "loss");
        let mut now = Instant::ZERO;
        (0..packets)
            .map(|_| {
                now += spacing;
                process.is_next_lost(now)
            })
            .collect()
    }

    fn count(losses: &[bool]) -> usize {
        losses.iter().filter(|lost| **lost).count()
    }

    #[test]
    fn the_model_without_loss_loses_nothing() {
        assert_eq!(count(&losses(&LossModel::None, 1_000, Duration::ZERO)), 0);
    }

    #[test]
    fn independent_losses_have_their_share_and_do_not_cluster() {
        let model = LossModel::Independent(Probability::from_percent(5));
        let lost = losses(&model, 100_000, Duration::ZERO);
        assert!((4_800..5_200).contains(&count(&lost)), "{}", count(&lost));
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!((200..300).contains(&pairs), "5 % of 5 %, got {pairs}");
    }

    #[test]
    fn an_exact_list_loses_exactly_its_packets() {
        let lost = losses(&LossModel::Exact(vec![4, 0, 4, 2]), 6, Duration::ZERO);
        assert_eq!(lost, [true, false, true, false, true, false]);
    }

    #[test]
    fn a_recorded_pattern_is_replayed_over_and_over() {
        let lost = losses(&LossModel::Replay(vec![false, true, false]), 7, Duration::ZERO);
        assert_eq!(lost, [false, true, false, false, true, false, false]);
        assert_eq!(count(&losses(&LossModel::Replay(vec![]), 10, Duration::ZERO)), 0);
    }

    #[test]
    fn an_outage_includes_its_start_and_excludes_its_end() {
        let ms = Instant::from_millis;
        let model = LossModel::Outages([ms(2)..ms(4), ms(4)..ms(5), ms(7)..ms(8)].into());
        let lost = losses(&model, 9, Duration::from_millis(1));
        assert_eq!(lost, [false, true, true, true, false, false, true, false, false]);
    }

    #[test]
    fn the_outages_of_a_channel_take_its_share_of_the_time_and_their_mean_length() {
        let ms = Duration::from_millis;
        let (loss_in_good, loss_in_bad) = (Probability::ZERO, Probability::ONE);
        let channel = GilbertElliott { mean_good: ms(900), mean_bad: ms(100), loss_in_good, loss_in_bad };
        let end = Instant::from_secs(10_000);
        let outages = channel.outages(end, &mut RandomStream::new(1, "channel"));
        assert!(outages.is_sorted_by(|earlier, later| earlier.end < later.start));
        let bad: Duration = outages.iter().map(|outage| outage.end - outage.start).sum();
        assert!((950..1_050).contains(&bad.as_secs()), "{bad:?}");
        assert!((9_700..10_300).contains(&outages.len()), "{}", outages.len());
        let never_bad = GilbertElliott { mean_bad: Duration::ZERO, ..channel };
        assert!(never_bad.outages(end, &mut RandomStream::new(1, "channel")).is_empty());
    }

    #[test]
    fn a_gilbert_elliott_channel_is_bad_for_its_share_of_the_time() {
        let model = LossModel::GilbertElliott(GilbertElliott {
            mean_good: Duration::from_millis(900),
            mean_bad: Duration::from_millis(100),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        });
        for spacing_us in [500, 10_000, 3_000_000] {
            let lost = losses(&model, 400_000, Duration::from_micros(spacing_us));
            let share_per_mille = count(&lost) * 1_000 / lost.len();
            assert!((80..=120).contains(&share_per_mille), "{spacing_us} us: {share_per_mille}");
        }
    }

    #[test]
    fn a_gilbert_elliott_channel_stays_bad_for_its_mean_time() {
        let model = LossModel::GilbertElliott(GilbertElliott {
            mean_good: Duration::from_millis(900),
            mean_bad: Duration::from_millis(100),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        });
        let lost = losses(&model, 1_000_000, Duration::from_millis(1));
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean_burst_ms = count(&lost) / bursts;
        assert!((90..=110).contains(&mean_burst_ms), "{mean_burst_ms}");
    }

    #[test]
    fn each_state_of_the_channel_has_its_own_loss() {
        let parameters = GilbertElliott {
            mean_good: Duration::from_millis(300),
            mean_bad: Duration::from_millis(100),
            loss_in_good: Probability::from_percent(2),
            loss_in_bad: Probability::from_percent(50),
        };
        assert_eq!(parameters.mean_loss(), Probability::from_percent(14));
        let lost = losses(&LossModel::GilbertElliott(parameters), 200_000, Duration::from_millis(10));
        let share_per_mille = count(&lost) * 1_000 / lost.len();
        assert!((132..=148).contains(&share_per_mille), "{share_per_mille}");
    }

    #[test]
    fn a_channel_that_steps_with_packets_has_bursts_independent_of_time() {
        let model = LossModel::PacketGilbertElliott(PacketGilbertElliott {
            good_to_bad: Probability::from_percent(2),
            bad_to_good: Probability::from_percent(50),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        });
        let close = losses(&model, 100_000, Duration::from_micros(10));
        assert_eq!(close, losses(&model, 100_000, Duration::from_secs(10)));
        let bursts = close.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!((1_800..2_050).contains(&bursts), "2 % of the packets in the good state: {bursts}");
        let burst_hundredths = count(&close) * 100 / bursts;
        assert!((190..=210).contains(&burst_hundredths), "two packets on average: {burst_hundredths}");
    }

    #[test]
    fn states_without_duration_do_not_occur() {
        let channel = |mean_good, mean_bad| {
            LossModel::GilbertElliott(GilbertElliott {
                mean_good,
                mean_bad,
                loss_in_good: Probability::ZERO,
                loss_in_bad: Probability::ONE,
            })
        };
        let second = Duration::from_secs(1);
        let zero = Duration::ZERO;
        assert_eq!(count(&losses(&channel(second, zero), 100, second)), 0);
        assert_eq!(count(&losses(&channel(zero, second), 100, second)), 100);
        assert_eq!(count(&losses(&channel(zero, zero), 100, second)), 0);
    }
}

//! Flags that describe an emulated link.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use festina_lab::plan::LinkTrace;
use festina_netsim::{
    CoDelConfig, DredConfig, FqCoDelConfig, GilbertElliott, Jitter, JitterShape, LinkConfig, LossModel, PieConfig,
    QueueDiscipline, QueueLimit, RateTrace, RedConfig, Reordering,
};
use festina_units::{Bandwidth, ByteCount, Probability};

use crate::args;
use crate::usage::UsageError;

/// One direction of the network.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// One-way propagation delay
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = args::any_duration)]
    pub(crate) delay: Duration,
    /// Vary the delay by up to this time in either direction, without reordering
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = args::any_duration)]
    pub(crate) jitter: Duration,
    /// Bits per second, for example 10Mbit/s; without it there is no limit and no queue
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Bandwidth>,
    /// Follow a variable rate: a file in Mahimahi's format (one time in milliseconds per line, each an opportunity for 1,504 bytes; it repeats), or
    /// one of the generated traces lte, wifi and satellite
    #[arg(long, value_name = "FILE|NAME", value_parser = trace, conflicts_with = "rate")]
    pub(crate) trace: Option<RateTrace>,
    /// Queue limit of the transmitter: packets (100p) or bytes (64KiB)
    #[arg(long, value_name = "SIZE", default_value = "1000p", value_parser = queue)]
    pub(crate) queue: QueueLimit,
    /// Queue discipline: which packets are marked or dropped before the queue is full
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Discipline::DropTail)]
    pub(crate) discipline: Discipline,
    /// Share of packets lost
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(crate) loss: Probability,
    /// Lose packets in bursts of this mean length instead of singly; --loss remains the average share
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    pub(crate) burst: Option<Duration>,
    /// Lose exactly these packets, counted from 0, for example 2,7-9
    #[arg(long, value_name = "LIST", conflicts_with_all = ["loss", "burst"])]
    pub(crate) lose: Option<PacketList>,
    /// Share of packets held back by --reorder-by, so that others overtake them
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(crate) reorder: Probability,
    /// How long packets are held back
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = args::positive_duration)]
    pub(crate) reorder_by: Duration,
    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(crate) duplicate: Probability,
    /// Share of packets that arrive with a flipped bit
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub(crate) corrupt: Probability,
}

/// Differences of the reverse direction.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Where the way back differs")]
pub(crate) struct BackArgs {
    /// Like --delay
    #[arg(long, value_name = "TIME", value_parser = args::any_duration)]
    back_delay: Option<Duration>,
    /// Like --jitter
    #[arg(long, value_name = "TIME", value_parser = args::any_duration)]
    back_jitter: Option<Duration>,
    /// Like --rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    back_rate: Option<Bandwidth>,
    /// Like --trace
    #[arg(long, value_name = "FILE|NAME", value_parser = trace, conflicts_with = "back_rate")]
    back_trace: Option<RateTrace>,
    /// Like --queue
    #[arg(long, value_name = "SIZE", value_parser = queue)]
    back_queue: Option<QueueLimit>,
    /// Like --discipline
    #[arg(long, value_name = "NAME", value_enum)]
    back_discipline: Option<Discipline>,
    /// Like --loss
    #[arg(long, value_name = "SHARE")]
    back_loss: Option<Probability>,
    /// Like --burst
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    back_burst: Option<Duration>,
    /// Like --lose, which itself only applies to the forward direction
    #[arg(long, value_name = "LIST", conflicts_with_all = ["back_loss", "back_burst"])]
    back_lose: Option<PacketList>,
    /// Like --reorder
    #[arg(long, value_name = "SHARE")]
    back_reorder: Option<Probability>,
    /// Like --reorder-by
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    back_reorder_by: Option<Duration>,
    /// Like --duplicate
    #[arg(long, value_name = "SHARE")]
    back_duplicate: Option<Probability>,
    /// Like --corrupt
    #[arg(long, value_name = "SHARE")]
    back_corrupt: Option<Probability>,
}

impl LinkArgs {
    /// The link that the flags describe, on a path with this round-trip time when nothing queues.
    pub(crate) fn config(&self, round_trip: Duration) -> Result<LinkConfig, UsageError> {
        Ok(LinkConfig {
            rate: self.rate,
            trace: self.trace.clone(),
            delay: self.delay,
            jitter: jitter(self.jitter),
            queue: self.queue,
            discipline: self.discipline.config(self.rate, round_trip)?,
            loss: match &self.lose {
                Some(list) => LossModel::Exact(list.0.clone()),
                None => loss_model(self.loss, self.burst)?,
            },
            reordering: Reordering { probability: self.reorder, hold_back: self.reorder_by },
            duplication: self.duplicate,
            corruption: self.corrupt,
            ..LinkConfig::default()
        })
    }
}

impl BackArgs {
    /// The way back: like `forward` but for what the flags say.
    pub(crate) fn over(&self, forward: &LinkArgs) -> LinkArgs {
        LinkArgs {
            delay: self.back_delay.unwrap_or(forward.delay),
            jitter: self.back_jitter.unwrap_or(forward.jitter),
            rate: self.back_rate.or(forward.rate),
            trace: match &self.back_trace {
                Some(trace) => Some(trace.clone()),
                // An explicit rate replaces the trace of the forward direction.
                None => forward.trace.clone().filter(|_| self.back_rate.is_none()),
            },
            queue: self.back_queue.unwrap_or(forward.queue),
            discipline: self.back_discipline.unwrap_or(forward.discipline),
            loss: self.back_loss.unwrap_or(forward.loss),
            // A loss share of its own without a burst of its own keeps the burst of the way there.
            burst: self.back_burst.or(forward.burst),
            lose: self.back_lose.clone(),
            reorder: self.back_reorder.unwrap_or(forward.reorder),
            reorder_by: self.back_reorder_by.unwrap_or(forward.reorder_by),
            duplicate: self.back_duplicate.unwrap_or(forward.duplicate),
            corrupt: self.back_corrupt.unwrap_or(forward.corrupt),
        }
    }
}

/// How a queue is managed, with the parameters that the method's authors recommend.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Discipline {
    /// Nothing but the limit
    DropTail,
    /// Random early detection
    Red,
    /// Derivative random drop (Goel et al. 2002), from the product of --rate and the delay of both ways on
    Dred,
    /// Controlled delay (RFC 8289)
    Codel,
    /// Proportional integral controller enhanced (RFC 8033)
    Pie,
    /// Controlled delay in a queue for each flow (RFC 8290)
    FqCodel,
}

impl Discipline {
    fn config(self, rate: Option<Bandwidth>, round_trip: Duration) -> Result<QueueDiscipline, UsageError> {
        Ok(match self {
            Self::DropTail => QueueDiscipline::DropTail,
            Self::Red => QueueDiscipline::Red(RedConfig::default()),
            Self::Dred => QueueDiscipline::Dred(DredConfig::goel_2002(bandwidth_delay_product(rate, round_trip)?)),
            Self::Codel => QueueDiscipline::CoDel(CoDelConfig::default()),
            Self::Pie => QueueDiscipline::Pie(PieConfig::default()),
            Self::FqCodel => QueueDiscipline::FqCoDel(FqCoDelConfig::default()),
        })
    }
}

/// What a path holds when it is full and nothing queues.
fn bandwidth_delay_product(rate: Option<Bandwidth>, round_trip: Duration) -> Result<ByteCount, UsageError> {
    const BITS_PER_BYTE: u128 = 8;
    const NANOS_PER_SECOND: u128 = 1_000_000_000;
    let rate = rate.ok_or_else(|| UsageError::new("--discipline dred needs --rate"))?;
    if round_trip.is_zero() {
        return Err(UsageError::new("--discipline dred needs --delay, for it begins at the product of rate and delay"));
    }
    let product = u128::from(rate.bits_per_second()) * round_trip.as_nanos() / (BITS_PER_BYTE * NANOS_PER_SECOND);
    Ok(ByteCount::from_bytes(u64::try_from(product).unwrap_or(u64::MAX)))
}

/// Packets by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketList(Vec<u64>);

impl PacketList {
    /// Bounds the memory for telling which packet is lost.
    const COUNT_MAX: u64 = 1_000_000;
}

impl FromStr for PacketList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || format!("\"{text}\" is no list of packets; write for example \"2,7-9\"");
        let mut packets = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<u64>().map_err(|_| problem());
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(problem());
            }
            if last - first >= Self::COUNT_MAX - packets.len() as u64 {
                return Err(format!("it has more than {} packets", Self::COUNT_MAX));
            }
            packets.extend(first..=last);
        }
        Ok(Self(packets))
    }
}

/// Evenly distributed jitter of up to `range` to either side that keeps packets in order.
pub(crate) fn jitter(range: Duration) -> Jitter {
    let shape = if range.is_zero() { JitterShape::None } else { JitterShape::Uniform { range } };
    Jitter { shape, keeps_order: true }
}

/// Losses with a share of `loss` on average: singly, or in bursts of a mean length in which nothing gets through.
pub(crate) fn loss_model(loss: Probability, burst: Option<Duration>) -> Result<LossModel, UsageError> {
    match (loss, burst) {
        (Probability::ZERO, None) => Ok(LossModel::None),
        (loss, None) => Ok(LossModel::Independent(loss)),
        (Probability::ZERO | Probability::ONE, Some(_)) => {
            Err(UsageError::new("--burst needs a loss above 0% and below 100%"))
        }
        (loss, Some(mean_bad)) => {
            let bursts = GilbertElliott::bursts(loss, mean_bad);
            let too_long = || UsageError::new("--burst is too long for so small a loss");
            bursts.map(LossModel::GilbertElliott).ok_or_else(too_long)
        }
    }
}

/// Reads a queue's limit in packets or bytes.
pub(crate) fn queue(text: &str) -> Result<QueueLimit, String> {
    if let Some(packets) = text.strip_suffix('p').and_then(|number| number.parse().ok()) {
        return Ok(QueueLimit::packets(packets));
    }
    text.parse::<ByteCount>().map(QueueLimit::bytes).map_err(|_| {
        format!(
            "\"{text}\" is neither a number of packets nor a size in bytes; write for example \"100p\" or \"64KiB\""
        )
    })
}

/// A queue's limit as [`queue`] reads it.
pub(crate) fn queue_text(limit: QueueLimit) -> String {
    if limit.bytes == ByteCount::MAX { format!("{}p", limit.packets) } else { limit.bytes.to_string() }
}

/// Reads a rate above zero.
pub(crate) fn rate(text: &str) -> Result<Bandwidth, String> {
    let rate: Bandwidth = text.parse().map_err(|error: festina_units::ParseError| error.to_string())?;
    if rate.bits_per_second() == 0 {
        return Err("it must be above zero".to_owned());
    }
    Ok(rate)
}

/// Reads a trace of the rate: the made one of this name, or the file.
fn trace(text: &str) -> Result<RateTrace, String> {
    LinkTrace::load(Path::new(""), text).map(LinkTrace::trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_read_in_packets_or_bytes() {
        assert_eq!(queue("100p"), Ok(QueueLimit::packets(100)));
        assert_eq!(queue("64KiB"), Ok(QueueLimit::bytes(ByteCount::from_bytes(65_536))));
        for text in ["100p", "64KiB"] {
            assert_eq!(queue(text).map(queue_text).as_deref(), Ok(text));
        }
        assert!(queue("100").is_err_and(|problem| problem.contains("100p")));
    }

    #[test]
    fn a_list_of_packets_is_read_with_ranges() {
        assert_eq!("2,7-9".parse(), Ok(PacketList(vec![2, 7, 8, 9])));
        for bad in ["", "a", "9-7", "1,,2", "-1", "0-18446744073709551615", "0-999999,7"] {
            assert!(bad.parse::<PacketList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn derivative_random_drop_begins_at_the_product_of_rate_and_round_trip() {
        let (rate, round_trip) = (rate("30Mbit/s").ok(), Duration::from_millis(50));
        let expected = DredConfig::goel_2002(ByteCount::from_bytes(187_500));
        let config = Discipline::Dred.config(rate, round_trip);
        assert_eq!(config.expect("both are there"), QueueDiscipline::Dred(expected));
        assert!(Discipline::Dred.config(None, round_trip).is_err());
        assert!(Discipline::Dred.config(rate, Duration::ZERO).is_err());
    }

    #[test]
    fn bursts_keep_the_share_of_losses() {
        let loss = Probability::from_percent(5);
        let model = loss_model(loss, Some(Duration::from_millis(100)));
        let Ok(LossModel::GilbertElliott(bursts)) = model else {
            panic!("{model:?}");
        };
        assert_eq!(bursts.mean_good, Duration::from_millis(1_900));
        assert_eq!(bursts.mean_loss(), loss);
        assert!(loss_model(Probability::ZERO, Some(Duration::from_millis(1))).is_err());
        assert!(loss_model(Probability::from_ppb(1), Some(Duration::from_secs(1 << 40))).is_err());
    }
}

//! Kinds of flows after the classes of R15's Paper I, as generators. Sizes, times and rates are drawn from ranges that are chosen.

use festina_models::workload::{Application, Workload};
use festina_netsim::RandomStream;
use festina_units::{Bandwidth, ByteCount, Duration};

use crate::traces::{Class, Features};

/// For how long flows last that are not transfers.
const LONG: Duration = Duration::from_secs(60);

/// A kind of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One large transfer over a fast path.
    Bulk,
    /// What a game server sends to a player.
    Game,
    /// One small transfer.
    ShortWeb,
    /// Pieces of a video, each a few seconds long.
    Video,
    /// Small transfers, now and then, for a long time.
    PersistentWeb,
    /// One large transfer over a slow path.
    SlowBulk,
}

impl Kind {
    /// All of them, in the order in which a plan takes them.
    pub(super) const ALL: [Self; 6] =
        [Self::Bulk, Self::Game, Self::ShortWeb, Self::Video, Self::PersistentWeb, Self::SlowBulk];

    /// The class by whose name such flows go.
    pub(super) fn class(self) -> Class {
        match self {
            Self::Bulk | Self::SlowBulk => Class::Bulk,
            Self::Game => Class::Interactive,
            Self::ShortWeb => Class::ShortWeb,
            Self::Video => Class::Streaming,
            Self::PersistentWeb => Class::PersistentWeb,
        }
    }

    /// The rate of the path.
    pub(super) fn rate(self, random: &mut RandomStream) -> Bandwidth {
        let [from, to] = match self {
            Self::SlowBulk => [800_000, 2_000_000],
            _ => [10_000_000, 40_000_000],
        };
        Bandwidth::from_bits_per_second(between(from, to, random))
    }

    /// Returns the writes, with their times after the first.
    pub(super) fn writes(self, seed: u64, name: &str) -> Vec<(Duration, ByteCount)> {
        let mut random = RandomStream::new(seed, name);
        let mut once = |from, to| vec![(Duration::ZERO, ByteCount::from_bytes(between(from, to, &mut random)))];
        match self {
            Self::Bulk => once(4_000_000, 16_000_000),
            Self::SlowBulk => once(1_500_000, 4_000_000),
            Self::ShortWeb => once(5_000, 80_000),
            Self::Game => {
                let writes = Workload::Application(Application::WorldOfWarcraft).writes(seed, name);
                writes.take_while(|write| write.at < LONG).map(|write| (write.at, write.size)).collect()
            }
            // The piece of four seconds of a video of 0.6 to 1.2 Mbit/s.
            Self::Video => repeated(&mut random, [4_000, 4_001], [300_000, 600_000]),
            Self::PersistentWeb => repeated(&mut random, [3_000, 12_000], [2_000, 20_000]),
        }
    }
}

/// Returns writes after random gaps between these two numbers of milliseconds.
fn repeated(random: &mut RandomStream, gap_ms: [u64; 2], bytes: [u64; 2]) -> Vec<(Duration, ByteCount)> {
    let mut at = Duration::ZERO;
    let mut writes = Vec::new();
    while at < LONG {
        writes.push((at, ByteCount::from_bytes(between(bytes[0], bytes[1], random))));
        at += Duration::from_millis(between(gap_ms[0], gap_ms[1], random));
    }
    writes
}

fn between(from: u64, to: u64, random: &mut RandomStream) -> u64 {
    from + random.below(to - from)
}

/// The flow with every number multiplied by something from a hundredth to a hundred: what knows nothing of kinds any more.
pub(super) fn blurred(features: &Features, random: &mut RandomStream) -> Features {
    let mut factor = || {
        let percent = u32::try_from(random.below(401)).unwrap_or(0);
        10_f64.powf(f64::from(percent) / 100.0 - 2.0)
    };
    Features::from_values(features.values().map(|value| value * factor()))
}

//! The applications that P10 measured (its Table 1), as generators that meet the published statistics.
//!
//! How the distributions were fitted. Table 1 gives, for each trace, the mean, smallest and largest payload, and the mean, median,
//! smallest, largest, 1 % and 99 % interarrival time. Each distribution here is one whose quantile function is linear between
//! knots. The published quantiles are knots; those between them are ours:
//!
//! - *Interarrival times*: from 1 % to the median a straight line with a knot at 25 %; from the median to 99 % a power law with knots
//!   at 75, 90 and 95 %, whose exponent was solved so that the mean is the published one; a knot at 99.9 % between the 99 % value and the
//!   maximum (geometrically half of the way, for Skype and SSH three tenths of it), without which the mean could not be met.
//! - *Casa* is two atoms: its 1 % value and its median are 305 and 307 ms, its 99 % value and its maximum both 29,898 ms; the mean then
//!   fixes the share of long gaps at 23.6 %.
//! - *FTP*: the mean, 141 µs, is below what a maximum of 339 ms leaves room for unless fewer than one gap in 10,000 lies near
//!   it, so its knot is at 99.99 %.
//! - Where the table says `< 1` ms, values from 10 to 900 µs were chosen, and the means of HTTP (827 µs) and FTP (141 µs) computed from the
//!   published mean payload and bit rate.
//! - *Payloads of thin streams*: a median four fifths of the way from minimum to mean; knots at 90 and 99 % at `z` and the square root of `z`
//!   of the way from there to the maximum, with `z` solved for the mean. *Of thick streams*: full packets but for the share, spread evenly
//!   from the minimum up, that the mean demands.
//!
//! Payloads and gaps are independent of each other and of earlier ones: the paper reports no correlations. Bursts of packets
//! that real games send are therefore missing; replay a capture where they matter.

use festina_units::{ByteCount, Duration};

use super::quantiles::Quantiles;
use super::{Draws, Progress, Write};

/// An application of P10 Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Application {
    /// Casa: weather radars that report to each other.
    Casa,
    /// Windows remote desktop.
    RemoteDesktop,
    /// Skype with two users.
    Skype,
    /// A text session over SSH.
    Ssh,
    /// The game Anarchy Online, server to client.
    AnarchyOnline,
    /// The game World of Warcraft, server to client.
    WorldOfWarcraft,
    /// A YouTube stream (thick).
    YouTube,
    /// A download over HTTP (thick).
    Http,
    /// A download over FTP (thick).
    Ftp,
}

/// A row of P10 Table 1. Interarrival times are in microseconds; `None` where the table says "< 1" ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Mean, smallest and largest payload in bytes.
    pub payload_bytes: [u64; 3],
    /// Mean interarrival time.
    pub mean_us: Option<u64>,
    /// Median.
    pub median_us: Option<u64>,
    /// Smallest.
    pub min_us: Option<u64>,
    /// Largest.
    pub max_us: Option<u64>,
    /// The 1 % quantile.
    pub p1_us: Option<u64>,
    /// The 99 % quantile.
    pub p99_us: Option<u64>,
}

impl Application {
    /// All of them, in the order of the table.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &[
            Self::Casa,
            Self::RemoteDesktop,
            Self::Skype,
            Self::Ssh,
            Self::AnarchyOnline,
            Self::WorldOfWarcraft,
            Self::YouTube,
            Self::Http,
            Self::Ftp,
        ]
    }

    /// A name for command lines and plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Casa => "casa",
            Self::RemoteDesktop => "rdp",
            Self::Skype => "skype",
            Self::Ssh => "ssh",
            Self::AnarchyOnline => "anarchy-online",
            Self::WorldOfWarcraft => "world-of-warcraft",
            Self::YouTube => "youtube",
            Self::Http => "http",
            Self::Ftp => "ftp",
        }
    }

    /// Returns the paper's numbers.
    #[must_use]
    pub fn published(self) -> Published {
        // Payload mean, min, max; gap mean, median, min, max, 1 %, 99 % in ms.
        let (payload_bytes, [mean, median, min, max, p1, p99]) = match self {
            Self::Casa => ([175, 93, 572], [7_287, 307, 305, 29_898, 305, 29_898]),
            Self::RemoteDesktop => ([111, 8, 1_417], [318, 159, 1, 12_254, 2, 3_892]),
            Self::Skype => ([236, 14, 1_267], [34, 40, SUB_MS, 1_671, 4, 80]),
            Self::Ssh => ([48, 16, 752], [323, 159, SUB_MS, 76_610, 32, 3_616]),
            Self::AnarchyOnline => ([98, 8, 1_333], [632, 449, 7, 17_032, 83, 4_195]),
            Self::WorldOfWarcraft => ([26, 6, 1_228], [314, 133, SUB_MS, 14_855, SUB_MS, 3_785]),
            Self::YouTube => ([1_446, 112, 1_448], [9, SUB_MS, SUB_MS, 1_335, SUB_MS, 127]),
            Self::Http => ([1_447, 64, 1_448], [SUB_MS, SUB_MS, SUB_MS, 186, SUB_MS, 8]),
            Self::Ftp => ([1_447, 40, 1_448], [SUB_MS, SUB_MS, SUB_MS, 339, SUB_MS, SUB_MS]),
        };
        let us = |ms: u64| (ms != SUB_MS).then_some(ms * 1_000);
        Published {
            payload_bytes,
            mean_us: us(mean),
            median_us: us(median),
            min_us: us(min),
            max_us: us(max),
            p1_us: us(p1),
            p99_us: us(p99),
        }
    }

    pub(super) fn next(self, progress: &Progress, draws: &mut Draws) -> Write {
        let gap = Duration::from_micros(self.gaps_us().sample(&mut draws.gaps));
        Write { at: progress.after(gap), size: ByteCount::from_bytes(self.sizes_bytes().sample(&mut draws.sizes)) }
    }

    fn gaps_us(self) -> Quantiles {
        Quantiles(match self {
            Self::Casa => &CASA_GAPS_US,
            Self::RemoteDesktop => &REMOTE_DESKTOP_GAPS_US,
            Self::Skype => &SKYPE_GAPS_US,
            Self::Ssh => &SSH_GAPS_US,
            Self::AnarchyOnline => &ANARCHY_ONLINE_GAPS_US,
            Self::WorldOfWarcraft => &WORLD_OF_WARCRAFT_GAPS_US,
            Self::YouTube => &YOUTUBE_GAPS_US,
            Self::Http => &HTTP_GAPS_US,
            Self::Ftp => &FTP_GAPS_US,
        })
    }

    fn sizes_bytes(self) -> Quantiles {
        Quantiles(match self {
            Self::Casa => &[(0, 93), (500_000, 159), (900_000, 245), (990_000, 348), (1_000_000, 572)],
            Self::RemoteDesktop => &[(0, 8), (500_000, 90), (900_000, 167), (990_000, 408), (1_000_000, 1_417)],
            Self::Skype => &[(0, 14), (500_000, 192), (900_000, 429), (990_000, 697), (1_000_000, 1_267)],
            Self::Ssh => &[(0, 16), (500_000, 42), (900_000, 58), (990_000, 148), (1_000_000, 752)],
            Self::AnarchyOnline => &[(0, 8), (500_000, 80), (900_000, 144), (990_000, 363), (1_000_000, 1_333)],
            Self::WorldOfWarcraft => &[(0, 6), (500_000, 22), (900_000, 23), (990_000, 57), (1_000_000, 1_228)],
            Self::YouTube => &[(0, 112), (2_994, 1_448), (1_000_000, 1_448)],
            Self::Http => &[(0, 64), (1_445, 1_448), (1_000_000, 1_448)],
            Self::Ftp => &[(0, 40), (1_420, 1_448), (1_000_000, 1_448)],
        })
    }
}

/// Stands for "< 1" in the table.
const SUB_MS: u64 = 0;

const CASA_GAPS_US: [(u32, u64); 6] = [
    (0, 305_000),
    (10_000, 305_000),
    (500_000, 307_000),
    (764_100, 308_000),
    (764_101, 29_898_000),
    (1_000_000, 29_898_000),
];

const REMOTE_DESKTOP_GAPS_US: [(u32, u64); 10] = [
    (0, 1_000),
    (10_000, 2_000),
    (250_000, 78_898),
    (500_000, 159_000),
    (750_000, 159_202),
    (900_000, 351_968),
    (950_000, 1_235_930),
    (990_000, 3_892_000),
    (999_000, 6_905_981),
    (1_000_000, 12_254_000),
];

const SKYPE_GAPS_US: [(u32, u64); 10] = [
    (0, 500),
    (10_000, 4_000),
    (250_000, 21_633),
    (500_000, 40_000),
    (750_000, 40_001),
    (900_000, 41_511),
    (950_000, 50_117),
    (990_000, 80_000),
    (999_000, 199_093),
    (1_000_000, 1_671_000),
];

const SSH_GAPS_US: [(u32, u64); 10] = [
    (0, 500),
    (10_000, 32_000),
    (250_000, 94_204),
    (500_000, 159_000),
    (750_000, 159_002),
    (900_000, 202_714),
    (950_000, 711_368),
    (990_000, 3_616_000),
    (999_000, 9_037_442),
    (1_000_000, 76_610_000),
];

const ANARCHY_ONLINE_GAPS_US: [(u32, u64); 10] = [
    (0, 7_000),
    (10_000, 83_000),
    (250_000, 262_265),
    (500_000, 449_000),
    (750_000, 456_717),
    (900_000, 1_029_122),
    (950_000, 2_161_600),
    (990_000, 4_195_000),
    (999_000, 8_452_765),
    (1_000_000, 17_032_000),
];

const WORLD_OF_WARCRAFT_GAPS_US: [(u32, u64); 10] = [
    (0, 200),
    (10_000, 500),
    (250_000, 65_398),
    (500_000, 133_000),
    (750_000, 133_603),
    (900_000, 397_171),
    (950_000, 1_346_094),
    (990_000, 3_785_000),
    (999_000, 7_498_411),
    (1_000_000, 14_855_000),
];

const YOUTUBE_GAPS_US: [(u32, u64); 10] = [
    (0, 50),
    (10_000, 100),
    (250_000, 296),
    (500_000, 500),
    (750_000, 520),
    (900_000, 9_488),
    (950_000, 42_205),
    (990_000, 127_000),
    (999_000, 411_758),
    (1_000_000, 1_335_000),
];

const HTTP_GAPS_US: [(u32, u64); 10] = [
    (0, 10),
    (10_000, 20),
    (250_000, 59),
    (500_000, 100),
    (750_000, 112),
    (900_000, 1_204),
    (950_000, 3_560),
    (990_000, 8_000),
    (999_000, 38_575),
    (1_000_000, 186_000),
];

const FTP_GAPS_US: [(u32, u64); 6] =
    [(0, 10), (10_000, 20), (500_000, 50), (990_000, 361), (999_900, 900), (1_000_000, 339_000)];

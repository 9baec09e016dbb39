//! Web cross traffic: P10 §6.2, where 81 such clients load a bottleneck of 10 Mbit/s.

use festina_netsim::RandomStream;
use festina_units::{ByteCount, Duration};

use super::quantiles::exp2_q32;
use super::{Draws, Progress, Write};

/// Responses to one browsing client: Pareto-distributed sizes after exponentially distributed gaps.
///
/// P10 §6.2 states the smallest size (1,000 bytes), the mean (about 9,200 bytes), the largest (about 64 MB) and the
/// mean gap (655 ms), but not the shape. The default shape, 1.057, is the one for which a Pareto distribution from
/// 1,000 bytes, with larger sizes cut to 64,000,000 bytes, has a mean of 9,200 bytes: the solution of `(1 -
/// 64000^(1-a)) / (a-1) = 8.2`. Its median is 1,927 bytes. Requests do not wait for earlier responses, so 81 clients
/// offer 9.1 Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Web {
    /// Mean gap between requests.
    pub interval_mean: Duration,
    /// The smallest response.
    pub size_min: ByteCount,
    /// The largest response.
    pub size_max: ByteCount,
    /// The Pareto shape in thousandths; more means fewer large responses.
    pub shape_permille: u32,
}

impl Default for Web {
    /// P10 §6.2.
    fn default() -> Self {
        Self {
            interval_mean: Duration::from_millis(655),
            size_min: ByteCount::from_bytes(1_000),
            size_max: ByteCount::from_bytes(64_000_000),
            shape_permille: 1_057,
        }
    }
}

impl Web {
    pub(super) fn next(&self, progress: &Progress, draws: &mut Draws) -> Write {
        Write { at: progress.after(draws.gaps.exponential(self.interval_mean)), size: self.size(&mut draws.sizes) }
    }

    /// A Pareto sample is the minimum times 2 to the power of an exponential sample with mean log2(e)/shape.
    fn size(&self, sizes: &mut RandomStream) -> ByteCount {
        const LOG2_E_Q32: u64 = 6_196_328_018;
        let mean_q32 = LOG2_E_Q32.saturating_mul(1_000) / u64::from(self.shape_permille.max(1));
        // The sampler scales by its mean in any unit: here units of 2^-32 instead of nanoseconds.
        let exponent_q32 = sizes.exponential(Duration::from_nanos(mean_q32)).as_nanos();
        let factor_q32 = exp2_q32(u64::try_from(exponent_q32).unwrap_or(u64::MAX));
        let bytes = (u128::from(self.size_min.bytes()) * u128::from(factor_q32)) >> 32;
        ByteCount::from_bytes(u64::try_from(bytes).unwrap_or(u64::MAX).min(self.size_max.bytes()).max(1))
    }
}

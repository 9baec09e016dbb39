//! Which symbols are lost: independently, or in bursts.

use festina_netsim::RandomStream;

/// A loss rate, and the mean length of a burst.
#[derive(Debug)]
pub(crate) struct Loss {
    per_mille: u64,
    burst: u64,
    is_lost: bool,
}

impl Loss {
    pub(crate) fn random(random: &mut RandomStream, most_per_mille: u64) -> Self {
        Self {
            per_mille: 1 + random.below(most_per_mille),
            burst: 1 + random.below(2) * random.below(6),
            is_lost: false,
        }
    }

    pub(crate) fn next(&mut self, random: &mut RandomStream) -> bool {
        let continues = self.is_lost && random.below(self.burst) > 0;
        self.is_lost = continues || random.below(1_000 * self.burst) < self.per_mille;
        self.is_lost
    }
}

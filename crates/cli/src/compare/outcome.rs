//! The results of one profile.

use festina_emulate::ProxyCounters;
use festina_models::statistics::DelayStatistics;
use festina_sctp::Profile;

use super::simulated::Simulated;
use super::totals::{Cost, SentTotals};

/// The results of one profile.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The profile.
    pub(crate) profile: Profile,
    /// Messages that the clients sent.
    pub(crate) messages_sent: u64,
    /// One-way delays of the messages that arrived, each counted once.
    pub(crate) delays: DelayStatistics,
    /// What the clients sent while messages were measured.
    pub(crate) sent: SentTotals,
    /// What both ends sent in that time.
    pub(crate) cost: Cost,
    /// How late the timers of the senders fired: the error of this machine.
    pub(crate) timers: DelayStatistics,
    /// What the network did, handshakes included.
    pub(crate) network: ProxyCounters,
    /// Impossible results, in words.
    pub(crate) faults: Vec<String>,
    /// What the simulator says about the same scenario, unless it is too large.
    pub(crate) simulated: Option<Simulated>,
}

impl Outcome {
    /// Messages that arrived.
    pub(crate) fn messages_delivered(&self) -> u64 {
        self.delays.count()
    }
}

/// An outcome with round numbers, for tests.
#[cfg(test)]
pub(super) fn example(profile: Profile) -> Outcome {
    let mut delays = DelayStatistics::new();
    for delay_ms in 1..=1_000 {
        delays.record(std::time::Duration::from_millis(delay_ms));
    }
    Outcome {
        profile,
        messages_sent: 1_001,
        delays,
        sent: SentTotals {
            packets: 1_100,
            bytes: 150_000,
            timeout: 40,
            fast: 30,
            bundled: 20,
            probe: 10,
            copy: 3,
            spurious: 5,
        },
        cost: Cost { packets_there: 1_101, bytes_there: 171_717, packets_back: 901, bytes_back: 50_050 },
        timers: DelayStatistics::new(),
        network: ProxyCounters::default(),
        faults: Vec::new(),
        simulated: None,
    }
}

//! What a proxy counts.

use festina_netsim::LinkCounters;
use festina_units::Duration;

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounters {
    /// The link from the clients to the server.
    pub forward: LinkCounters,
    /// The link from the server to the clients.
    pub backward: LinkCounters,
    /// Clients that were given an upstream socket.
    pub clients: u64,
    /// Datagrams of new clients that were ignored because the proxy had too many clients already, or
    /// because it could not make another socket.
    pub refused: u64,
    /// Datagrams that left a link but that the system would not send on, or whose client had been
    /// forgotten in the meantime.
    pub send_failed: u64,
    /// The sum over all deliveries of how long after its time each was made.
    pub lateness_total: Duration,
    /// The latest delivery.
    pub lateness_max: Duration,
}

impl ProxyCounters {
    /// Deliveries on both links together.
    pub fn delivered(&self) -> u64 {
        self.forward.delivered + self.backward.delivered
    }

    /// How late deliveries were made on average: the error of the emulated delay.
    pub fn lateness_mean(&self) -> Duration {
        let mean_nanos = self.lateness_total.as_nanos().checked_div(u128::from(self.delivered())).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean_nanos).unwrap_or(u64::MAX))
    }

    pub(super) fn note_lateness(&mut self, lateness: Duration) {
        self.lateness_total = self.lateness_total.saturating_add(lateness);
        self.lateness_max = self.lateness_max.max(lateness);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_lateness_is_the_sum_over_the_deliveries() {
        let mut counters = ProxyCounters::default();
        assert_eq!(counters.lateness_mean(), Duration::ZERO);
        counters.forward.delivered = 1;
        counters.backward.delivered = 1;
        counters.note_lateness(Duration::from_micros(30));
        counters.note_lateness(Duration::from_micros(10));
        assert_eq!(counters.lateness_mean(), Duration::from_micros(20));
        assert_eq!(counters.lateness_max, Duration::from_micros(30));
    }
}

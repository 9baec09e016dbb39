//! Settings by methods, by which code keeps compiling when settings are added.

use festina_recovery::Mechanisms;
use festina_units::Duration;

use super::{Config, CongestionControl, PartialReliability, PeerRequests, SackPolicy, StreamScheduler};

/// Each takes the settings and gives them back with one changed. The field named says what it means and its range, which
/// [`Config::validate`] checks.
impl Config {
    /// Sets [`Config::mechanisms`].
    #[must_use]
    pub fn with_mechanisms(mut self, mechanisms: Mechanisms) -> Self {
        self.mechanisms = mechanisms;
        self
    }

    /// Sets [`Config::congestion`].
    #[must_use]
    pub fn with_congestion(mut self, congestion: CongestionControl) -> Self {
        self.congestion = congestion;
        self
    }

    /// Sets [`Config::peer_timeout`].
    #[must_use]
    pub fn with_peer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.peer_timeout = timeout.into();
        self
    }

    /// Sets [`Timers::heartbeat_interval`](super::Timers::heartbeat_interval).
    #[must_use]
    pub fn with_heartbeat_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.timers.heartbeat_interval = interval.into();
        self
    }

    /// Sets [`Limits::packet_bytes_max`](super::Limits::packet_bytes_max).
    #[must_use]
    pub fn with_packet_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.packet_bytes_max = bytes;
        self
    }

    /// Sets [`Limits::message_bytes_max`](super::Limits::message_bytes_max).
    #[must_use]
    pub fn with_message_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.message_bytes_max = bytes;
        self
    }

    /// Sets [`Limits::send_buffer_bytes`](super::Limits::send_buffer_bytes), and brings
    /// [`Limits::send_low_water_bytes`](super::Limits::send_low_water_bytes) down to it if that is more.
    #[must_use]
    pub fn with_send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.limits.send_buffer_bytes = bytes;
        self.limits.send_low_water_bytes = self.limits.send_low_water_bytes.min(bytes);
        self
    }

    /// Sets [`Limits::receive_buffer_bytes`](super::Limits::receive_buffer_bytes).
    #[must_use]
    pub fn with_receive_buffer_bytes(mut self, bytes: usize) -> Self {
        self.limits.receive_buffer_bytes = bytes;
        self
    }

    /// Sets [`Limits::outbound_streams`](super::Limits::outbound_streams) and
    /// [`Limits::inbound_streams`](super::Limits::inbound_streams).
    #[must_use]
    pub fn with_streams(mut self, outbound: u16, inbound: u16) -> Self {
        (self.limits.outbound_streams, self.limits.inbound_streams) = (outbound, inbound);
        self
    }

    /// Sets [`Admission::associations_max`](super::Admission::associations_max).
    #[must_use]
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.admission.associations_max = associations;
        self
    }

    /// Sets [`Admission::associations_per_address_max`](super::Admission::associations_per_address_max).
    #[must_use]
    pub fn with_associations_per_address_max(mut self, associations: usize) -> Self {
        self.admission.associations_per_address_max = associations;
        self
    }

    /// Sets [`Config::sack`].
    #[must_use]
    pub fn with_sack(mut self, sack: SackPolicy) -> Self {
        self.sack = sack;
        self
    }

    /// Sets [`Config::scheduler`].
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: StreamScheduler) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Sets [`Config::interleaving`].
    #[must_use]
    pub fn with_interleaving(mut self, offered: bool) -> Self {
        self.interleaving = offered;
        self
    }

    /// Sets [`Config::partial_reliability`].
    #[must_use]
    pub fn with_partial_reliability(mut self, partial_reliability: PartialReliability) -> Self {
        self.partial_reliability = partial_reliability;
        self
    }

    /// Sets [`Config::peer_requests`].
    #[must_use]
    pub fn with_peer_requests(mut self, peer_requests: PeerRequests) -> Self {
        self.peer_requests = peer_requests;
        self
    }

    /// Sets [`Config::message_events`].
    #[must_use]
    pub fn with_message_events(mut self, wanted: bool) -> Self {
        self.message_events = wanted;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_methods_change_is_what_fields_would_and_stays_in_range() {
        let config = Config::default()
            .with_send_buffer_bytes(4_000)
            .with_streams(3, 4)
            .with_peer_timeout(None)
            .with_heartbeat_interval(Duration::from_secs(5))
            .with_associations_max(7)
            .with_interleaving(true);
        let mut by_fields = Config::default();
        by_fields.limits.send_buffer_bytes = 4_000;
        by_fields.limits.send_low_water_bytes = 4_000;
        (by_fields.limits.outbound_streams, by_fields.limits.inbound_streams) = (3, 4);
        by_fields.peer_timeout = None;
        by_fields.timers.heartbeat_interval = Some(Duration::from_secs(5));
        by_fields.admission.associations_max = 7;
        by_fields.interleaving = true;
        assert_eq!(config, by_fields);
        assert_eq!(config.validate(), Ok(()));
    }
}

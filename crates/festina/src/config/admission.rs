//! Limits on peers.

use festina_sctp::{self as sctp, ConfigError};

/// Limits on the peers of a server, and on its work for strangers. Each method returns the limits with one changed. Ranges are checked by
/// [`Admission::validate`] and when an endpoint is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Admission(pub(super) sctp::Admission);

impl Admission {
    /// Returns the maximum number of concurrent associations.
    pub fn associations_max(&self) -> usize {
        self.0.associations_max
    }

    /// Returns the maximum number of associations that peers of one IP address may set up.
    pub fn associations_per_address_max(&self) -> usize {
        self.0.associations_per_address_max
    }

    /// Returns the maximum number of out-of-the-blue packets processed per second.
    pub fn strays_per_second_max(&self) -> u32 {
        self.0.strays_per_second_max
    }

    /// Checks the range of every limit.
    ///
    /// # Errors
    /// Names the first limit that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.0.validate()
    }

    /// Sets the maximum number of concurrent associations, including those that this side initiated: 65,536 by default, at most 2²⁴. Further peers
    /// are refused with an ABORT with the cause "Out of Resource" (RFC 9260 §3.3.10.4).
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.0.associations_max = associations;
        self
    }

    /// Sets the maximum number of concurrent associations that peers with one IP address may set up: 4,096 by default. A /64 network counts as one
    /// IPv6 address. Further peers are refused in the same way. Many peers behind one NAT need a higher limit.
    pub fn with_associations_per_address_max(mut self, associations: usize) -> Self {
        self.0.associations_per_address_max = associations;
        self
    }

    /// Sets the maximum number of associations of one port that wait for [`Listener::accept`](crate::Listener::accept), 1,024 by default. An encrypted
    /// handshake that was admitted takes a place until it is complete, or for at most 30 s. Further handshakes get no answer, so that the peer repeats
    /// them.
    pub fn with_accept_queue_max(mut self, associations: usize) -> Self {
        self.0.accept_queue_max = associations;
        self
    }

    /// Sets the maximum number per second of out-of-the-blue packets (mainly INITs) that are processed: 20,000 by default. Further ones are dropped
    /// unread. A burst may have a tenth of this number. For COOKIE ECHO the limit is 4 times as high, since a forged one draws no reply.
    pub fn with_strays_per_second_max(mut self, packets: u32) -> Self {
        self.0.strays_per_second_max = packets;
        self
    }
}

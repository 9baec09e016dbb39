//! Limits on unsent data in the send buffer.

use festina_units::Duration;

use super::{ConfigError, check, check_ms};

/// Limit on the unsent data in the send buffer. Unsent messages grow old: a buffer of fixed size delays each message by its size divided by the rate,
/// and the application can no longer replace it (Goel et al. 2002).
///
/// At the limit, messages are refused as if the buffer were full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendBufferPolicy {
    /// The size of the send buffer.
    #[default]
    Fixed,
    /// The buffer, outstanding data included, follows the congestion window: it takes `windows` of them and `extra_packets`, but at most one window
    /// more (MIN_BUF(A, B) of Goel et al. 2002 §2.2). A message is taken when a packet of it has room. With one window and no extra packet nothing
    /// waits that may not be sent at once; with one and three the throughput is nearly that of a large buffer.
    FollowsWindow {
        /// A, from 1 to 1,000.
        windows: u32,
        /// B.
        extra_packets: u32,
    },
    /// Target for the time that a message waits before it is first sent, from 1 ms to a day. The buffer size follows from measured round trips and
    /// waits.
    Target(Duration),
}

impl SendBufferPolicy {
    pub(super) fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Fixed => Ok(()),
            Self::FollowsWindow { windows, .. } => {
                let windows = usize::try_from(windows).unwrap_or(usize::MAX);
                check("limits.send_buffer.windows", windows, 1, 1_000)
            }
            Self::Target(target) => check_ms("limits.send_buffer target (ms)", target, 1),
        }
    }
}

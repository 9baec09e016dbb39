//! The states of an association (RFC 9260 §4); each carries the timers that only it needs.

use festina_units::{Duration, Instant};

use super::retry::RetryTimer;

/// Where an association is in its life (RFC 9260 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssociationState {
    /// Over, or never begun.
    Closed,
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Both sides send.
    Established,
    /// This side wants to end, but data is outstanding.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// The peer wants to end, but data is outstanding here.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
}

/// The state of the association, with its data.
#[derive(Debug)]
pub(crate) enum State {
    Closed,
    /// INIT is outstanding; T1-init runs.
    CookieWait {
        t1: RetryTimer,
    },
    /// COOKIE ECHO is outstanding; T1-cookie runs.
    CookieEchoed {
        t1: RetryTimer,
        cookie: Box<[u8]>,
    },
    Established,
    ShutdownPending {
        drain: Drain,
    },
    /// SHUTDOWN is outstanding; T2 and T5 run.
    ShutdownSent {
        t2: RetryTimer,
        guard_at: Instant,
    },
    ShutdownReceived {
        drain: Drain,
    },
    /// SHUTDOWN ACK is outstanding; T2 runs.
    ShutdownAckSent {
        t2: RetryTimer,
    },
}

impl State {
    /// The state's public name.
    pub(crate) fn name(&self) -> AssociationState {
        match self {
            Self::Closed => AssociationState::Closed,
            Self::CookieWait { .. } => AssociationState::CookieWait,
            Self::CookieEchoed { .. } => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending { .. } => AssociationState::ShutdownPending,
            Self::ShutdownSent { .. } => AssociationState::ShutdownSent,
            Self::ShutdownReceived { .. } => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent { .. } => AssociationState::ShutdownAckSent,
        }
    }

    /// DATA may leave in packets of its own (RFC 9260 §6).
    #[inline]
    pub(crate) fn sends_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending { .. } | Self::ShutdownReceived { .. })
    }

    /// All data is to be acknowledged before SHUTDOWN or SHUTDOWN ACK (RFC 9260 §9.2).
    #[inline]
    pub(crate) fn drains(&self) -> bool {
        matches!(self, Self::ShutdownPending { .. } | Self::ShutdownReceived { .. })
    }

    /// DATA that comes is taken (RFC 9260 §6).
    #[inline]
    pub(crate) fn takes_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending { .. } | Self::ShutdownSent { .. })
    }

    /// SACK that comes is processed (RFC 9260 §6). In COOKIE-ECHOED it would do no good: until COOKIE ACK comes, the peer may still turn
    /// out to be another, which has to get all TSNs from the first on.
    #[inline]
    pub(crate) fn takes_sack(&self) -> bool {
        self.sends_data()
    }

    /// The application may hand in messages.
    #[inline]
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(self, Self::CookieWait { .. } | Self::CookieEchoed { .. } | Self::Established)
    }

    /// Whether the peer must answer requests: from ESTABLISHED on.
    #[inline]
    pub(crate) fn expects_answers(&self) -> bool {
        self.sends_data() || matches!(self, Self::ShutdownSent { .. } | Self::ShutdownAckSent { .. })
    }

    /// COOKIE ECHO is outstanding, possibly with DATA. Nothing else may be sent (RFC 9260 §5.1 C).
    pub(crate) fn is_cookie_echoed(&self) -> bool {
        matches!(self, Self::CookieEchoed { .. })
    }

    /// HEARTBEAT is answered (RFC 9260 §8.3), and sent unless the end has begun.
    pub(crate) fn answers_heartbeats(&self) -> bool {
        self.sends_data() || matches!(self, Self::CookieEchoed { .. })
    }

    /// When the state's own timer runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::CookieWait { t1 } | Self::CookieEchoed { t1, .. } => Some(t1.deadline()),
            Self::ShutdownPending { drain } | Self::ShutdownReceived { drain } => Some(drain.ends_at),
            Self::ShutdownSent { t2, guard_at } => Some(t2.deadline().min(*guard_at)),
            Self::ShutdownAckSent { t2 } => Some(t2.deadline()),
            Self::Closed | Self::Established => None,
        }
    }
}

/// Bounds the wait for the acknowledgement of all remaining data. The wait restarts with each step of progress. A step is a fraction of the initial
/// amount, so that a peer that takes a byte now and then cannot stretch it. Only acknowledged bytes are progress: abandoned ones say nothing of the
/// peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drain {
    /// When the wait ends, unless the next step is reached before.
    ends_at: Instant,
    step_bytes: u64,
    /// The next step is done when no more than this is unacknowledged.
    next_bytes: u64,
    /// The peer did not answer in this step, and got more time for that.
    is_extended: bool,
}

impl Drain {
    /// Number of steps in which the peer may acknowledge the remaining data.
    const STEPS: usize = 16;

    /// Starts the wait for `left_bytes`. With the abandoned ones, `unacked_bytes` are not acknowledged.
    pub(crate) fn start(now: Instant, left_bytes: usize, unacked_bytes: u64, stall: Duration) -> Self {
        let step_bytes = left_bytes.div_ceil(Self::STEPS).max(1) as u64;
        Self {
            ends_at: now + stall,
            step_bytes,
            next_bytes: unacked_bytes.saturating_sub(step_bytes),
            is_extended: false,
        }
    }

    /// Updates the amount that is not acknowledged, including abandoned bytes.
    pub(crate) fn update(&mut self, now: Instant, unacked_bytes: u64, stall: Duration) {
        if unacked_bytes <= self.next_bytes {
            *self = Self { ends_at: now + stall, next_bytes: unacked_bytes.saturating_sub(self.step_bytes), ..*self };
            self.is_extended = false;
        }
    }

    /// The peer does not answer: it may be cut off, and whether it comes back shows within `time`. Returns whether the step is extended,
    /// which is done once.
    pub(crate) fn extend(&mut self, now: Instant, time: Duration) -> bool {
        let is_news = !core::mem::replace(&mut self.is_extended, true);
        if is_news {
            self.ends_at = now + time;
        }
        is_news
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.ends_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_may_be_acknowledged_in_at_most_sixteen_steps_each_of_which_may_take_as_long_as_a_stall() {
        let stall = Duration::from_secs(30);
        for left in [1, 7, 16, 17, 1_000, 4 << 20] {
            let mut drain = Drain::start(Instant::ZERO, left, 7 + left as u64, stall);
            let (mut now, mut steps) = (Instant::ZERO, 0);
            for rest in (0..left).rev().step_by(left.div_ceil(10_000)) {
                let before = drain.ends_at;
                now += Duration::from_millis(1);
                drain.update(now, 7 + rest as u64, stall);
                steps += u32::from(drain.ends_at != before);
                assert!(!drain.is_over(drain.ends_at - Duration::from_nanos(1)) && drain.is_over(drain.ends_at));
            }
            assert!((1..=16).contains(&steps), "{left} bytes were acknowledged in {steps} steps");
        }
    }
}

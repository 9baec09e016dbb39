//! Limits the unsent data if the send buffer follows the congestion window or a target delay (G02 §2).

use festina_recovery::send_buffer::{DelayBudget, MinBuf, Waits, Window};
use festina_units::{Duration, Instant};

use crate::config::SendBufferPolicy;
use crate::congestion::small;

/// The limit on unsent data, and the measurements that it follows.
#[derive(Debug)]
pub(super) struct Backlog {
    rule: Rule,
    /// Payload bytes that were ever taken in.
    taken_bytes: u64,
    /// Present limit on unsent bytes of DATA chunks.
    room_bytes: usize,
    /// Bytes of DATA chunks in a full packet.
    packet_bytes: usize,
    /// Nothing is outstanding.
    is_idle: bool,
}

#[derive(Debug)]
enum Rule {
    FollowsWindow(MinBuf),
    Target { budget: DelayBudget, waits: Waits },
}

/// State of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    pub(super) cwnd_bytes: usize,
    /// Sent, and neither acknowledged nor reported by a gap ack block.
    pub(super) outstanding_bytes: usize,
    pub(super) packet_bytes: usize,
    pub(super) srtt: Option<Duration>,
}

impl Backlog {
    /// `None`: the send buffer has a fixed size, and nothing else limits what waits.
    pub(super) fn new(policy: SendBufferPolicy) -> Option<Box<Self>> {
        let rule = match policy {
            SendBufferPolicy::Fixed => return None,
            SendBufferPolicy::FollowsWindow { windows, extra_packets } => {
                Rule::FollowsWindow(MinBuf { windows, extra_packets })
            }
            SendBufferPolicy::Target(budget) => Rule::Target { budget: DelayBudget::new(budget), waits: Waits::new() },
        };
        Some(Box::new(Self { rule, taken_bytes: 0, room_bytes: 0, packet_bytes: 1, is_idle: true }))
    }

    /// A message was taken in.
    pub(super) fn took(&mut self, now: Instant, payload_bytes: usize) {
        self.taken_bytes += payload_bytes as u64;
        if let Rule::Target { waits, .. } = &mut self.rule {
            waits.written(now, self.taken_bytes);
        }
    }

    /// A packet with queued data was sent; `waiting_bytes` of payload still wait.
    pub(super) fn packet_left(&mut self, now: Instant, waiting_bytes: usize) {
        let Rule::Target { budget, waits } = &mut self.rule else { return };
        let left_bytes = self.taken_bytes - waiting_bytes as u64;
        while let Some(wait) = waits.sent(now, left_bytes) {
            let packets = wait.bytes.div_ceil(self.packet_bytes as u64).max(1);
            budget.packets_left(wait.waited, u32::try_from(packets).unwrap_or(u32::MAX));
        }
    }

    /// Updates the limit.
    pub(super) fn follow(&mut self, now: Instant, path: Surroundings) {
        self.packet_bytes = path.packet_bytes.max(1);
        self.is_idle = path.outstanding_bytes == 0;
        let window = Window {
            cwnd_packets: small(path.cwnd_bytes / self.packet_bytes).max(1),
            outstanding_packets: small(path.outstanding_bytes.div_ceil(self.packet_bytes)),
            sacked_packets: 0,
        };
        let packets = match &self.rule {
            Rule::FollowsWindow(min_buf) => min_buf.unsent_packets_max(window),
            Rule::Target { budget, waits } => budget.unsent_packets_max(window, path.srtt, waits.oldest(now)),
        };
        self.room_bytes = usize::try_from(packets).unwrap_or(usize::MAX).saturating_mul(self.packet_bytes);
    }

    /// Returns whether a message that takes `message_bytes` in chunks fits in addition to `waiting_bytes`: if a packet of it has room, or if nothing
    /// waits.
    pub(super) fn takes(&self, waiting_bytes: usize, message_bytes: usize) -> bool {
        let is_first = self.is_idle && waiting_bytes == 0;
        is_first || waiting_bytes.saturating_add(message_bytes.min(self.packet_bytes)) <= self.room_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1_000;

    fn path(cwnd_packets: usize, outstanding_packets: usize) -> Surroundings {
        Surroundings {
            cwnd_bytes: cwnd_packets * PACKET,
            outstanding_bytes: outstanding_packets * PACKET,
            packet_bytes: PACKET,
            srtt: Some(Duration::from_millis(100)),
        }
    }

    /// Full packets that may wait.
    fn room(backlog: &Backlog) -> usize {
        (0..100).take_while(|waiting| backlog.takes(waiting * PACKET, PACKET)).count()
    }

    #[test]
    fn a_fixed_buffer_has_no_backlog() {
        assert!(Backlog::new(SendBufferPolicy::Fixed).is_none());
    }

    #[test]
    fn g02_2_2_what_waits_is_what_the_window_leaves_and_the_excess() {
        for (windows, extra_packets, full, half) in [(1, 0, 0, 5), (1, 3, 3, 8), (2, 0, 10, 15)] {
            let policy = SendBufferPolicy::FollowsWindow { windows, extra_packets };
            let mut backlog = Backlog::new(policy).unwrap();
            backlog.follow(Instant::ZERO, path(10, 10));
            assert_eq!(room(&backlog), full);
            backlog.follow(Instant::ZERO, path(10, 5));
            assert_eq!(room(&backlog), half);
        }
    }

    #[test]
    fn a_message_of_many_packets_is_taken_when_one_of_them_fits() {
        let mut backlog = Backlog::new(SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 0 }).unwrap();
        backlog.follow(Instant::ZERO, path(10, 9));
        assert!(backlog.takes(0, 50 * PACKET));
        assert!(!backlog.takes(1, 50 * PACKET));
        assert!(backlog.takes(900, 100), "small ones share a packet");
    }

    #[test]
    fn with_nothing_outstanding_and_nothing_waiting_a_message_is_always_taken() {
        let mut backlog = Backlog::new(SendBufferPolicy::Target(Duration::from_millis(1))).unwrap();
        assert!(backlog.takes(0, 1_000_000), "before anything is known");
        backlog.follow(Instant::ZERO, path(1, 0));
        assert!(backlog.takes(0, 1_000_000));
    }

    #[test]
    fn a_target_lets_wait_what_leaves_within_it_and_nothing_behind_what_is_late() {
        let mut backlog = Backlog::new(SendBufferPolicy::Target(Duration::from_millis(50))).unwrap();
        let start = Instant::from_secs(1);
        backlog.follow(start, path(20, 20));
        assert_eq!(room(&backlog), 10, "half of a window leaves in half of a round trip");
        backlog.took(start, 3 * PACKET);
        backlog.follow(start + Duration::from_millis(51), path(20, 20));
        assert_eq!(room(&backlog), 0);
        for _ in 0..100 {
            backlog.packet_left(start + Duration::from_millis(60), 0);
            backlog.took(start, PACKET);
        }
        backlog.packet_left(start + Duration::from_millis(60), 0);
        backlog.follow(start, path(20, 20));
        assert_eq!(room(&backlog), 0, "late packets made it careful: a sixteenth of ten packets is none");
    }
}

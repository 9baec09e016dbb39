//! The flow of one connection: how much may be sent, and how much waits for the program.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::WINDOW_BYTES;

/// Each message counts its data and this, for the memory that it takes.
const OVERHEAD_BYTES: usize = 128;
/// The frames without data that may wait.
const OTHERS_MAX: usize = 2;

/// The bytes that a message with this much data counts.
pub(super) const fn cost(data_bytes: usize) -> usize {
    data_bytes + OVERHEAD_BYTES
}

/// Both directions of a connection. The sender spends its credit, and the receiver grants it again when its program has taken the data.
#[derive(Debug)]
pub(super) struct Flow {
    credit: AtomicUsize,
    is_more: Notify,
    held: AtomicUsize,
}

impl Flow {
    pub(super) fn new() -> Self {
        Self { credit: AtomicUsize::new(WINDOW_BYTES), is_more: Notify::new(), held: AtomicUsize::new(0) }
    }

    /// Waits until data may be sent, and returns the number of bytes. One task may wait.
    pub(super) async fn room(&self) -> usize {
        loop {
            match self.credit.load(Ordering::Acquire).saturating_sub(OVERHEAD_BYTES) {
                0 => self.is_more.notified().await,
                room => return room,
            }
        }
    }

    /// Notes that a message with this much data, at most the [room](Self::room), is sent.
    pub(super) fn spend(&self, data_bytes: usize) {
        self.credit.fetch_sub(cost(data_bytes), Ordering::AcqRel);
    }

    /// Takes the credit that the other end grants. Returns whether it is not more than was spent.
    #[must_use]
    pub(super) fn grant(&self, bytes: usize) -> bool {
        let is_right = bytes <= WINDOW_BYTES && self.credit.fetch_add(bytes, Ordering::AcqRel) + bytes <= WINDOW_BYTES;
        self.is_more.notify_one();
        is_right
    }

    /// Notes that a message with this much data waits for the program. Returns whether the other end had the credit for it.
    #[must_use]
    pub(super) fn hold(&self, data_bytes: usize) -> bool {
        let bytes = cost(data_bytes);
        self.held.fetch_add(bytes, Ordering::AcqRel) + bytes <= WINDOW_BYTES + OTHERS_MAX * OVERHEAD_BYTES
    }

    /// Notes that the program has taken messages of this cost. Precedes the grant to the other end.
    pub(super) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sender_waits_when_its_credit_is_spent_until_more_is_granted() {
        let flow = Flow::new();
        assert_eq!(flow.room().await, WINDOW_BYTES - OVERHEAD_BYTES);
        flow.spend(WINDOW_BYTES - OVERHEAD_BYTES);
        let (room, ()) = tokio::join!(flow.room(), async {
            tokio::task::yield_now().await;
            assert!(flow.grant(cost(7)));
        });
        assert_eq!(room, 7);
        assert!(flow.grant(WINDOW_BYTES - cost(7)), "everything was granted");
        assert!(!flow.grant(1), "nothing was spent");
    }

    #[test]
    fn a_receiver_notices_data_beyond_the_window_also_in_small_pieces() {
        for data_bytes in [0, 1, 16 << 10] {
            let flow = Flow::new();
            let messages = (0..).take_while(|_| flow.hold(data_bytes)).count();
            assert!((messages - OTHERS_MAX) * cost(data_bytes) <= WINDOW_BYTES, "{messages} of {data_bytes} bytes");
        }
        let flow = Flow::new();
        for _ in 0..1_000 {
            assert!(flow.hold(WINDOW_BYTES / 2));
            flow.release(cost(WINDOW_BYTES / 2));
        }
    }
}

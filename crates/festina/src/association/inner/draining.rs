//! Waiting until all messages sent so far are settled.

use std::task::{Context, Poll};

use festina_sctp::{ClosedReason, MessageId};

use super::{Inner, Waiter, lock};

/// A task that waits until the messages sent so far are settled.
#[derive(Debug)]
pub(crate) struct Draining<'i> {
    inner: &'i Inner,
    /// The first message that it does not wait for.
    end: MessageId,
}

impl Inner {
    /// Begins to wait for the messages sent so far.
    pub(crate) fn drain(&self) -> Draining<'_> {
        let mut state = lock(&self.state);
        state.news().drain.begin();
        Draining { inner: self, end: MessageId(state.core.stats().sent.messages) }
    }
}

impl Draining<'_> {
    /// Ready once the messages are settled.
    pub(crate) fn poll(
        &self,
        context: &mut Context<'_>,
        waiter: &mut Waiter<&Inner>,
    ) -> Poll<Result<(), ClosedReason>> {
        let mut state = lock(&self.inner.state);
        // The count of unsettled messages includes the latest events, so the list of later messages has to.
        let wakes = state.take_events(self.inner.id);
        let settled = match state.closed_reason() {
            // After a graceful shutdown the peer has everything.
            Some(ClosedReason::Shutdown) => Some(Ok(())),
            Some(reason) => Some(Err(reason)),
            None => state.is_settled_before(self.end).then_some(Ok(())),
        };
        let ready = match settled {
            Some(settled) => {
                drop(state);
                Poll::Ready(settled)
            }
            None => waiter.wait(state, context),
        };
        wakes.wake();
        ready
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.inner.state);
        state.news().drain.end();
        state.forget_empty_news();
    }
}

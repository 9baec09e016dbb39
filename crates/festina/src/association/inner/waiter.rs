//! One waiting future's place among the waiters of its association.

use std::ops::Deref;
use std::sync::MutexGuard;
use std::task::{Context, Poll};

use festina_sctp::StreamId;

use super::Inner;
use super::state::{Condition, State};
use crate::locks::lock;

/// Waits for one condition of an association. Dropping it leaves no trace.
#[derive(Debug)]
pub(crate) struct Waiter<I: Deref<Target = Inner>> {
    inner: I,
    condition: Condition,
    /// The key among the waiters; `None` until the first wait.
    key: Option<u64>,
}

impl<I: Deref<Target = Inner>> Waiter<I> {
    /// Waits for messages to receive.
    pub(crate) fn reader(inner: I) -> Self {
        Self { inner, condition: Condition::Readable, key: None }
    }

    /// Waits for messages of one stream.
    pub(crate) fn stream_reader(inner: I, stream: StreamId) -> Self {
        Self { inner, condition: Condition::StreamReadable(stream), key: None }
    }

    /// Waits for room in the send buffer.
    pub(crate) fn writer(inner: I) -> Self {
        Self { inner, condition: Condition::Writable, key: None }
    }

    /// Waits for a change in the association's life.
    pub(crate) fn watcher(inner: I) -> Self {
        Self { inner, condition: Condition::Changed, key: None }
    }

    /// The association.
    pub(crate) fn inner(&self) -> &I {
        &self.inner
    }

    /// Has the task woken when the condition may have come true, and unlocks the association.
    pub(super) fn wait<R>(&mut self, mut state: MutexGuard<'_, State>, context: &mut Context<'_>) -> Poll<R> {
        let key = *self.key.get_or_insert_with(|| state.next_waiter_key());
        let replaced = state.waiters(self.condition).register(key, context.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl<I: Deref<Target = Inner>> Drop for Waiter<I> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let removed = lock(&self.inner.state).waiters(self.condition).remove(key);
            drop(removed);
        }
    }
}

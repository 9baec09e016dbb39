//! Outcomes of watched messages.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use festina_sctp::MessageId;

use super::Inner;
use crate::association::delivery::Outcome;
use crate::locks::lock;

impl Inner {
    /// Returns the outcome of a watched message, which is forgotten then.
    pub(crate) fn poll_outcome(&self, context: &mut Context<'_>, id: MessageId) -> Poll<Outcome> {
        let mut state = lock(&self.state);
        let (outcome, replaced) = state.poll_outcome(context, id);
        drop(state);
        drop(replaced);
        outcome
    }

    /// Takes the messages whose outcome is known out of `sent`. All of them are watched.
    pub(crate) fn take_outcomes<T>(&self, sent: &mut VecDeque<(MessageId, T)>, mut settled: impl FnMut(T, Outcome)) {
        if sent.is_empty() {
            return;
        }
        let context = Context::from_waker(Waker::noop());
        let mut state = lock(&self.state);
        for _ in 0..sent.len() {
            let Some((id, message)) = sent.pop_front() else { break };
            match state.poll_outcome(&context, id).0 {
                Poll::Ready(outcome) => settled(message, outcome),
                Poll::Pending => sent.push_back((id, message)),
            }
        }
    }

    /// Stops watching the outcome of a message.
    pub(crate) fn unwatch(&self, id: MessageId) {
        let removed = lock(&self.state).unwatch(id);
        drop(removed);
    }
}

//! What becomes of one message.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use festina_sctp::{AbandonReason, MessageId};
use festina_units::Instant;

use super::Association;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer has it.
    Delivered {
        /// When the acknowledgement came.
        at: Instant,
    },
    /// It was abandoned.
    Abandoned {
        /// Why.
        reason: AbandonReason,
        /// Whether part of it was sent, so that the peer may have received it. Otherwise no part will ever be sent.
        sent: bool,
    },
}

/// Future that resolves to the outcome of a message; from [`Association::send_confirmed`]. It holds a handle of the association. Dropping it changes
/// nothing for the message.
#[derive(Debug)]
#[must_use = "the message has been sent; this waits for what becomes of it"]
pub struct Delivery {
    association: Association,
    id: MessageId,
}

/// Whether the caller will ask for the outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Yes,
    No,
}

impl Delivery {
    pub(super) fn new(association: Association, id: MessageId) -> Self {
        Self { association, id }
    }

    /// The message, as events name it.
    pub fn id(&self) -> MessageId {
        self.id
    }
}

impl Future for Delivery {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        self.association.inner().poll_outcome(context, self.id)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.association.inner().unwatch(self.id);
    }
}

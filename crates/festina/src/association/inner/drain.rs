//! Which messages are not settled while tasks wait until older ones are: acknowledged or abandoned.

use std::collections::BTreeMap;

use festina_sctp::MessageId;

/// Messages that were sent while tasks wait for older ones. The core reports only how many messages are unsettled, so these are confirmed one by one: if
/// no others are unsettled, all older ones are settled.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// Tasks that wait.
    waiters: usize,
    /// The later messages that are unsettled, and whether the application asked for a confirmation itself.
    later: BTreeMap<MessageId, bool>,
}

impl Drain {
    pub(super) fn is_idle(&self) -> bool {
        self.waiters == 0 && self.later.is_empty()
    }

    /// A task begins to wait.
    pub(super) fn begin(&mut self) {
        self.waiters += 1;
    }

    /// A task waits no more.
    pub(super) fn end(&mut self) {
        self.waiters -= 1;
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.waiters > 0
    }

    /// A message is sent while tasks wait.
    pub(super) fn note(&mut self, id: MessageId, is_asked: bool) {
        self.later.insert(id, is_asked);
    }

    /// A message was delivered. Returns whether the application may want to know.
    pub(super) fn deliver(&mut self, id: MessageId) -> bool {
        self.later.remove(&id).unwrap_or(true)
    }

    /// Messages were abandoned.
    pub(super) fn abandon(&mut self, first: MessageId, last: MessageId) {
        while let Some((&id, _)) = self.later.range(first..=last).next() {
            self.later.remove(&id);
        }
    }

    /// Returns whether all messages before this one are settled. `pending` messages in all are not.
    pub(super) fn is_settled_before(&self, id: MessageId, pending: u64) -> bool {
        pending == self.later.len() as u64 && self.later.first_key_value().is_none_or(|(&first, _)| first >= id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_messages_that_are_settled_earlier_do_not_count_for_older_ones() {
        let mut drain = Drain::default();
        (5..9).map(MessageId).for_each(|id| drain.note(id, false));
        // Message 4 and these.
        assert!(!drain.is_settled_before(MessageId(5), 5));
        assert!(!drain.deliver(MessageId(6)) && drain.deliver(MessageId(3)));
        drain.abandon(MessageId(7), MessageId(7));
        assert!(!drain.is_settled_before(MessageId(5), 3));
        assert!(drain.is_settled_before(MessageId(5), 2));
        assert!(!drain.is_settled_before(MessageId(6), 2), "message 5 is not settled");
        assert!(!drain.deliver(MessageId(5)) && drain.is_settled_before(MessageId(8), 1));
    }
}

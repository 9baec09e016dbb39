//! The queue between the tasks that receive and the thread that writes. The thread takes everything at once, so that one wait for the disk is
//! for all that was received during the one before.

use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use festina::{Association, Message};
use tokio::sync::Notify;

use crate::collector::{Collector, Commit, Inbox, Link, Peer, Received, Taken};
use crate::relay::Notice;

use super::outlet::{Held, Outlet};

/// Bytes of messages that are committed together. As many may wait while the disk is busy with others.
const COMMIT_BYTES_MAX: usize = 4 << 20;

/// Shared by all tasks that receive and the one thread that writes.
pub(super) struct Desk {
    state: Mutex<State>,
    /// There is something to write, or it is to end: for the thread that writes.
    work: Condvar,
    /// There may be room: for tasks that receive.
    room: Notify,
    notice: Notice,
}

struct State {
    inbox: Inbox<Association>,
    outlets: Vec<Outlet>,
    stops: bool,
}

impl Link for Association {
    fn send(&self, message: Bytes) -> bool {
        self.try_send(Message::new(message)).is_ok()
    }

    fn abort(&self, reason: &str) {
        Self::abort(self, reason);
    }
}

impl Desk {
    pub(super) fn new(collector: Option<Collector>, outlets: Vec<Outlet>, notice: Notice) -> Self {
        let state = State { inbox: Inbox::new(collector), outlets, stops: false };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Notify::new(), notice }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when there is room for messages. Then each task may leave one batch of them.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            // Whoever makes room after this look is noticed.
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    fn has_room(&self) -> bool {
        self.lock().inbox.waiting_bytes().is_some_and(|bytes| bytes < COMMIT_BYTES_MAX)
    }

    /// Registers an association.
    pub(super) fn begin(&self, peer: Peer, association: &Association) {
        self.lock().inbox.begin(peer, association.clone());
    }

    /// Forgets an association that has ended.
    pub(super) fn end(&self, peer: Peer) {
        self.lock().inbox.end(peer);
    }

    /// Takes messages. Returns whether the association continues.
    pub(super) fn take(&self, peer: Peer, messages: impl Iterator<Item = Bytes>) -> bool {
        // Decoded before the lock is taken, as others wait for it.
        let messages: Vec<_> = messages.map(Received::new).collect();
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.stops {
            return false;
        }
        let outlets = &mut state.outlets;
        let hold = |records: &[_]| outlets.iter_mut().for_each(|outlet| outlet.hold(records));
        let Taken { goes_on, refused, wakes_writer } = state.inbox.take(peer, messages, hold);
        drop(guard);
        if wakes_writer {
            self.work.notify_one();
        }
        if let Some(error) = refused {
            (self.notice)(&format!("refused a relay: {error}"));
        }
        goes_on
    }

    /// Waits until there is something to commit, and takes it. Returns `None` at the end, when everything is done.
    pub(super) fn wait_for_work(&self) -> Option<(Commit, Vec<Held>)> {
        let mut guard = self.lock();
        loop {
            let state = &mut *guard;
            if let Some(commit) = state.inbox.next_commit() {
                let held = state.outlets.iter_mut().map(Outlet::take_held).collect();
                self.room.notify_waiters();
                return Some((commit, held));
            }
            if state.stops {
                return None;
            }
            guard = self.work.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends the answers of a commit that is done.
    pub(super) fn answer(&self, answers: Vec<(Peer, Bytes)>) {
        let links = self.lock().inbox.links(answers);
        links.into_iter().for_each(Inbox::answer);
    }

    /// Ends all associations after a failed write: messages that no commit has taken do not count.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.outlets.iter_mut().for_each(|outlet| drop(outlet.take_held()));
        let ended = state.inbox.close();
        drop(state);
        ended.iter().for_each(Inbox::abort_unwritten);
    }

    /// Takes messages again.
    pub(super) fn open(&self, collector: Collector) {
        self.lock().inbox.open(collector);
        self.room.notify_waiters();
    }

    /// Takes no more messages. Those taken so far are still committed.
    pub(super) fn stop(&self) {
        self.lock().stops = true;
        self.work.notify_one();
    }

    /// Relays that are connected.
    pub(super) fn relays(&self) -> u64 {
        self.lock().inbox.relays()
    }
}

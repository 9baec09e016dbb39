//! The queue between the tasks that receive and the thread that writes. The thread takes everything at once, so that one wait for the disk is
//! for all that was received during the one before.

use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use festina::{Association, Message};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::collector::{Collector, Commit, Inbox, Link, Origin, Peer, Received, RelayError, Taken};
use crate::notice::Notice;

use super::associations::Standing;
use super::outlet::{Held, Outlet};

/// Maximum bytes of messages that are committed together. The same amount may wait while the disk is busy.
const COMMIT_BYTES_MAX: usize = 4 << 20;

/// Shared by all tasks that receive and the one thread that writes.
pub(super) struct CommitQueue {
    state: Mutex<State>,
    /// There is something to write, or it is to end: for the thread that writes.
    work: Condvar,
    /// There may be room: for tasks that receive.
    room: Notify,
    notice: Notice,
    since: Instant,
}

struct State {
    inbox: Inbox<Association>,
    outlets: Vec<Outlet>,
    refusals: Refusals,
    /// Files are to be opened again.
    reopens: bool,
    stops: bool,
}

/// Associations that were ended because of their messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    pub(super) all: u64,
    /// Those of relays that are not remembered yet, as there are too many.
    pub(super) new_relays: u64,
}

/// Work for the writer thread.
pub(super) enum Work {
    /// To write this, and then to give these lines to the outputs that are no files.
    Commit(Box<Commit>, Vec<Held>),
    /// To open all files again.
    Reopen,
}

impl Link for Association {
    fn send(&self, message: Bytes) -> bool {
        self.try_send(Message::new(message)).is_ok()
    }

    fn abort(&self, reason: &str) {
        Self::abort(self, reason);
    }
}

impl CommitQueue {
    pub(super) fn new(collector: Option<Collector>, outlets: Vec<Outlet>, notice: Notice) -> Self {
        let state = State {
            inbox: Inbox::new(collector),
            outlets,
            refusals: Refusals::default(),
            reopens: false,
            stops: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Notify::new(), notice, since: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when there is room for messages. Then each task may leave one batch of them.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            // Register before the check, so that room made after it still wakes this task.
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
    pub(super) fn begin(&self, peer: Peer, origin: Origin, association: &Association) {
        self.lock().inbox.begin(peer, origin, association.clone());
    }

    /// Forgets an association that has ended.
    pub(super) fn end(&self, peer: Peer) {
        self.lock().inbox.end(peer);
    }

    /// Takes messages. Returns the association's new standing, or `None` if it has ended.
    pub(super) fn take(&self, peer: Peer, messages: impl Iterator<Item = Bytes>) -> Option<Standing> {
        // Decoded before the lock is taken, as others wait for it.
        let messages: Vec<_> = messages.map(Received::new).collect();
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.stops {
            return None;
        }
        let (outlets, mut standing) = (&mut state.outlets, Standing::Known);
        let hold = |records: &[_]| {
            if !records.is_empty() {
                standing = Standing::Useful;
            }
            outlets.iter_mut().for_each(|outlet| outlet.hold(records));
        };
        state.inbox.keep_time(self.since.elapsed());
        let Taken { goes_on, refused, wakes_writer } = state.inbox.take(peer, messages, hold);
        state.refusals.all += u64::from(refused.is_some());
        state.refusals.new_relays += u64::from(refused == Some(RelayError::TooManySenders));
        drop(guard);
        if wakes_writer {
            self.work.notify_one();
        }
        if let Some(error) = refused {
            (self.notice)(&format!("refused a relay: {error}"));
        }
        goes_on.then_some(standing)
    }

    /// Waits until there is something to do. Returns `None` at the end, when everything is done.
    pub(super) fn wait_for_work(&self) -> Option<Work> {
        let mut guard = self.lock();
        loop {
            let state = &mut *guard;
            if std::mem::take(&mut state.reopens) {
                return Some(Work::Reopen);
            }
            if let Some(commit) = state.inbox.next_commit() {
                let held = state.outlets.iter_mut().map(Outlet::take_held).collect();
                self.room.notify_waiters();
                return Some(Work::Commit(Box::new(commit), held));
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

    /// Has all files opened again.
    pub(super) fn reopen_files(&self) {
        self.lock().reopens = true;
        self.work.notify_one();
    }

    /// Relays that are connected, associations that were refused, and lines that outputs other than files did not get.
    pub(super) fn counts(&self) -> (u64, Refusals, u64) {
        let state = self.lock();
        (state.inbox.relays(), state.refusals, state.outlets.iter().map(Outlet::dropped).sum())
    }
}

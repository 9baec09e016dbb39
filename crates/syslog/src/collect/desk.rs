//! Where the tasks that receive leave lines, and the thread that writes takes them: all at once, so that one wait for the disk is for all that
//! came during the one before.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use festina::{Association, Message};
use tokio::sync::Notify;

use crate::collector::{Collector, Commit, Peer};
use crate::relay::Notice;
use crate::wire::Packet;

use super::outlet::{Held, Outlet};

/// Bytes of messages that are committed together. As many may wait while the disk is busy with others.
const COMMIT_BYTES_MAX: usize = 4 << 20;

/// Why associations end when the disk fails.
const CANNOT_WRITE: &str = "the collector cannot write";

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
    /// None while the disk fails.
    collector: Option<Collector>,
    associations: BTreeMap<Peer, Association>,
    outlets: Vec<Outlet>,
    stops: bool,
}

impl Desk {
    pub(super) fn new(collector: Option<Collector>, outlets: Vec<Outlet>, notice: Notice) -> Self {
        let state = State { collector, associations: BTreeMap::new(), outlets, stops: false };
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
        self.lock().collector.as_ref().is_some_and(|collector| collector.taken_bytes() < COMMIT_BYTES_MAX)
    }

    /// There is an association.
    pub(super) fn begin(&self, peer: Peer, association: &Association) {
        self.lock().associations.insert(peer, association.clone());
    }

    /// The association is over.
    pub(super) fn end(&self, peer: Peer) {
        let mut state = self.lock();
        state.associations.remove(&peer);
        if let Some(collector) = &mut state.collector {
            collector.gone(peer);
        }
    }

    /// Takes messages. Returns whether more of this association count.
    pub(super) fn take(&self, peer: Peer, messages: impl Iterator<Item = Bytes>) -> bool {
        // What can be done without the others is done before they have to wait.
        let packets: Vec<_> = messages.map(|message| (message.len(), Packet::decode(message))).collect();
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.stops {
            return false;
        }
        let Some(collector) = &mut state.collector else {
            // It came up while the disk failed.
            state.associations.remove(&peer).iter().for_each(|association| association.abort(CANNOT_WRITE));
            return false;
        };
        // Those of an association that was ended here count no more.
        let Some(association) = state.associations.get(&peer) else { return false };
        let had_work = collector.has_work();
        for (bytes, packet) in packets {
            match packet.map_err(Into::into).and_then(|packet| collector.take(peer, packet, bytes)) {
                Ok(records) => state.outlets.iter_mut().for_each(|outlet| outlet.hold(&records)),
                Err(error) => {
                    association.abort("what the relay sent makes no sense");
                    collector.gone(peer);
                    state.associations.remove(&peer);
                    drop(guard);
                    (self.notice)(&format!("a relay is refused: {error}"));
                    return false;
                }
            }
        }
        if !had_work {
            self.work.notify_one();
        }
        true
    }

    /// Waits until there is something to commit, and takes it; `None` if it is to end and all is done.
    pub(super) fn wait_for_work(&self) -> Option<(Commit, Vec<Held>)> {
        let mut guard = self.lock();
        loop {
            let state = &mut *guard;
            if let Some(collector) = state.collector.as_mut().filter(|collector| collector.has_work()) {
                let taken = (collector.begin_commit(), state.outlets.iter_mut().map(Outlet::take_held).collect());
                self.room.notify_waiters();
                return Some(taken);
            }
            if state.stops {
                return None;
            }
            guard = self.work.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends answers of a commit that is done.
    pub(super) fn answer(&self, answers: Vec<(Peer, Bytes)>) {
        let state = self.lock();
        let known =
            answers.into_iter().filter_map(|(peer, answer)| Some((state.associations.get(&peer)?.clone(), answer)));
        let known: Vec<_> = known.collect();
        drop(state);
        for (association, answer) in known {
            // A relay that does not take its answers will get them as a welcome.
            if association.try_send(Message::new(answer)).is_err() {
                association.abort("the relay does not take answers");
            }
        }
    }

    /// The disk has failed: what is here does not count, and all associations end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.collector = None;
        state.outlets.iter_mut().for_each(|outlet| drop(outlet.take_held()));
        let ended = std::mem::take(&mut state.associations);
        drop(state);
        ended.values().for_each(|association| association.abort(CANNOT_WRITE));
    }

    /// It works again.
    pub(super) fn open(&self, collector: Collector) {
        self.lock().collector = Some(collector);
        self.room.notify_waiters();
    }

    /// What was taken until now is still to be committed, and nothing after it.
    pub(super) fn stop(&self) {
        self.lock().stops = true;
        self.work.notify_one();
    }

    /// Relays that are connected.
    pub(super) fn relays(&self) -> u64 {
        self.lock().collector.as_ref().map_or(0, |collector| collector.relays() as u64)
    }
}

//! The shared state behind the handles of an association: the core, its lock, and the waiters.

mod departure;
mod drain;
mod draining;
mod networks;
mod outcomes;
mod reconfigure;
mod secure;
mod sorted;
mod state;
#[cfg(test)]
mod tests;
mod waiter;

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use festina_endpoint::{Channel, Core, Handled, Sources};
use festina_sctp::{
    AbandonedStats, PathId, PathStats, PathStatus, ReceivedMessage, SendError, SendErrorKind, Stats, StreamId,
    StreamScheduler,
};
use festina_sctp::{AssociationState, ClosedReason, Config, ConfigError, Event, Mechanisms, Message, MessageId, Ports};
use festina_secure::Path;
use festina_units::Instant;

use self::departure::{Until, Way};
pub(crate) use self::sorted::Source;
use self::state::{Place, State, Wakes};
pub(crate) use self::waiter::Waiter;
use crate::association::delivery::Watch;
use crate::clock;
use crate::endpoint::{Datagram, Entry, Shared};
use crate::error::{TryRecvError, WrongScheduler};
use crate::locks::lock;

/// Messages that one call gives to the core before others get the lock.
const MESSAGES_PER_LOCK: usize = 256;

/// One association. Handles, the demultiplexer and the timers share it.
///
/// Its lock comes first: its holder may take any of the endpoint's locks, never the other way round, and never that of another association. Wakers
/// are woken and dropped without any lock.
pub(crate) struct Inner {
    shared: Arc<Shared>,
    id: u64,
    /// Handles that applications hold.
    handles: AtomicUsize,
    /// Threads that wait for the lock and, once they have it, let the core send.
    successors: AtomicUsize,
    state: Mutex<State>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A message of this size was handed in. If it cannot leave at once and others wait already, it brings no deadline nearer, unless it
    /// `expires`.
    Message {
        bytes: usize,
        expires: bool,
    },
    Any,
}

impl Inner {
    pub(crate) fn new(shared: Arc<Shared>, id: u64, core: Core, source: Option<IpAddr>) -> Arc<Self> {
        let sources = Sources::new(shared.is_multihomed(), core.remote().ip(), source);
        let state = Mutex::new(State::new(core, sources));
        Arc::new(Self { shared, id, handles: AtomicUsize::new(0), successors: AtomicUsize::new(0), state })
    }

    /// Unique in the endpoint.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Makes one call that changes the core, and then all that has to follow it.
    fn change<R>(self: &Arc<Self>, call: impl FnOnce(&mut State, Instant) -> R) -> R {
        self.change_by(Change::Any, Way::Direct, call)
    }

    fn change_by<R>(self: &Arc<Self>, change: Change, mut way: Way, call: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.succeed();
        let now = state.advance(clock::now());
        let result = call(&mut state, now);
        if let Change::Message { bytes, expires } = change {
            if self.may_wait(&mut state, now, bytes, expires) {
                return result;
            }
            way = Way::of_message(now, self.id, state.core.remote());
        }
        let wakes = self.settle(change, way, &mut state, now);
        drop(state);
        wakes.wake();
        result
    }

    /// Returns whether nothing has to follow a message: it cannot leave yet and the timer knows when it can, or it belongs to a burst that
    /// leaves together.
    #[inline]
    fn may_wait(self: &Arc<Self>, state: &mut State, now: Instant, bytes: usize, expires: bool) -> bool {
        let Some(until) = state.departure.holds(now, bytes, state.entry.at) else { return false };
        if until == Until::Driver && state.departure.asks_driver() {
            self.shared.wait_for_driver(self);
        }
        if expires {
            self.rearm(state, now);
        }
        true
    }

    /// Takes the lock for a change that [`Inner::settle`] follows.
    fn succeed(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(_) => {
                self.successors.fetch_add(1, Ordering::Relaxed);
                let state = lock(&self.state);
                self.successors.fetch_sub(1, Ordering::Relaxed);
                state
            }
        }
    }

    /// Applies the consequences of a change: sends packets, passes events on, moves the timer. While other threads wait for the lock to do the same,
    /// packets and timer are left to them, so that simultaneous sends share packets and system calls.
    fn settle(self: &Arc<Self>, change: Change, way: Way, state: &mut State, now: Instant) -> Wakes {
        let has_successor = self.successors.load(Ordering::Relaxed) > 0;
        if has_successor && !state.core.is_closed() && state.departure.leaves_to_successor() {
            return state.take_events(self.id);
        }
        // The end is reported only after its packets have been sent.
        let way = if state.core.is_closed() { Way::Direct } else { way };
        if state.transmit(now, &self.shared, way).is_err() {
            self.shared.wait_for_driver(self);
        }
        let wakes = state.take_events(self.id);
        // Sorting messages by stream has made room, which may have to be advertised to the peer.
        let tells_room = state.is_sorting() && state.core.acknowledges_now();
        if tells_room && state.transmit(now, &self.shared, way).is_err() {
            self.shared.wait_for_driver(self);
        }
        if state.core.is_closed() && !self.lingers(state, now) {
            self.retire(state, now);
            return wakes;
        }
        let keeps_timer = state.departure.keeps_timer(change != Change::Any);
        if !keeps_timer || matches!(change, Change::Message { expires: true, .. }) {
            self.rearm(state, now);
        }
        wakes
    }

    /// Moves the entry in the endpoint's timers if the deadline is now earlier, or late enough for the entry to fire needlessly.
    fn rearm(self: &Arc<Self>, state: &mut State, now: Instant) {
        if let Some(deadline) = state.core.poll_deadline()
            && let Some(entry) = state.entry.follow(now, deadline)
        {
            self.shared.timers.arm(now, self, state.entry, entry);
            state.entry = entry;
        }
    }

    /// Removes an association that has ended from the endpoint.
    fn retire(&self, state: &mut State, now: Instant) {
        if state.entry != Entry::NONE {
            self.shared.timers.disarm(self, state.entry);
            state.entry = Entry::NONE;
        }
        if std::mem::replace(&mut state.place, Place::Gone) != Place::Gone {
            self.shared.remove(now, state.key, state.core.origin(), state.core.path_knowledge(now));
        }
    }

    /// The first call after the association was added to the endpoint.
    pub(crate) fn start(self: &Arc<Self>, mechanisms: Option<Mechanisms>) {
        self.change(|state, now| {
            if let Some(mechanisms) = mechanisms {
                state.core.set_mechanisms(now, mechanisms);
            }
        });
    }

    /// Feeds packets that came one after the other. Answers are put in the tray, which the driver empties; the number of packets that had
    /// no effect.
    pub(crate) fn handle_packets(self: &Arc<Self>, now: Instant, packets: impl Iterator<Item = Datagram>) -> usize {
        let mut dropped = 0;
        let mut state = self.succeed();
        let now = state.advance(now);
        for Datagram { from, source, ecn, packet } in packets {
            let handled = state.core.handle_packet(now, Path { remote: from, local: source }, ecn, packet);
            dropped += usize::from(handled == Handled::Dropped);
            // Only a packet with the tag of the association may choose the address that the answers leave from.
            if handled == Handled::Proof {
                let association = state.core.state();
                state.sources.note(now, from.ip(), source, association);
            }
            // What there is no room for now stays in the core, which is asked again below.
            let _blocked = state.fill(now, &self.shared, Way::WithDriver);
        }
        // What waited for the end of the batch is due.
        if state.core.poll_deadline().is_some_and(|deadline| deadline <= now) {
            state.core.handle_timeout(now);
        }
        self.rekey(&mut state);
        let wakes = self.settle(Change::Any, Way::WithDriver, &mut state, now);
        drop(state);
        wakes.wake();
        dropped
    }

    /// The endpoint finds the association by its present names from now on.
    fn rekey(&self, state: &mut State) {
        let key = state.core.key();
        if key != state.key && state.place != Place::Gone {
            self.shared.rekey(state.key, key);
            state.key = key;
        }
    }

    /// The timers' entry for `entry_at` came up, since the time has `come`, and is gone.
    pub(crate) fn handle_timer(self: &Arc<Self>, come: Instant, entry_at: Instant) {
        self.change_by(Change::Any, Way::WithDriver, |state, now| {
            // Another entry may have been made meanwhile, and is still there.
            if state.entry.at == entry_at {
                state.entry = Entry::NONE;
            }
            if state.core.poll_deadline().is_some_and(|deadline| deadline <= come) {
                state.core.handle_timeout(now);
            }
        });
    }

    /// The driver was asked to flush this association, and the socket has room.
    pub(crate) fn handle_writable(self: &Arc<Self>) {
        self.change_by(Change::Any, Way::WithDriver, |state, _| state.departure.driver_came());
    }

    pub(crate) fn poll_established<I: Deref<Target = Self>>(
        &self,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
    ) -> Poll<Result<(), ClosedReason>> {
        let state = lock(&self.state);
        if state.established {
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = state.closed_reason() {
            return Poll::Ready(Err(reason));
        }
        waiter.wait(state, context)
    }

    pub(crate) fn try_send(self: &Arc<Self>, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        let expires = message.lifetime().is_some() || message.deadline().is_some();
        let change = Change::Message { bytes: message.payload().len(), expires };
        self.change_by(change, Way::Direct, |state, now| state.send(now, message, watch))
    }

    /// Sends the message when there is room. `message` is empty afterwards.
    pub(crate) fn poll_send<I: Deref<Target = Self>>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
        message: &mut Option<Message>,
        watch: Watch,
    ) -> Poll<Result<MessageId, SendError>> {
        let offered = message.take().expect("a future is not polled again after it was ready");
        match self.try_send(offered, watch) {
            Err(SendError { kind: SendErrorKind::BufferFull, message: returned }) => {
                self.poll_room(context, waiter, message, returned, watch)
            }
            result => Poll::Ready(result),
        }
    }

    /// The buffer was full: offers the message again under the lock under which the task then waits, so that room made in between is not missed.
    fn poll_room<I: Deref<Target = Self>>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
        message: &mut Option<Message>,
        offered: Message,
        watch: Watch,
    ) -> Poll<Result<MessageId, SendError>> {
        let mut state = lock(&self.state);
        let now = state.advance(clock::now());
        match state.send(now, offered, watch) {
            Err(SendError { kind: SendErrorKind::BufferFull, message: returned }) => {
                *message = Some(returned);
                waiter.wait(state, context)
            }
            result => {
                drop(state);
                self.change(|_, _| ());
                Poll::Ready(result)
            }
        }
    }

    /// Sends messages until none is left. `taken` are those taken from `messages` that are not in the send buffer yet; the lock is never
    /// held while the application's iterator runs.
    pub(crate) fn poll_send_many<I: Deref<Target = Self>>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
        taken: &mut VecDeque<Message>,
        messages: &mut impl Iterator<Item = Message>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            taken.extend(messages.take(MESSAGES_PER_LOCK.saturating_sub(taken.len())));
            if taken.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let sent = self.change(|state, now| {
                while let Some(message) = taken.pop_front() {
                    state.send(now, message, Watch::No)?;
                }
                Ok(())
            });
            match sent {
                Ok(()) => {}
                Err(SendError { kind: SendErrorKind::BufferFull, message: returned }) => {
                    let mut refused = None;
                    let offered = self.poll_room(context, waiter, &mut refused, returned, Watch::No);
                    if let Some(refused) = refused {
                        taken.push_front(refused);
                    }
                    ready!(offered)?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Queues a message without sending packets yet; [`Inner::flush`] follows.
    pub(crate) fn queue(&self, message: Message) -> Result<MessageId, SendError> {
        let mut state = lock(&self.state);
        let now = state.advance(clock::now());
        state.send(now, message, Watch::No)
    }

    /// What partial reliability gave up on one stream.
    pub(crate) fn abandoned_on(&self, stream: StreamId) -> AbandonedStats {
        lock(&self.state).core.abandoned_on(stream)
    }

    /// Payload bytes queued on one stream and not sent yet.
    pub(crate) fn queued_bytes_on(&self, stream: StreamId) -> usize {
        lock(&self.state).core.queued_bytes_on(stream)
    }

    /// Sets the value of a stream that the scheduler `needed` uses.
    pub(crate) fn set_stream_value(
        &self,
        needed: StreamScheduler,
        stream: StreamId,
        value: u16,
    ) -> Result<(), WrongScheduler> {
        let used = self.shared.scheduler();
        if used != needed {
            return Err(WrongScheduler { needed, used });
        }
        lock(&self.state).core.set_stream_value(stream, value);
        Ok(())
    }

    /// Drops the unread messages of a stream and those that arrive from now on.
    pub(crate) fn discard_stream(self: &Arc<Self>, stream: StreamId) -> usize {
        self.change(|state, _| state.discard_stream(stream))
    }

    pub(crate) fn resume_stream(&self, stream: StreamId) {
        lock(&self.state).core.resume_stream(stream);
    }

    /// Sends queued messages, as far as the protocol allows.
    pub(crate) fn flush(self: &Arc<Self>) {
        self.change(|_, _| ());
    }

    pub(crate) fn try_recv(self: &Arc<Self>, source: Source) -> Result<Option<ReceivedMessage>, TryRecvError> {
        match self.take_message(source) {
            Ok(message) => Ok(Some(message)),
            Err(state) => TryRecvError::without_message(state.closed_reason()),
        }
    }

    /// Returns the next message for the reader of `source`, or the lock if there is none.
    #[inline]
    fn take_message(self: &Arc<Self>, source: Source) -> Result<ReceivedMessage, MutexGuard<'_, State>> {
        loop {
            let mut state = lock(&self.state);
            let mut wakers = Vec::new();
            let message = state.next_message(source, &mut wakers);
            match message {
                None if wakers.is_empty() => return Err(state),
                _ => self.tell_room(state),
            }
            wakers.into_iter().for_each(Waker::wake);
            if let Some(message) = message {
                return Ok(message);
            }
        }
    }

    /// Registers a separate reader of the stream. Returns whether there was none before.
    pub(crate) fn take_stream(&self, stream: StreamId) -> bool {
        lock(&self.state).take_stream(stream)
    }

    /// Removes the separate reader of the stream.
    pub(crate) fn give_stream_back(&self, stream: StreamId) {
        let wakes = lock(&self.state).give_stream_back(stream);
        wakes.wake();
    }

    /// Advertises the room that the messages just taken have made to the peer, if it is worth a packet.
    fn tell_room(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.core.acknowledges_now() {
            return;
        }
        let now = state.advance(clock::now());
        let wakes = self.settle(Change::Any, Way::Direct, &mut state, now);
        drop(state);
        wakes.wake();
    }

    pub(crate) fn poll_recv<I: Deref<Target = Self>>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
        source: Source,
    ) -> Poll<Result<ReceivedMessage, ClosedReason>> {
        let state = match self.take_message(source) {
            Ok(message) => return Poll::Ready(Ok(message)),
            Err(state) => state,
        };
        if let Some(reason) = state.closed_reason() {
            return Poll::Ready(Err(reason));
        }
        waiter.wait(state, context)
    }

    /// Appends between one and `limit` messages to `messages`. Returns their number.
    pub(crate) fn poll_recv_many<I: Deref<Target = Self>>(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
        messages: &mut Vec<ReceivedMessage>,
        limit: usize,
    ) -> Poll<Result<usize, ClosedReason>> {
        let mut state = lock(&self.state);
        let (before, mut wakers) = (messages.len(), Vec::new());
        messages.extend(std::iter::from_fn(|| state.next_message(Source::Others, &mut wakers)).take(limit));
        let taken = messages.len() - before;
        if taken > 0 || limit == 0 {
            self.tell_room(state);
            wakers.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(taken));
        }
        let waiting = match state.closed_reason() {
            Some(reason) => Poll::Ready(Err(reason)),
            None => waiter.wait(state, context),
        };
        wakers.into_iter().for_each(Waker::wake);
        waiting
    }

    pub(crate) fn try_event(&self) -> Option<Event> {
        lock(&self.state).next_event()
    }

    pub(crate) fn poll_event<I: Deref<Target = Self>>(
        &self,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
    ) -> Poll<Option<Event>> {
        let mut state = lock(&self.state);
        if let Some(event) = state.next_event() {
            return Poll::Ready(Some(event));
        }
        if state.closed_reason().is_some() {
            return Poll::Ready(None);
        }
        waiter.wait(state, context)
    }

    pub(crate) fn poll_closed<I: Deref<Target = Self>>(
        &self,
        context: &mut Context<'_>,
        waiter: &mut Waiter<I>,
    ) -> Poll<ClosedReason> {
        let state = lock(&self.state);
        match state.closed_reason() {
            Some(reason) => Poll::Ready(reason),
            None => waiter.wait(state, context),
        }
    }

    pub(crate) fn close_reason(&self) -> Option<ClosedReason> {
        lock(&self.state).closed_reason()
    }

    pub(crate) fn events_missed(&self) -> u64 {
        lock(&self.state).events_missed()
    }

    pub(crate) fn shutdown(self: &Arc<Self>) {
        self.change(|state, now| state.core.shutdown(now));
    }

    pub(crate) fn abort(self: &Arc<Self>, reason: &[u8]) {
        self.change(|state, _| state.core.abort(reason));
    }

    pub(crate) fn change_mechanisms(self: &Arc<Self>, changed: impl FnOnce(Mechanisms) -> Mechanisms) {
        self.change(|state, now| {
            let mechanisms = changed(*state.core.mechanisms());
            state.core.set_mechanisms(now, mechanisms);
        });
    }

    pub(crate) fn set_timing(self: &Arc<Self>, config: &Config) -> Result<(), ConfigError> {
        self.change(|state, now| state.core.set_timing(now, config))
    }

    pub(crate) fn mechanisms(&self) -> Mechanisms {
        *lock(&self.state).core.mechanisms()
    }

    pub(crate) fn stats(&self) -> Stats {
        lock(&self.state).core.stats()
    }

    pub(crate) fn path_stats(&self) -> Vec<PathStats> {
        lock(&self.state).core.path_stats().collect()
    }

    pub(crate) fn paths(&self) -> Vec<PathStatus> {
        lock(&self.state).core.paths().collect()
    }

    pub(crate) fn set_primary(self: &Arc<Self>, path: PathId) -> bool {
        self.change(|state, _| state.core.set_primary(path))
    }

    pub(crate) fn peer_addresses(&self) -> Vec<IpAddr> {
        lock(&self.state).core.peer_addresses().collect()
    }

    /// Bytes of the largest message that can be sent.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.shared.message_bytes_max()
    }

    /// The address of the endpoint.
    #[cfg(feature = "prometheus")]
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.shared.socket.local_addr()
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        lock(&self.state).core.remote()
    }

    pub(crate) fn ports(&self) -> Ports {
        lock(&self.state).core.ports()
    }

    pub(crate) fn state(&self) -> AssociationState {
        lock(&self.state).core.state()
    }

    pub(crate) fn streams(&self) -> (u16, u16) {
        lock(&self.state).streams
    }

    pub(crate) fn handle_added(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// The application let go of a handle; with the last one the association ends in the background.
    pub(crate) fn handle_dropped(self: &Arc<Self>) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.change(State::detach);
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}

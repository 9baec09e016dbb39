//! What the lock of an association guards.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use festina_endpoint::{Channel, Core, Sources};
use festina_sctp::{ClosedReason, Event, Message, MessageId, ProtocolEvent, ReceivedMessage, SendError, StreamId};
use festina_units::Instant;

use super::departure::{Departure, Way};
use super::drain::Drain;
use super::sorted::{Sorted, Source};
use crate::EVENTS_QUEUED_MAX;
use crate::association::Waiters;
use crate::association::delivery::{Outcome, Watch};
use crate::endpoint::outbox::Outbox;
use crate::endpoint::socket::{ANY_BINDING, Blocked};
use crate::endpoint::tray::NOWHERE;
use crate::endpoint::{Entry, Key, Shared};

/// Where an association is in the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Living,
    /// Over, but still there to answer a peer that has missed the end.
    Lingering,
    /// Taken out.
    Gone,
}

/// The core and what surrounds it.
pub(super) struct State {
    pub(super) core: Core,
    /// The latest time told to the core, for which it never goes back.
    now: Instant,
    /// When the endpoint's timers will ask this association.
    pub(super) entry: Entry,
    /// The filling of the tray in which the latest packets were put.
    filling: u64,
    /// The binding of the socket for which an encrypted association writes its packets, once it has written any.
    pub(super) binding: u32,
    /// The own addresses from which a plain association sends.
    pub(super) sources: Sources,
    /// What the application may want to know; an association in the midst of its life mostly has nothing to tell.
    news: Option<Box<News>>,
    /// Only while somebody reads a stream by itself.
    sorted: Option<Box<Sorted>>,
    waiting: Waiting,
    /// The endpoint's name for the association.
    pub(super) key: Key,
    /// Outbound and inbound streams.
    pub(super) streams: (u16, u16),
    pub(super) established: bool,
    /// No handle is left, so messages will not be read.
    detached: bool,
    pub(super) place: Place,
    pub(super) departure: Departure,
}

/// Events that the application has not taken, and the end.
#[derive(Default)]
pub(super) struct News {
    events: VecDeque<Event>,
    /// Events dropped because there were too many.
    missed: u64,
    closed: Option<ClosedReason>,
    /// Messages whose fate somebody waits for. The send buffer bounds those that have none yet, and each of the others has a future.
    watched: BTreeMap<MessageId, Watched>,
    pub(super) drain: Drain,
    /// Why the system does not send to the peer, if that ended the handshake.
    no_way: Option<(io::ErrorKind, String)>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.missed == 0
            && self.closed.is_none()
            && self.watched.is_empty()
            && self.drain.is_idle()
            && self.no_way.is_none()
    }
}

/// A message whose fate somebody waits for.
#[derive(Default)]
struct Watched {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// What a task can wait for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Readable,
    /// The same of one stream.
    StreamReadable(StreamId),
    Writable,
    /// Established, drained, closed or another event.
    Changed,
}

/// Tasks that wait, by condition. Taken out of the state, they are to be woken once the lock is released.
#[derive(Default)]
#[must_use]
pub(super) struct Wakes {
    readers: Waiters,
    writers: Waiters,
    watchers: Waiters,
    /// Those that wait for the fate of a message, or read one stream by itself.
    others: Vec<Waker>,
}

/// Waiting tasks, and the newest waiter's key.
#[derive(Default)]
struct Waiting {
    tasks: Wakes,
    keys: u64,
}

impl Wakes {
    pub(super) fn wake(self) {
        self.readers.wake();
        self.writers.wake();
        self.watchers.wake();
        self.others.into_iter().for_each(Waker::wake);
    }
}

impl State {
    pub(super) fn new(core: Core, sources: Sources) -> Self {
        Self {
            now: Instant::ZERO,
            entry: Entry::NONE,
            filling: NOWHERE,
            binding: ANY_BINDING,
            sources,
            news: None,
            sorted: None,
            waiting: Waiting::default(),
            key: core.key(),
            streams: (0, 0),
            established: false,
            detached: false,
            place: Place::Living,
            departure: Departure::default(),
            core,
        }
    }

    /// The time to tell the core. Threads read the clock before they get the lock, so a reading may be older than one that
    /// another thread has used already.
    pub(super) fn advance(&mut self, reading: Instant) -> Instant {
        self.now = self.now.max(reading);
        self.now
    }

    /// Moves packets from the core to the outbox, and sends a full outbox. Returns whether the core had any packets.
    fn gather(&mut self, now: Instant, outbox: &mut Outbox, shared: &Shared) -> Result<bool, Blocked> {
        if self.detached {
            // Messages will not be read any more, but the peer must deliver them before it can shut down.
            while self.core.poll_message().is_some() {}
        }
        self.sources.supervise(now, &mut self.core, || shared.addresses(), false);
        let socket = &shared.socket;
        let segments_max = socket.segments_max();
        if self.binding == ANY_BINDING && self.core.secure().is_some() {
            self.binding = socket.binding();
        }
        let mut any = false;
        loop {
            if outbox.is_full() {
                outbox.flush(socket)?;
            }
            let Some(transmit) = self.core.poll_transmit(now, outbox.buffer()) else { return Ok(any) };
            let source = self.sources.of(|| shared.addresses(), transmit.destination.ip());
            outbox.push(&transmit, (self.core.source(source), self.binding), segments_max);
            any = true;
        }
    }

    /// Moves packets from the core to the tray. Returns whether the core had any.
    pub(super) fn fill(&mut self, now: Instant, shared: &Shared, way: Way) -> Result<bool, Blocked> {
        let mut filling = shared.tray.open();
        let was_empty = filling.outbox().is_empty();
        let gathered = self.gather(now, filling.outbox(), shared);
        let (number, begins) = filling.note(now, was_empty);
        self.filling = number;
        let leaves = match way {
            Way::Direct => true,
            Way::WithOthers => filling.is_due(now),
            Way::WithDriver => false,
        };
        let any = gathered?;
        if leaves {
            filling.flush(&shared.socket)?;
        }
        drop(filling);
        if begins && way == Way::WithOthers {
            shared.wake_driver();
        }
        Ok(any)
    }

    /// Sends all packets that the core has to send now. [`Blocked`] if the driver has to be asked to go on; told once.
    pub(super) fn transmit(&mut self, now: Instant, shared: &Shared, way: Way) -> Result<(), Blocked> {
        let tray = &shared.tray;
        let sent = if way == Way::Direct && !tray.is_blocked() && !tray.holds(self.filling) {
            Outbox::with(|outbox| {
                let gathered = self.gather(now, outbox, shared);
                let sent = gathered.and_then(|any| outbox.flush(&shared.socket).map(|()| any));
                if sent.is_err() {
                    self.filling = tray.open().keep(outbox);
                }
                sent
            })
        } else {
            self.fill(now, shared, way)
        };
        self.departure.asked(sent == Ok(false));
        if shared.socket.refusals.is_waiting() {
            shared.wake_driver();
        }
        if sent.is_ok() || !self.departure.asks_driver() { Ok(()) } else { Err(Blocked) }
    }

    /// The system does not send to the peer at all. That ends a handshake, unless other own addresses are to be tried; later it may be the network that is away for a while.
    pub(super) fn no_way(&mut self, kind: io::ErrorKind, cause: &str, is_only_address: bool) {
        if !self.established && !self.core.is_closed() {
            self.news.get_or_insert_default().no_way = Some((kind, cause.to_owned()));
            if is_only_address {
                self.core.abort(b"");
            }
        }
    }

    pub(super) fn take_no_way(&mut self) -> Option<(io::ErrorKind, String)> {
        self.news.as_mut()?.no_way.take()
    }

    /// Gives the core a message.
    pub(super) fn send(&mut self, now: Instant, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        let (is_asked, is_draining) = (message.has_confirmation(), self.is_draining());
        let message = message.with_confirmation(is_asked || watch == Watch::Yes || is_draining);
        let restored = |SendError { message, kind }| SendError::new(message.with_confirmation(is_asked), kind);
        let id = self.core.send(now, message).map_err(restored)?;
        if watch == Watch::Yes {
            self.news().watched.insert(id, Watched::default());
        }
        if is_draining {
            self.news().drain.note(id, is_asked);
        }
        Ok(id)
    }

    /// Returns whether tasks wait until the messages sent so far are settled.
    fn is_draining(&self) -> bool {
        self.news.as_ref().is_some_and(|news| news.drain.has_waiters())
    }

    /// Returns whether all messages before this one are acknowledged or abandoned. All events of the core must be taken.
    pub(super) fn is_settled_before(&self, id: MessageId) -> bool {
        let pending = self.core.stats().path.messages_pending;
        self.news.as_ref().is_some_and(|news| news.drain.is_settled_before(id, pending))
    }

    /// What the application may want to know, to be changed.
    pub(super) fn news(&mut self) -> &mut News {
        self.news.get_or_insert_default()
    }

    pub(super) fn forget_empty_news(&mut self) {
        self.news.take_if(|news| news.is_empty());
    }

    /// What became of a watched message, and a waker that is not needed any more.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>, id: MessageId) -> (Poll<Outcome>, Option<Waker>) {
        let watched = self.news.as_mut().and_then(|news| news.watched.get_mut(&id));
        let Some(watched) = watched else { return (Poll::Pending, None) };
        match watched.outcome {
            Some(outcome) => (Poll::Ready(outcome), self.unwatch(id)),
            None => (Poll::Pending, watched.waker.replace(context.waker().clone())),
        }
    }

    /// Stops watching the outcome of a message. Returns the waker, which is no longer needed.
    pub(super) fn unwatch(&mut self, id: MessageId) -> Option<Waker> {
        let news = self.news.as_mut()?;
        let removed = news.watched.remove(&id);
        self.forget_empty_news();
        removed?.waker
    }

    /// It is known what became of the messages from the first to the last. Returns whether all of them were watched.
    fn settle(&mut self, first: MessageId, last: MessageId, outcome: Outcome, wakers: &mut Vec<Waker>) -> bool {
        let Some(news) = &mut self.news else { return false };
        let mut count = 0;
        for (_, watched) in news.watched.range_mut(first..=last) {
            watched.outcome = Some(outcome);
            wakers.extend(watched.waker.take());
            count += 1;
        }
        count > last.0 - first.0
    }

    /// Logs events that the program need not look at.
    fn log(&self, id: u64, event: &Event) {
        let at = |path| self.core.destination(path);
        match *event {
            Event::Protocol(ProtocolEvent::Retransmitted { tsn, cause, .. }) => {
                tracing::debug!(association = id, tsn, ?cause, "sent again");
            }
            Event::PathConfirmed { remote, .. } => tracing::info!(association = id, %remote, "path confirmed"),
            Event::PathSuspected { path, suspected: true, .. } => {
                tracing::info!(association = id, remote = %at(path), "path does not answer: others carry its data");
            }
            Event::PathReachable { path, reachable: false } => {
                tracing::info!(association = id, remote = %at(path), "path has failed");
            }
            Event::PathSuspected { path, .. } | Event::PathReachable { path, .. } => {
                tracing::info!(association = id, remote = %at(path), "path answers again");
            }
            Event::PeerMoved { remote, .. } => tracing::info!(association = id, %remote, "peer has moved"),
            _ => {}
        }
    }

    /// Takes the core's events: keeps what the application may want to know, and tells whom to wake.
    pub(super) fn take_events(&mut self, id: u64) -> Wakes {
        let (mut readable, mut writable, mut changed) = (false, false, false);
        let mut others = Vec::new();
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Readable => readable = true,
                Event::Writable => writable = true,
                Event::Drained => changed = true,
                Event::Established { outbound_streams, inbound_streams } => {
                    self.streams = (outbound_streams, inbound_streams);
                    self.established = true;
                    changed = true;
                    tracing::info!(association = id, remote = %self.core.remote(), "association up");
                }
                Event::Closed(reason) => {
                    tracing::info!(association = id, remote = %self.core.remote(), %reason, "association down");
                    self.news.get_or_insert_default().closed = Some(reason.clone());
                    self.keep(Event::Closed(reason));
                    (readable, writable, changed) = (true, true, true);
                }
                Event::MessageDelivered { id, at, .. } => {
                    let was_watched = self.settle(id, id, Outcome::Delivered { at }, &mut others);
                    let is_asked = self.news.as_mut().is_none_or(|news| news.drain.deliver(id));
                    if is_asked && !was_watched || self.core.has_message_events() {
                        self.keep(event);
                        changed = true;
                    }
                }
                Event::MessagesAbandoned { first, last, reason, sent, .. } => {
                    self.settle(first, last, Outcome::Abandoned { reason, sent }, &mut others);
                    if let Some(news) = &mut self.news {
                        news.drain.abandon(first, last);
                    }
                    self.keep(event);
                    changed = true;
                }
                event => {
                    self.log(id, &event);
                    if let Event::StreamsAdded { outbound_streams, inbound_streams } = event {
                        self.streams = (outbound_streams, inbound_streams);
                    }
                    self.keep(event);
                    changed = true;
                }
            }
        }
        self.forget_empty_news();
        // The core does not report that only later messages are left.
        changed |= self.is_draining() && self.is_settled_before(MessageId(0));
        // Room may have been made for messages that the core reported earlier: it does not report them again.
        self.sort(&mut others);
        let is_over = self.news.as_ref().is_some_and(|news| news.closed.is_some());
        if let Some(sorted) = self.sorted.as_mut().filter(|_| is_over) {
            sorted.end(&mut others);
        }
        // If messages are sorted by stream, the wakers of readers that got one are in `others`.
        let wakes_readers = readable && (self.sorted.is_none() || is_over);
        Wakes {
            readers: if wakes_readers { self.waiting.tasks.readers.take() } else { Waiters::None },
            writers: if writable { self.waiting.tasks.writers.take() } else { Waiters::None },
            watchers: if changed { self.waiting.tasks.watchers.take() } else { Waiters::None },
            others,
        }
    }

    /// Moves messages to those who read single streams, if anybody does.
    fn sort(&mut self, wakers: &mut Vec<Waker>) {
        if let Some(sorted) = &mut self.sorted {
            let overrun = sorted.sort(&mut self.core, &mut self.waiting.tasks.readers, wakers);
            for stream in overrun {
                self.keep(Event::StreamDiscarded { stream });
                self.waiting.tasks.watchers.take().into_wakers(wakers);
            }
        }
    }

    /// Drops the unread messages of a stream and those that arrive from now on. Returns how many messages it has dropped.
    pub(super) fn discard_stream(&mut self, stream: StreamId) -> usize {
        let dropped = self.core.discard_stream(stream);
        dropped + self.sorted.as_mut().map_or(0, |sorted| sorted.discard(stream))
    }

    /// Returns whether somebody reads a stream by itself.
    pub(super) fn is_sorting(&self) -> bool {
        self.sorted.is_some()
    }

    /// The next message for who reads `source`. `wakers`: those whose wait is over by that; to be woken without the lock.
    #[inline]
    pub(super) fn next_message(&mut self, source: Source, wakers: &mut Vec<Waker>) -> Option<ReceivedMessage> {
        if self.sorted.is_none() { self.core.poll_message() } else { self.next_sorted(source, wakers) }
    }

    #[cold]
    fn next_sorted(&mut self, source: Source, wakers: &mut Vec<Waker>) -> Option<ReceivedMessage> {
        self.sort(wakers);
        let message = self.sorted.as_mut()?.next(source);
        // Its room may be another's.
        self.sort(wakers);
        if self.sorted.as_ref().is_some_and(|sorted| sorted.is_over()) {
            self.sorted = None;
        }
        message
    }

    /// Gives the stream a reader of its own. Returns whether it had none before.
    pub(super) fn take_stream(&mut self, stream: StreamId) -> bool {
        self.sorted.get_or_insert_default().take_stream(stream)
    }

    /// Takes the stream's own reader away. Returns the tasks to wake.
    pub(super) fn give_stream_back(&mut self, stream: StreamId) -> Wakes {
        let mut wakes = Wakes::default();
        if let Some(sorted) = &mut self.sorted {
            wakes.readers = self.waiting.tasks.readers.take();
            sorted.give_back(stream).unwrap_or_default().into_wakers(&mut wakes.others);
            if sorted.is_over() {
                self.sorted = None;
            }
        }
        wakes
    }

    /// Keeps an event for the application, at the cost of the oldest if it takes none.
    fn keep(&mut self, event: Event) {
        if self.detached {
            return;
        }
        let news = self.news.get_or_insert_default();
        if news.events.len() >= EVENTS_QUEUED_MAX {
            news.events.pop_front();
            news.missed += 1;
        }
        news.events.push_back(event);
    }

    pub(super) fn events_missed(&self) -> u64 {
        self.news.as_ref().map_or(0, |news| news.missed)
    }

    /// The next event kept. No news cost no memory.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let news = self.news.as_mut()?;
        let event = news.events.pop_front();
        self.forget_empty_news();
        event
    }

    /// Why the association ended, if it has.
    pub(super) fn closed_reason(&self) -> Option<ClosedReason> {
        self.news.as_ref()?.closed.clone()
    }

    /// The last handle is gone: ends the association in good order, or at once if it was not up yet.
    pub(super) fn detach(&mut self, now: Instant) {
        self.detached = true;
        self.news = None;
        self.sorted = None;
        if self.established {
            self.core.shutdown(now);
        } else {
            self.core.abort(b"");
        }
    }

    pub(super) fn next_waiter_key(&mut self) -> u64 {
        self.waiting.keys += 1;
        self.waiting.keys
    }

    pub(super) fn waiters(&mut self, condition: Condition) -> &mut Waiters {
        match condition {
            Condition::Readable => &mut self.waiting.tasks.readers,
            Condition::StreamReadable(stream) => {
                let own = self.sorted.as_mut().and_then(|sorted| sorted.readers(stream));
                own.unwrap_or(&mut self.waiting.tasks.readers)
            }
            Condition::Writable => &mut self.waiting.tasks.writers,
            Condition::Changed => &mut self.waiting.tasks.watchers,
        }
    }
}

//! Messages sorted by stream, once a stream has a reader of its own.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use festina_endpoint::{Channel, Core};
use festina_sctp::{ReceivedMessage, StreamId};

use crate::association::Waiters;

/// Maximum bytes of sorted, unread messages of a living association. Beyond that messages stay in the receive buffer, whose window closes.
const SORTED_BYTES_MAX: usize = 256 << 10;

/// Overhead counted for each message.
const MESSAGE_BYTES: usize = 128;

/// What waits for the readers of single streams, and for those of all others.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    taken: BTreeMap<StreamId, Taken>,
    others: VecDeque<ReceivedMessage>,
    /// What waits here counts for.
    bytes: usize,
    /// The same by stream, where that is limited.
    by_stream: BTreeMap<StreamId, usize>,
}

/// A stream with a reader of its own.
#[derive(Debug, Default)]
struct Taken {
    messages: VecDeque<ReceivedMessage>,
    readers: Waiters,
}

/// The reader of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The reader of all streams without a reader of their own.
    Others,
    /// The reader of this stream.
    Stream(StreamId),
}

fn cost_bytes(message: &ReceivedMessage) -> usize {
    message.payload().len() + MESSAGE_BYTES
}

impl Sorted {
    /// Registers a separate reader of the stream. Returns whether there was none before.
    pub(super) fn take_stream(&mut self, stream: StreamId) -> bool {
        if self.taken.contains_key(&stream) {
            return false;
        }
        let mut taken = Taken::default();
        let (own, others) =
            std::mem::take(&mut self.others).into_iter().partition(|message| message.stream() == stream);
        (taken.messages, self.others) = (own, others);
        self.taken.insert(stream, taken);
        true
    }

    /// Removes the separate reader of the stream. Its queued messages go to the reader of all others.
    pub(super) fn give_back(&mut self, stream: StreamId) -> Option<Waiters> {
        let mut taken = self.taken.remove(&stream)?;
        self.others.append(&mut taken.messages);
        Some(taken.readers)
    }

    /// Nothing has to be sorted any more.
    pub(super) fn is_over(&self) -> bool {
        self.taken.is_empty() && self.others.is_empty()
    }

    /// Moves messages to their queues, as far as there is room, and collects the wakers of their readers. After the end all are moved: a reader must not
    /// take the end for that of its stream while the core holds messages for it. Returns the streams that are discarded from here on because they have
    /// reached their limit.
    pub(super) fn sort(&mut self, core: &mut Core, others: &mut Waiters, wakers: &mut Vec<Waker>) -> Vec<StreamId> {
        let mut overrun = Vec::new();
        let stream_bytes_max = core.stream_unread_bytes_max();
        while (self.bytes < SORTED_BYTES_MAX || core.is_closed())
            && let Some(message) = core.poll_message()
        {
            if let Some(bytes_max) = stream_bytes_max {
                let bytes = self.by_stream.entry(message.stream()).or_default();
                if *bytes > 0 && *bytes + cost_bytes(&message) > bytes_max {
                    core.discard_stream(message.stream());
                    overrun.push(message.stream());
                    continue;
                }
                *bytes += cost_bytes(&message);
            }
            self.bytes += cost_bytes(&message);
            let (queue, readers) = match self.taken.get_mut(&message.stream()) {
                Some(taken) => (&mut taken.messages, &mut taken.readers),
                None => (&mut self.others, &mut *others),
            };
            queue.push_back(message);
            readers.take().into_wakers(wakers);
        }
        overrun
    }

    /// Drops the unread messages of a stream. Returns their number.
    pub(super) fn discard(&mut self, stream: StreamId) -> usize {
        let own = self.taken.get_mut(&stream).map(|taken| std::mem::take(&mut taken.messages)).unwrap_or_default();
        let others = std::mem::take(&mut self.others).into_iter();
        let (dropped, others): (VecDeque<_>, VecDeque<_>) = others.partition(|message| message.stream() == stream);
        self.others = others;
        self.bytes -= own.iter().chain(&dropped).map(cost_bytes).sum::<usize>();
        self.by_stream.remove(&stream);
        own.len() + dropped.len()
    }

    pub(super) fn next(&mut self, source: Source) -> Option<ReceivedMessage> {
        let message = match source {
            Source::Others => self.others.pop_front(),
            Source::Stream(stream) => self.taken.get_mut(&stream)?.messages.pop_front(),
        }?;
        self.bytes -= cost_bytes(&message);
        if let Some(bytes) = self.by_stream.get_mut(&message.stream()) {
            *bytes -= cost_bytes(&message);
            if *bytes == 0 {
                self.by_stream.remove(&message.stream());
            }
        }
        Some(message)
    }

    pub(super) fn readers(&mut self, stream: StreamId) -> Option<&mut Waiters> {
        self.taken.get_mut(&stream).map(|taken| &mut taken.readers)
    }

    /// The association has ended: wakes all waiters.
    pub(super) fn end(&mut self, wakers: &mut Vec<Waker>) {
        self.taken.values_mut().for_each(|taken| taken.readers.take().into_wakers(wakers));
    }
}

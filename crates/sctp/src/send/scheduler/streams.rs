//! The schedulers that tell streams apart (RFC 8260 §3.2 to §3.6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Piece, Unsent, line};
use crate::config::StreamScheduler;
use crate::outstanding::MessageSlot;
use crate::wire::StreamId;

/// The share of a byte that a stream of weight 1 is charged, so that the largest weight is charged something too.
const SHARES: u64 = 1 << 16;

/// Rank of a stream; the lowest is served first. By priority or bytes charged, then by the time of its last turn.
type Rank = (u64, u64);

/// One queue per stream that has something to send, and the order of their turns.
#[derive(Debug)]
pub(in crate::send) struct Streams {
    kind: StreamScheduler,
    lanes: BTreeMap<StreamId, Lane>,
    /// Streams with a queue whose next piece may be sent. Each stream is here or in `held_back`, once.
    turns: BTreeSet<(Rank, StreamId)>,
    /// Streams whose next message is longer than a chunk and has not begun. Only the first of them may begin it.
    held_back: BTreeSet<(Rank, StreamId)>,
    /// Priorities or weights, of streams for which one was set.
    values: BTreeMap<StreamId, u16>,
    /// Counts the turns.
    turn: u64,
    /// The charge of the stream that was served last; a stream that joins starts with it.
    charged: u64,
    /// What streams that have nothing to send were charged beyond that.
    left: BTreeMap<StreamId, u64>,
    /// The stream that keeps its turn regardless of its rank: it is in the middle of a message or of a packet.
    holder: Option<StreamId>,
    in_message: bool,
    /// Bytes of the messages that have begun to leave and have not left whole.
    begun_bytes: usize,
    bounds: Bounds,
}

/// Keeps the peer from holding the beginnings of more messages than it has room for, so that none could be completed.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Messages up to this many bytes are sent whole.
    chunk_bytes: usize,
    /// Longer ones begin in their order, as long as the total of those that have begun does not exceed this.
    begun_bytes_max: usize,
}

#[derive(Debug)]
struct Lane {
    queue: VecDeque<Unsent>,
    rank: Rank,
    /// Bytes of the first message, if it is partly sent.
    begun_bytes: usize,
    /// Messages in the queue.
    messages: usize,
    /// The stream is among those held back.
    is_held_back: bool,
}

impl Streams {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        Self {
            kind,
            lanes: BTreeMap::new(),
            turns: BTreeSet::new(),
            held_back: BTreeSet::new(),
            values: BTreeMap::new(),
            turn: 0,
            charged: 0,
            left: BTreeMap::new(),
            holder: None,
            in_message: false,
            begun_bytes: 0,
            bounds: Bounds { chunk_bytes: 0, begun_bytes_max: usize::MAX },
        }
    }

    /// Limits the total length of partly sent messages to `begun_bytes_max`, except for a single one.
    pub(super) fn bound(&mut self, chunk_bytes: usize, begun_bytes_max: usize) {
        self.bounds = Bounds { chunk_bytes, begun_bytes_max };
        let streams: Vec<_> = self.lanes.keys().copied().collect();
        for stream in streams {
            self.move_turn(stream, |_| {});
        }
    }

    /// Changes a stream's rank, or applies a change of its first message.
    fn move_turn(&mut self, stream: StreamId, change: impl FnOnce(&mut Rank)) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        let sets = [&mut self.turns, &mut self.held_back];
        let [turns, held_back] = sets;
        if lane.is_held_back {
            held_back.remove(&(lane.rank, stream))
        } else {
            turns.remove(&(lane.rank, stream))
        };
        change(&mut lane.rank);
        let bytes = lane.queue.front().map_or(0, |unsent| unsent.rest.len());
        lane.is_held_back = lane.begun_bytes == 0 && bytes > self.bounds.chunk_bytes;
        if lane.is_held_back {
            held_back.insert((lane.rank, stream))
        } else {
            turns.insert((lane.rank, stream))
        };
    }

    /// Sets a stream's priority or weight.
    pub(super) fn set_value(&mut self, stream: StreamId, value: u16) {
        self.values.insert(stream, value);
        if self.kind == StreamScheduler::Priority {
            self.move_turn(stream, |rank| rank.0 = value.into());
        }
    }

    pub(super) fn push(&mut self, stream: StreamId, message: Unsent) {
        if let Some(lane) = self.lanes.get_mut(&stream) {
            lane.messages += 1;
            return lane.queue.push_back(message);
        }
        self.turn += 1;
        let first = match self.kind {
            StreamScheduler::Priority => self.values.get(&stream).copied().unwrap_or_default().into(),
            StreamScheduler::FairCapacity | StreamScheduler::WeightedFairQueueing => {
                self.charged.max(self.left.remove(&stream).unwrap_or_default())
            }
            _ => 0,
        };
        let rank = (first, self.turn);
        let queue = VecDeque::from([message]);
        self.lanes.insert(stream, Lane { queue, rank, begun_bytes: 0, messages: 1, is_held_back: false });
        self.move_turn(stream, |_| {});
    }

    /// The stream whose turn it is.
    fn current(&self) -> Option<StreamId> {
        let holder = self.holder.filter(|&stream| self.in_message || self.may_have_turn(stream));
        let first_of = |streams: &BTreeSet<(Rank, StreamId)>| streams.first().copied();
        let first = || {
            let next_to_begin = first_of(&self.held_back).filter(|&(_, stream)| self.may_begin(stream));
            let ready = first_of(&self.turns);
            ready.into_iter().chain(next_to_begin).min().map(|(_, stream)| stream)
        };
        holder.or_else(first)
    }

    /// Returns whether the next message of the stream may begin, if it has not begun. Some stream always may.
    fn may_have_turn(&self, stream: StreamId) -> bool {
        self.lanes.get(&stream).is_some_and(|lane| !lane.is_held_back) || self.may_begin(stream)
    }

    /// As [`may_have_turn`](Self::may_have_turn), for a stream that is held back.
    fn may_begin(&self, stream: StreamId) -> bool {
        let Some(lane) = self.lanes.get(&stream) else { return false };
        let bytes = lane.queue.front().map_or(0, |unsent| unsent.rest.len());
        self.begun_bytes == 0 || self.begun_bytes.saturating_add(bytes) <= self.bounds.begun_bytes_max
    }

    pub(super) fn front(&self) -> Option<&Unsent> {
        self.queue(self.current()?)?.front()
    }

    pub(super) fn queue(&self, stream: StreamId) -> Option<&VecDeque<Unsent>> {
        self.lanes.get(&stream).map(|lane| &lane.queue)
    }

    /// Puts a message in the place of one that waits as a whole. Returns that one.
    pub(super) fn replace(
        &mut self,
        stream: StreamId,
        message: MessageSlot,
        newer: Unsent,
        key: impl Fn(MessageSlot) -> u32,
    ) -> Option<Unsent> {
        let queue = &mut self.lanes.get_mut(&stream)?.queue;
        let place = line::find(queue, message, key)?;
        let older = std::mem::replace(queue.get_mut(place)?, newer);
        if place == 0 {
            self.move_turn(stream, |_| {});
        }
        Some(older)
    }

    /// The next `bytes` of the message in front leave.
    pub(super) fn take(&mut self, bytes: usize, interleaves: bool) -> Option<Piece> {
        let stream = self.current()?;
        let lane = self.lanes.get_mut(&stream)?;
        let front = lane.queue.front_mut()?;
        let rest = front.rest.len();
        if bytes < rest {
            if lane.begun_bytes == 0 {
                lane.begun_bytes = rest;
                self.begun_bytes += rest;
            }
            let piece = front.cut(bytes);
            self.served(stream, bytes, interleaves);
            return Some(piece);
        }
        self.served(stream, rest, true);
        self.take_first(stream).map(Unsent::into_last_piece)
    }

    /// The stream has had a part of its turn, or all of it if the next piece may be another stream's (`passes`).
    fn served(&mut self, stream: StreamId, bytes: usize, passes: bool) {
        let cost = SHARES * bytes as u64 / self.weight(stream);
        self.in_message = !passes;
        let keeps_packet = self.kind == StreamScheduler::RoundRobinPerPacket;
        self.holder = (!passes || keeps_packet).then_some(stream);
        let is_charged = matches!(self.kind, StreamScheduler::FairCapacity | StreamScheduler::WeightedFairQueueing);
        if is_charged && let Some(lane) = self.lanes.get(&stream) {
            self.charged = lane.rank.0;
        }
        if passes && !keeps_packet {
            self.turn += 1;
        }
        let turn = self.turn;
        self.move_turn(stream, |rank| {
            rank.0 += if is_charged { cost } else { 0 };
            rank.1 = if passes && !keeps_packet { turn } else { rank.1 };
        });
    }

    /// A packet is complete: with round robin by packets the turn passes on.
    pub(super) fn packet_left(&mut self) {
        if self.kind == StreamScheduler::RoundRobinPerPacket
            && !self.in_message
            && let Some(stream) = self.holder.take()
        {
            self.turn += 1;
            let turn = self.turn;
            self.move_turn(stream, |rank| rank.1 = turn);
        }
    }

    fn weight(&self, stream: StreamId) -> u64 {
        match self.kind {
            StreamScheduler::WeightedFairQueueing => self.values.get(&stream).copied().unwrap_or(1).max(1).into(),
            _ => 1,
        }
    }

    /// The message in front leaves its queue.
    pub(super) fn pop(&mut self) -> Option<Unsent> {
        let stream = self.current()?;
        self.take_first(stream)
    }

    /// Takes a message out of the queue of its stream. The turns of the others stay as they are.
    pub(super) fn remove(
        &mut self,
        stream: StreamId,
        message: MessageSlot,
        key: impl Fn(MessageSlot) -> u32,
    ) -> Option<Unsent> {
        let lane = self.lanes.get_mut(&stream)?;
        let place = line::find(&lane.queue, message, &key)?;
        if place == 0 {
            return self.take_first(stream);
        }
        lane.messages -= 1;
        line::take_out(&mut lane.queue, place, key(message), lane.messages)
    }

    /// Takes the first message of a stream out.
    fn take_first(&mut self, stream: StreamId) -> Option<Unsent> {
        let lane = self.lanes.get_mut(&stream)?;
        let message = lane.queue.pop_front()?;
        lane.messages -= 1;
        line::trim(&mut lane.queue);
        if message.has_tsn() {
            self.begun_bytes -= std::mem::take(&mut lane.begun_bytes);
        }
        let is_empty = lane.queue.is_empty();
        if message.has_tsn() && self.holder == Some(stream) && self.in_message {
            self.in_message = false;
            self.holder = None;
        }
        self.move_turn(stream, |_| {});
        if is_empty && let Some(Lane { rank, .. }) = self.lanes.remove(&stream) {
            self.turns.remove(&(rank, stream));
            let (charged, _) = rank;
            if self.lanes.is_empty() {
                self.left.clear();
            } else if charged > self.charged {
                self.left.insert(stream, charged);
            }
            self.holder = self.holder.filter(|&holder| holder != stream);
        }
        Some(message)
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &VecDeque<Unsent>> {
        self.lanes.values().map(|lane| &lane.queue)
    }
}

//! The schedulers that tell streams apart (RFC 8260 §3.2 to §3.6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Piece, Unsent};
use crate::config::StreamScheduler;
use crate::outstanding::MessageSlot;
use crate::wire::StreamId;

/// The share of a byte that a stream of weight 1 is charged, so that the largest weight is charged something too.
const SHARES: u64 = 1 << 16;

/// Where a stream stands: the lowest is in front. By priority or by what it was charged, then by when it had its last turn.
type Rank = (u64, u64);

/// One queue per stream that has something to send, and the order of their turns.
#[derive(Debug)]
pub(in crate::send) struct Streams {
    kind: StreamScheduler,
    lanes: BTreeMap<StreamId, Lane>,
    /// Each stream with a queue once.
    turns: BTreeSet<(Rank, StreamId)>,
    /// Priorities or weights, of streams for which one was set.
    values: BTreeMap<StreamId, u16>,
    /// Counts the turns.
    turn: u64,
    /// What the stream that was served last had been charged: one that joins begins there.
    charged: u64,
    /// What streams that have nothing to send were charged beyond that.
    left: BTreeMap<StreamId, u64>,
    /// The stream that keeps its turn whatever its rank: it is in the midst of a message, or of a packet.
    holder: Option<StreamId>,
    in_message: bool,
    /// Bytes of the messages that have begun to leave and have not left whole.
    begun_bytes: usize,
    bounds: Bounds,
}

/// What keeps the peer from holding the beginnings of more messages than it has room for: then none could become whole.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// A message of so many bytes leaves whole at once.
    chunk_bytes: usize,
    /// Longer ones begin as long as all that have begun are not longer together.
    begun_bytes_max: usize,
}

#[derive(Debug)]
struct Lane {
    queue: VecDeque<Unsent>,
    rank: Rank,
    /// Bytes of the first message, if it has begun to leave.
    begun_bytes: usize,
}

impl Streams {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        Self {
            kind,
            lanes: BTreeMap::new(),
            turns: BTreeSet::new(),
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

    /// Bounds what messages in several pieces may begin together to `begun_bytes_max`, but for a single one.
    pub(super) fn bound(&mut self, chunk_bytes: usize, begun_bytes_max: usize) {
        self.bounds = Bounds { chunk_bytes, begun_bytes_max };
    }

    /// Sets a stream's priority or weight.
    pub(super) fn set_value(&mut self, stream: StreamId, value: u16) {
        self.values.insert(stream, value);
        if self.kind == StreamScheduler::Priority
            && let Some(lane) = self.lanes.get_mut(&stream)
        {
            self.turns.remove(&(lane.rank, stream));
            lane.rank.0 = value.into();
            self.turns.insert((lane.rank, stream));
        }
    }

    pub(super) fn push(&mut self, stream: StreamId, message: Unsent) {
        if let Some(lane) = self.lanes.get_mut(&stream) {
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
        self.turns.insert((rank, stream));
        self.lanes.insert(stream, Lane { queue: VecDeque::from([message]), rank, begun_bytes: 0 });
    }

    /// The stream whose turn it is.
    fn current(&self) -> Option<StreamId> {
        let holder = self.holder.filter(|&stream| self.in_message || self.may_have_turn(stream));
        holder.or_else(|| self.turns.iter().map(|&(_, stream)| stream).find(|&stream| self.may_have_turn(stream)))
    }

    /// Returns whether the next message of the stream may begin, if it has not begun. Some stream always may.
    fn may_have_turn(&self, stream: StreamId) -> bool {
        let Some(lane) = self.lanes.get(&stream) else { return false };
        let bytes = lane.queue.front().map_or(0, |unsent| unsent.rest.len());
        lane.begun_bytes > 0
            || self.begun_bytes == 0
            || bytes <= self.bounds.chunk_bytes
            || self.begun_bytes.saturating_add(bytes) <= self.bounds.begun_bytes_max
    }

    pub(super) fn front(&self) -> Option<&Unsent> {
        self.queue(self.current()?)?.front()
    }

    pub(super) fn queue(&self, stream: StreamId) -> Option<&VecDeque<Unsent>> {
        self.lanes.get(&stream).map(|lane| &lane.queue)
    }

    pub(super) fn queue_mut(&mut self, stream: StreamId) -> Option<&mut VecDeque<Unsent>> {
        self.lanes.get_mut(&stream).map(|lane| &mut lane.queue)
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
        self.take_out(stream, 0).map(Unsent::into_last_piece)
    }

    /// The stream has had a part of its turn, or all of it if the next piece may be another stream's (`passes`).
    fn served(&mut self, stream: StreamId, bytes: usize, passes: bool) {
        let cost = SHARES * bytes as u64 / self.weight(stream);
        self.in_message = !passes;
        let keeps_packet = self.kind == StreamScheduler::RoundRobinPerPacket;
        self.holder = (!passes || keeps_packet).then_some(stream);
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        self.turns.remove(&(lane.rank, stream));
        if matches!(self.kind, StreamScheduler::FairCapacity | StreamScheduler::WeightedFairQueueing) {
            self.charged = lane.rank.0;
            lane.rank.0 += cost;
        }
        if passes && !keeps_packet {
            self.turn += 1;
            lane.rank.1 = self.turn;
        }
        self.turns.insert((lane.rank, stream));
    }

    /// A packet is complete: with round robin by packets the turn passes on.
    pub(super) fn packet_left(&mut self) {
        if self.kind == StreamScheduler::RoundRobinPerPacket
            && !self.in_message
            && let Some(stream) = self.holder.take()
        {
            self.turn += 1;
            if let Some(lane) = self.lanes.get_mut(&stream) {
                self.turns.remove(&(lane.rank, stream));
                lane.rank.1 = self.turn;
                self.turns.insert((lane.rank, stream));
            }
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
        self.take_out(stream, 0)
    }

    /// Takes a message out of the queue of its stream. The turns of the others stay as they are.
    pub(super) fn remove(&mut self, stream: StreamId, message: MessageSlot) -> Option<Unsent> {
        let place = super::position(self.queue(stream)?, message)?;
        self.take_out(stream, place)
    }

    fn take_out(&mut self, stream: StreamId, place: usize) -> Option<Unsent> {
        let lane = self.lanes.get_mut(&stream)?;
        let message = lane.queue.remove(place)?;
        if message.has_tsn() {
            self.begun_bytes -= std::mem::take(&mut lane.begun_bytes);
        }
        if message.has_tsn() && self.holder == Some(stream) && self.in_message {
            self.in_message = false;
            self.holder = None;
        }
        if lane.queue.is_empty() {
            let (charged, _) = lane.rank;
            self.turns.remove(&(lane.rank, stream));
            self.lanes.remove(&stream);
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

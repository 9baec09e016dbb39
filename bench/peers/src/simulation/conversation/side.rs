//! One side of a conversation: the messages that it sends and has received.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::{Direction, FIRST_UNORDERED_STREAM, STREAMS};
use crate::peer::{Message, PartiallyReliable, Policy, SendError};
use crate::simulation::PPID_BINARY;

/// One message in this many is reliable, regardless of the policy.
const RELIABLE_EVERY: u32 = 4;
/// From one message to the next, but for bursts.
const PAUSE: Duration = Duration::from_millis(8);
/// Messages of a burst, and the interval between bursts.
const BURST_MESSAGES: u32 = 20;
const BURST_EVERY_MESSAGES: u32 = 40;
/// Lengths: one fragment or several.
const LARGE_EVERY: u32 = 7;
const LARGE_BYTES: usize = 4_000;
const USUAL_BYTES: usize = 60;

/// Messages with a guaranteed order among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Reliable,
    Replacing,
    Other,
}

/// A message that is still to be sent.
struct Next {
    number: u32,
    policy: Policy,
    stream: u16,
    len: usize,
    /// After the stage has begun.
    due: Duration,
}

pub(super) struct Side<P> {
    name: &'static str,
    pub(super) peer: P,
    unordered: bool,
    policies: Vec<Policy>,
    to_send: VecDeque<Next>,
    /// Messages made so far.
    made: u32,
    /// Messages of this side that were accepted, the stream and the length of each; reliable ones that have not arrived at the other.
    accepted: BTreeMap<u32, (u16, usize)>,
    awaited: BTreeSet<u32>,
    kinds: BTreeMap<u32, Kind>,
    /// Messages received from the other side.
    received: BTreeSet<u32>,
    /// The last number by stream and kind: a message that replaces another takes its place in the queue.
    last: BTreeMap<(u16, Kind), u32>,
}

fn payload(number: u32, len: usize) -> Bytes {
    let filler = (4..len).map(|index| (number as usize * 31 + index * 7).to_le_bytes()[0]);
    number.to_be_bytes().into_iter().chain(filler).collect()
}

impl<P: PartiallyReliable> Side<P> {
    pub(super) fn new(name: &'static str, peer: P, unordered: bool, policies: Vec<Policy>) -> Self {
        Side {
            name,
            peer,
            unordered,
            policies,
            to_send: VecDeque::new(),
            made: 0,
            accepted: BTreeMap::new(),
            awaited: BTreeSet::new(),
            kinds: BTreeMap::new(),
            received: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    fn make(&mut self, policy: Policy, stream: u16, due: Duration) {
        let number = self.made;
        self.made += 1;
        let kind = match policy {
            Policy::Reliable => Kind::Reliable,
            Policy::Replacing(_) => Kind::Replacing,
            _ => Kind::Other,
        };
        self.kinds.insert(number, kind);
        if kind == Kind::Reliable {
            self.awaited.insert(number);
        }
        let stream = stream + if self.unordered { FIRST_UNORDERED_STREAM } else { 0 };
        let policy = match policy {
            Policy::Lifetime(_) if !P::EXPIRES_BETWEEN_FRAGMENTS => Policy::Retransmissions(1),
            policy => policy,
        };
        let len = if number.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { USUAL_BYTES };
        self.to_send.push_back(Next { number, policy, stream, len, due });
    }

    /// One reliable message on each stream.
    pub(super) fn greet(&mut self) {
        for stream in 0..STREAMS {
            self.make(Policy::Reliable, stream, Duration::ZERO);
        }
    }

    pub(super) fn close(&mut self) {
        self.greet();
    }

    /// The messages with policies.
    pub(super) fn talk(&mut self, count: u32) {
        let mut due = Duration::ZERO;
        for index in 0..count {
            let policy = self.policies[index as usize % self.policies.len()];
            let stream = u16::try_from(index).unwrap_or(0) % STREAMS;
            // So that none stays on one stream.
            let is_reliable = (index + index / RELIABLE_EVERY).is_multiple_of(RELIABLE_EVERY);
            self.make(if is_reliable { Policy::Reliable } else { policy }, stream, due);
            if index % BURST_EVERY_MESSAGES >= BURST_MESSAGES {
                due += PAUSE;
            }
        }
    }

    /// Whether everything was sent, and every reliable message arrived.
    pub(super) fn has_settled(&self) -> bool {
        self.to_send.is_empty() && self.awaited.is_empty()
    }

    pub(super) fn exchange<Q>(
        &mut self,
        now: Duration,
        since: Duration,
        link: &mut Direction,
        other: &mut Side<Q>,
    ) -> Result<(), String> {
        while let Some(message) = self.peer.receive(now) {
            self.take(&message, other).map_err(|error| format!("at {}: {error}", self.name))?;
        }
        while self.peer.is_connected()
            && let Some(next) = self.to_send.front().filter(|next| since + next.due <= now)
        {
            let message = Message {
                stream: next.stream,
                ppid: PPID_BINARY,
                unordered: self.unordered,
                payload: payload(next.number, next.len),
            };
            match self.peer.send_with(now, &message, next.policy) {
                Ok(()) => {
                    self.accepted.insert(next.number, (next.stream, next.len));
                    self.to_send.pop_front();
                }
                Err(SendError::WouldBlock) => break,
                Err(error @ SendError::Refused(_)) => return Err(format!("{} cannot send: {error}", self.name)),
            }
        }
        while let Some(packet) = self.peer.poll_packet(now) {
            link.send(now, packet);
        }
        Ok(())
    }

    /// A message of the other side has arrived.
    fn take<Q>(&mut self, message: &Message, other: &mut Side<Q>) -> Result<(), String> {
        let number = message.payload.first_chunk().map(|number| u32::from_be_bytes(*number));
        let Some((number, &(stream, len))) = number.and_then(|number| Some((number, other.accepted.get(&number)?)))
        else {
            return Err(format!("received a message of {} bytes that was never sent", message.payload.len()));
        };
        if message.payload != payload(number, len) || message.stream != stream {
            return Err(format!("message {number} is damaged"));
        }
        if !self.received.insert(number) {
            return Err(format!("message {number} came twice"));
        }
        other.awaited.remove(&number);
        let last = self.last.insert((stream, other.kinds[&number]), number);
        match last.filter(|&last| !self.unordered && last > number) {
            Some(last) => Err(format!("stream {stream}: message {number} came after {last}")),
            None => Ok(()),
        }
    }

    /// When the stack, or the next message, is due.
    pub(super) fn deadline(&self, now: Duration, since: Duration) -> Option<Duration> {
        // One that is due already waits for the stack.
        let next = self.to_send.front().map(|next| since + next.due).filter(|&due| due > now);
        [self.peer.deadline(), next].into_iter().flatten().min()
    }

    pub(super) fn run_timers(&mut self, now: Duration) {
        if self.peer.deadline().is_some_and(|at| at <= now) {
            self.peer.handle_timeout(now);
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.accepted.len() as u64
    }

    pub(super) fn arrived(&self) -> u64 {
        self.received.len() as u64
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{}: {} still to send, {} reliable ones still to arrive, {} received, connected {} closed {} error {:?}",
            self.name,
            self.to_send.len(),
            self.awaited.len(),
            self.received.len(),
            self.peer.is_connected(),
            self.peer.is_closed(),
            self.peer.error()
        )
    }
}

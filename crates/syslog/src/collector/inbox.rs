//! Messages of all associations on their way to the writer, without sockets and threads.
//!
//! One association that is refused changes nothing for the others: everything taken before it is still committed.

use std::collections::BTreeMap;

use bytes::Bytes;
use festina_units::Duration;

use super::{Collector, Commit, Origin, Peer, RelayError};
use crate::record::Record;
use crate::wire::{Packet, WireError};

/// Why associations end when the disk fails.
const CANNOT_WRITE: &str = "the collector cannot write";

/// An association with a relay.
pub trait Link {
    /// Sends a message. Returns whether the transport has taken it.
    fn send(&self, message: Bytes) -> bool;

    /// Ends the association at once.
    fn abort(&self, reason: &str);
}

/// A decoded message.
pub struct Received {
    bytes: usize,
    packet: Result<Packet, WireError>,
}

impl Received {
    /// Decodes a message.
    pub fn new(message: Bytes) -> Self {
        Self { bytes: message.len(), packet: Packet::decode(message) }
    }
}

/// The result of [`Inbox::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whether the association continues.
    pub goes_on: bool,
    /// Why it was refused.
    pub refused: Option<RelayError>,
    /// Whether the writer sleeps and now has work.
    pub wakes_writer: bool,
}

/// All associations, and the messages that no commit has taken yet.
pub struct Inbox<L> {
    /// None while the disk fails.
    collector: Option<Collector>,
    links: BTreeMap<Peer, L>,
    /// The writer has found no work and waits to be woken.
    writer_sleeps: bool,
}

impl<L: Link + Clone> Inbox<L> {
    /// Creates an inbox without associations. Without a collector it takes nothing until it is [opened](Self::open).
    pub fn new(collector: Option<Collector>) -> Self {
        Self { collector, links: BTreeMap::new(), writer_sleeps: false }
    }

    /// Bytes of messages that wait for the next commit; `None` while the disk fails.
    pub fn waiting_bytes(&self) -> Option<usize> {
        self.collector.as_ref().map(Collector::taken_bytes)
    }

    /// Registers an association.
    pub fn begin(&mut self, peer: Peer, origin: Origin, link: L) {
        self.links.insert(peer, link);
        if let Some(collector) = &mut self.collector {
            collector.begin(peer, origin);
        }
    }

    /// Sets the time since any fixed moment.
    pub fn keep_time(&mut self, now: Duration) {
        if let Some(collector) = &mut self.collector {
            collector.keep_time(now);
        }
    }

    /// Forgets an association that has ended.
    pub fn end(&mut self, peer: Peer) {
        self.links.remove(&peer);
        if let Some(collector) = &mut self.collector {
            collector.gone(peer);
        }
    }

    /// Takes messages of an association, and passes new lines to `hold`. If a message is refused, the association is aborted.
    pub fn take(&mut self, peer: Peer, messages: Vec<Received>, mut hold: impl FnMut(&[Record])) -> Taken {
        let mut taken = Taken { goes_on: false, refused: None, wakes_writer: false };
        let Some(collector) = &mut self.collector else {
            // It was set up while the disk failed.
            self.links.remove(&peer).iter().for_each(|link| link.abort(CANNOT_WRITE));
            return taken;
        };
        // An association that was ended here may still have messages under way.
        let Some(link) = self.links.get(&peer) else { return taken };
        taken.goes_on = true;
        for Received { bytes, packet } in messages {
            match packet.map_err(Into::into).and_then(|packet| collector.take(peer, packet, bytes)) {
                Ok(records) => hold(&records),
                Err(error) => {
                    link.abort(&error.to_string());
                    collector.gone(peer);
                    self.links.remove(&peer);
                    (taken.goes_on, taken.refused) = (false, Some(error));
                    break;
                }
            }
        }
        // Asked of the state and not of what changed, so that no way out of the loop above can lose a wake-up.
        taken.wakes_writer = self.writer_sleeps && collector.has_work();
        self.writer_sleeps &= !taken.wakes_writer;
        taken
    }

    /// Takes everything that waits for a commit. After `None` the writer sleeps until [`Taken::wakes_writer`].
    pub fn next_commit(&mut self) -> Option<Commit> {
        let commit = self.collector.as_mut().filter(|collector| collector.has_work()).map(Collector::begin_commit);
        self.writer_sleeps = commit.is_none();
        commit
    }

    /// The associations that are still there, with their answers.
    pub fn links(&self, answers: Vec<(Peer, Bytes)>) -> Vec<(L, Bytes)> {
        let known = answers.into_iter().filter_map(|(peer, answer)| Some((self.links.get(&peer)?.clone(), answer)));
        known.collect()
    }

    /// Sends an answer. A relay that does not take it is disconnected, and gets it in the welcome of its next association.
    pub fn answer((link, answer): (L, Bytes)) {
        if !link.send(answer) {
            link.abort("the relay does not take answers");
        }
    }

    /// Drops the collector after a failed write. Returns all associations, which are to be [aborted](Self::abort_unwritten).
    pub fn close(&mut self) -> Vec<L> {
        self.collector = None;
        std::mem::take(&mut self.links).into_values().collect()
    }

    /// Aborts an association whose messages were not written.
    pub fn abort_unwritten(link: &L) {
        link.abort(CANNOT_WRITE);
    }

    /// Takes messages again.
    pub fn open(&mut self, collector: Collector) {
        self.collector = Some(collector);
    }

    /// Relays that are connected.
    pub fn relays(&self) -> u64 {
        self.collector.as_ref().map_or(0, |collector| collector.relays() as u64)
    }
}

//! Expected echoes, and those received.

use std::collections::{BTreeMap, BTreeSet};

use festina::{MessageId, ReceivedMessage};
use tokio::sync::watch;

use crate::case::payload;

/// The messages sent, and their echoes.
pub(crate) struct Echoes {
    ordered: bool,
    numbers: BTreeMap<MessageId, u32>,
    /// Reliable messages whose echo is still missing.
    awaited: BTreeSet<u32>,
    reliable: BTreeSet<u32>,
    returned: BTreeSet<u32>,
    /// Numbers abandoned before any part was sent.
    unsent: BTreeSet<u32>,
    pub(crate) abandoned: u64,
    /// The last number by stream, reliable messages apart: a message that replaces another takes its place in the queue.
    last: BTreeMap<(u16, bool), u32>,
    pub(crate) report: Option<String>,
    pub(crate) faults: Vec<String>,
    changed: watch::Sender<()>,
}

const FAULTS_MAX: usize = 5;
const HEADER_BYTES: usize = 8;

impl Echoes {
    pub(crate) fn new(ordered: bool) -> Self {
        Self {
            ordered,
            numbers: BTreeMap::new(),
            awaited: BTreeSet::new(),
            reliable: BTreeSet::new(),
            returned: BTreeSet::new(),
            unsent: BTreeSet::new(),
            abandoned: 0,
            last: BTreeMap::new(),
            report: None,
            faults: Vec::new(),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn fault(&mut self, what: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what.into());
        }
        self.changed.send_replace(());
    }

    /// To wait for the next change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Says, before a message leaves, that its echo is due if it is reliable.
    pub(crate) fn expect(&mut self, number: u32, reliable: bool) {
        if reliable {
            self.awaited.insert(number);
            self.reliable.insert(number);
        }
    }

    /// Says under which identity a message has left.
    pub(crate) fn sent(&mut self, id: MessageId, number: u32) {
        self.numbers.insert(id, number);
    }

    pub(crate) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    pub(crate) fn is_awaited(&self, number: u32) -> bool {
        self.awaited.contains(&number)
    }

    pub(crate) fn returned(&self) -> usize {
        self.returned.len()
    }

    pub(crate) fn reliable(&self) -> usize {
        self.reliable.len()
    }

    /// Records abandoned messages, which must not be reliable.
    pub(crate) fn abandon(&mut self, first: MessageId, last: MessageId, sent: bool) {
        for id in (first.0..=last.0).map(MessageId) {
            self.abandoned += 1;
            // A message may be abandoned before its sender knows its identity; then it is unknown here.
            let Some(&number) = self.numbers.get(&id) else { continue };
            if self.reliable.contains(&number) {
                self.fault(format!("reliable message {number} was abandoned"));
            }
            if !sent && !self.unsent.insert(number) {
                self.fault(format!("message {number} was abandoned twice"));
            }
            if !sent && self.returned.contains(&number) {
                self.fault(format!("message {number} came back and was then abandoned unsent"));
            }
        }
    }

    pub(crate) fn take(&mut self, echo: &ReceivedMessage) {
        let Some((header, _)) = echo.payload().split_first_chunk::<HEADER_BYTES>() else {
            return self.fault(format!("an echo of {} bytes", echo.payload().len()));
        };
        let &[wish, policy, high, low, ref number @ ..] = header;
        let number = u32::from_be_bytes(*number);
        if wish == b'?' {
            self.report = Some(String::from_utf8_lossy(&echo.payload()[HEADER_BYTES..]).into_owned());
            self.changed.send_replace(());
            return;
        }
        if payload(wish, policy, u16::from_be_bytes([high, low]), number, echo.payload().len()) != *echo.payload() {
            self.fault(format!("the echo of message {number} is damaged"));
        }
        if !self.returned.insert(number) {
            self.fault(format!("message {number} came back twice"));
        }
        if self.unsent.contains(&number) {
            self.fault(format!("message {number} came back after it was abandoned unsent"));
        }
        if self.ordered == echo.is_unordered() {
            self.fault(format!("message {number} came back in the wrong mode"));
        }
        let reliable = self.reliable.contains(&number);
        let last = self.last.insert((echo.stream().0, reliable), number);
        if self.ordered && last.is_some_and(|last| last > number) {
            self.fault(format!("stream {}: message {number} came after {}", echo.stream().0, last.unwrap_or_default()));
        }
        self.awaited.remove(&number);
        self.changed.send_replace(());
    }
}

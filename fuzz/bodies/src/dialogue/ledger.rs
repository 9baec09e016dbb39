//! Sent and received messages of both hosts: each arrives exactly once, whole, in order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use festina_sctp::{Message, ReceivedMessage};

/// The header of a message has its session and number.
pub(crate) const HEADER_BYTES: usize = 5;
/// Sessions that a header can name.
const SESSIONS_MAX: usize = 255;

/// The time between two restarts of a pair, on one side.
pub(crate) type SessionId = usize;

/// A message as it was sent.
struct Sent {
    bytes: usize,
    stream: u16,
    /// It is delivered after all messages sent before it on its stream: it is ordered and replaced none in the queue.
    in_turn: bool,
    unordered: bool,
    /// Whether it must arrive.
    reliable: bool,
    /// It was reported as delivered.
    confirmed: bool,
    arrived: bool,
}

#[derive(Default)]
struct Session {
    sent: Vec<Sent>,
    /// One side lost its state, or the session did not end by a shutdown, so messages may be missing.
    torn: bool,
}

/// All messages sent.
#[derive(Default)]
pub(crate) struct Ledger {
    sessions: Vec<Session>,
    arrived: BTreeSet<(SessionId, SessionId, usize)>,
    last_of_stream: BTreeMap<(SessionId, SessionId, u16), usize>,
    messages: usize,
    bytes: usize,
    /// Messages may come from an attacker.
    forged: bool,
}

fn payload(session: SessionId, number: usize, bytes: usize) -> impl Iterator<Item = u8> {
    let header = [session as u8, (number >> 24) as u8, (number >> 16) as u8, (number >> 8) as u8, number as u8];
    header.into_iter().chain((0..).map(move |place: usize| (place ^ number) as u8)).take(bytes)
}

impl Ledger {
    pub(crate) fn has_room(&self) -> bool {
        self.sessions.len() < SESSIONS_MAX
    }

    pub(crate) fn open(&mut self) -> SessionId {
        self.sessions.push(Session::default());
        self.sessions.len() - 1
    }

    /// Returns the bytes of the next message.
    pub(crate) fn next_payload(&self, session: SessionId, bytes: usize) -> Bytes {
        payload(session, self.sessions[session].sent.len(), bytes.max(HEADER_BYTES)).collect::<Vec<u8>>().into()
    }

    /// The next message was accepted.
    pub(crate) fn accepted(&mut self, session: SessionId, message: &Message) {
        let bytes = message.payload().len();
        let reliable = message.lifetime().is_none()
            && message.deadline().is_none()
            && message.max_retransmissions().is_none()
            && message.priority().is_none()
            && message.key().is_none();
        let (stream, unordered) = (message.stream().0, message.is_unordered());
        let in_turn = !unordered && message.key().is_none();
        self.messages += 1;
        self.bytes += bytes;
        let (confirmed, arrived) = (false, false);
        self.sessions[session].sent.push(Sent { bytes, stream, in_turn, unordered, reliable, confirmed, arrived });
    }

    /// Messages of the session may be missing from now on.
    pub(crate) fn tear(&mut self, session: SessionId) {
        self.sessions[session].torn = true;
    }

    /// The message will not arrive, which is correct.
    pub(crate) fn excuse(&mut self, session: SessionId, number: usize) {
        if let Some(sent) = self.sessions[session].sent.get_mut(number) {
            sent.reliable = false;
        }
    }

    /// The message was reported as delivered.
    pub(crate) fn confirm(&mut self, session: SessionId, number: usize) {
        self.sessions[session].sent[number].confirmed = true;
    }

    /// From now on messages may come from an attacker, so nothing is checked.
    pub(crate) fn distrust(&mut self) {
        self.forged = true;
    }

    /// A message was read.
    pub(crate) fn read(&mut self, reader: SessionId, message: &ReceivedMessage) {
        if self.forged {
            return;
        }
        let bytes = message.payload();
        assert!(bytes.len() >= HEADER_BYTES, "a message that was never sent");
        let session = SessionId::from(bytes[0]);
        let number = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
        let sent = &mut self.sessions[session].sent[number];
        assert!(bytes.iter().copied().eq(payload(session, number, sent.bytes)), "message {number} is damaged");
        assert_eq!((message.stream().0, message.is_unordered()), (sent.stream, sent.unordered));
        sent.arrived = true;
        assert!(self.arrived.insert((reader, session, number)), "message {number} of session {session} came twice");
        if sent.in_turn {
            let last = self.last_of_stream.insert((reader, session, message.stream().0), number);
            assert!(last.is_none_or(|last| last < number), "message {number} came after {last:?}");
        }
    }

    /// Checks that every message that had to arrive has arrived.
    pub(crate) fn check_complete(&self, session: SessionId) {
        let Session { sent, torn } = &self.sessions[session];
        if !torn && !self.forged {
            let missing: Vec<usize> =
                (0..sent.len()).filter(|&number| sent[number].reliable && !sent[number].arrived).collect();
            assert!(missing.is_empty(), "messages {missing:?} of session {session} never came");
        }
    }

    /// Checks that every message that was reported as delivered has been read. Call it when everything has been read.
    pub(crate) fn check_confirmed(&self) {
        for (session, Session { sent, .. }) in self.sessions.iter().enumerate().filter(|(_, session)| !session.torn) {
            let is_missing = |sent: &Sent| sent.confirmed && !sent.arrived;
            let missing = sent.iter().position(is_missing).filter(|_| !self.forged);
            assert_eq!(missing, None, "a message of session {session} was confirmed and never came");
        }
    }

    /// Checks that nothing that had to arrive is missing.
    pub(crate) fn check_all_complete(&self) {
        (0..self.sessions.len()).for_each(|session| self.check_complete(session));
    }

    /// Returns the numbers of messages and bytes sent.
    pub(crate) fn sent(&self) -> (usize, usize) {
        (self.messages, self.bytes)
    }
}

//! The ground truth: the logs of both sides of a connection, joined.
//!
//! A sender can only guess why an acknowledgement is missing. The simulator knows which packet arrived when, so it can
//! determine for each retransmission whether an earlier copy arrived, and for each message which copy delivered it.
//!
//! A *chunk* here is a unit of retransmission: a DATA chunk of SCTP, or that part of a TCP segment that ends one
//! message.

mod answers;
pub(crate) mod log;

use festina_sctp::RetransmissionCause;
use festina_units::{Duration, Instant};

use answers::Answers;
use log::{Log, Transmission};

/// The delivery of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRecord {
    /// Its number within the connection.
    pub sequence: u32,
    /// Payload bytes.
    pub bytes: usize,
    /// Time at which the application wanted to write it.
    pub due_at: Instant,
    /// Time at which the transport had taken all of it: later than `due_at` only while the send buffer was full.
    pub sent_at: Instant,
    /// Its lifetime; `None` means unlimited.
    pub lifetime: Option<Duration>,
    /// Time of the first transmission of the chunk that completed it: later than `sent_at` if it had to wait in the
    /// sender. Known only for delivered messages.
    pub left_at: Option<Instant>,
    /// Time at which all of it had arrived: earlier than `delivered_at` if it had to wait for an earlier message. Known
    /// only for delivered messages.
    pub arrived_at: Option<Instant>,
    /// Time of delivery to the receiving application.
    pub delivered_at: Option<Instant>,
    /// Which transmission of the chunk that completed it arrived first: 0 is the first transmission, 1 the first retransmission.
    pub delivered_by: Option<u32>,
}

impl MessageRecord {
    /// Returns the time from `sent_at` to `delivered_at`.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        self.delivered_at.map(|at| at.saturating_duration_since(self.sent_at))
    }
}

/// One retransmission of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetransmissionRecord {
    /// Which chunk, counted from the first of the connection: for SCTP its TSN less the first one, for TCP its message.
    pub chunk: u32,
    /// The message that it belongs to.
    pub sequence: u32,
    /// 1 for the chunk's first retransmission, 2 for the second, and so on.
    pub ordinal: u32,
    /// The sender's reason for the retransmission.
    pub cause: RetransmissionCause,
    /// Time of the chunk's first transmission.
    pub first_sent_at: Instant,
    /// Time of the previous transmission.
    pub previous_sent_at: Instant,
    /// Time of this transmission.
    pub at: Instant,
    /// Time of its arrival, if it arrived.
    pub arrived_at: Option<Instant>,
    /// Whether it was needed.
    pub necessity: Necessity,
}

impl RetransmissionRecord {
    /// Returns whether an earlier copy arrived, before or after this one, so that this one was unnecessary.
    #[must_use]
    pub fn is_spurious(&self) -> bool {
        self.necessity != Necessity::Needed
    }
}

/// Whether a retransmission was needed, judged by the fate of the earlier copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Necessity {
    /// No earlier copy arrived by the end of the simulation.
    Needed,
    /// An earlier copy was still in transit, and arrived later.
    EarlierCopyUnderWay,
    /// An earlier copy had arrived.
    EarlierCopyArrived,
    /// An earlier copy had arrived and was acknowledged early enough, but all acknowledgements sent from then on were
    /// lost or late: the sender could not know better.
    AcknowledgementLost,
}

/// One round-trip time measured by a sender, and the resulting estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttRecord {
    /// Arrival time of the acknowledgement.
    pub at: Instant,
    /// The measurement: too large if the acknowledgement was delayed or answers a later copy.
    pub sample: Duration,
    /// SRTT, this sample included.
    pub srtt: Duration,
    /// The resulting retransmission timeout.
    pub rto: Duration,
}

/// The history of one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// Its messages, in the order in which they were written.
    pub messages: Vec<MessageRecord>,
    /// Number of chunks sent for the first time.
    pub first_transmissions: u64,
    /// Retransmissions, in the order in which they were sent.
    pub retransmissions: Vec<RetransmissionRecord>,
    /// Copies of chunks that arrived after another copy of the same chunk (copies made by a link not counted).
    pub duplicates_arrived: u64,
}

/// Joins the logs of the sender and the receiver. `delivered` lists the messages delivered to the receiving
/// application.
pub(crate) fn join(sent: &Log, received: &Log, delivered: &[(u32, Instant)]) -> Truth {
    let arrivals = arrivals_by_serial(received);
    let mut chunks = Chunks { answers: Answers::of(sent, received), chunks: Vec::new(), duplicates_arrived: 0 };
    let mut truth = Truth::default();
    for transmission in &sent.transmissions {
        let arrived_at = usize::try_from(transmission.serial).ok().and_then(|serial| *arrivals.get(serial)?);
        match chunks.add(transmission, arrived_at) {
            Some(retransmission) => truth.retransmissions.push(retransmission),
            None => truth.first_transmissions += 1,
        }
    }
    truth.messages = message_records(sent, delivered, &chunks);
    truth.duplicates_arrived = chunks.duplicates_arrived;
    truth
}

/// Returns when each packet of the sender first arrived.
fn arrivals_by_serial(received: &Log) -> Vec<Option<Instant>> {
    let mut arrivals = Vec::new();
    for &(serial, at) in &received.arrivals {
        let Ok(index) = usize::try_from(serial) else { continue };
        if arrivals.len() <= index {
            arrivals.resize(index + 1, None);
        }
        arrivals[index].get_or_insert(at);
    }
    arrivals
}

/// The chunks of a connection, each with the state of the copies processed so far.
struct Chunks {
    answers: Answers,
    chunks: Vec<ChunkHistory>,
    duplicates_arrived: u64,
}

struct ChunkHistory {
    sequence: u32,
    first_sent_at: Instant,
    latest_sent_at: Instant,
    copies: u32,
    /// The copy that arrived first: its time and number.
    earliest: Option<(Instant, u32)>,
}

impl Chunks {
    /// Adds the next transmission, and returns its record if it was a retransmission.
    fn add(&mut self, copy: &Transmission, arrived_at: Option<Instant>) -> Option<RetransmissionRecord> {
        let index = usize::try_from(copy.chunk).ok()?;
        let Some(history) = self.chunks.get_mut(index) else {
            // Chunks are numbered as they leave, so the first copies come in this order.
            self.chunks.push(ChunkHistory {
                sequence: copy.sequence,
                first_sent_at: copy.at,
                latest_sent_at: copy.at,
                copies: 1,
                earliest: arrived_at.map(|at| (at, 0)),
            });
            return None;
        };
        let ordinal = history.copies;
        let necessity = match history.earliest {
            None => Necessity::Needed,
            Some((at, _)) if self.answers.were_lost(at, copy.at) => Necessity::AcknowledgementLost,
            Some((at, _)) if at <= copy.at => Necessity::EarlierCopyArrived,
            Some(_) => Necessity::EarlierCopyUnderWay,
        };
        let record = RetransmissionRecord {
            chunk: copy.chunk,
            sequence: copy.sequence,
            ordinal,
            cause: copy.cause?,
            first_sent_at: history.first_sent_at,
            previous_sent_at: history.latest_sent_at,
            at: copy.at,
            arrived_at,
            necessity,
        };
        history.copies += 1;
        history.latest_sent_at = copy.at;
        if let Some(at) = arrived_at {
            self.duplicates_arrived += u64::from(history.earliest.is_some());
            let earliest = history.earliest.get_or_insert((at, ordinal));
            *earliest = (*earliest).min((at, ordinal));
        }
        Some(record)
    }
}

fn message_records(sent: &Log, delivered: &[(u32, Instant)], chunks: &Chunks) -> Vec<MessageRecord> {
    let mut messages: Vec<MessageRecord> = (0..)
        .zip(&sent.written)
        .map(|(sequence, written)| MessageRecord {
            sequence,
            bytes: written.bytes,
            due_at: written.due_at,
            sent_at: written.sent_at,
            lifetime: written.lifetime,
            left_at: None,
            arrived_at: None,
            delivered_at: None,
            delivered_by: None,
        })
        .collect();
    for &(sequence, at) in delivered {
        if let Some(message) = messages.get_mut(sequence as usize) {
            message.delivered_at.get_or_insert(at);
        }
    }
    for chunk in &chunks.chunks {
        if let Some((at, ordinal)) = chunk.earliest
            && let Some(message) = messages.get_mut(chunk.sequence as usize)
            && message.delivered_at.is_some()
            && message.arrived_at.is_none_or(|latest| at >= latest)
        {
            message.left_at = Some(chunk.first_sent_at);
            message.arrived_at = Some(at);
            message.delivered_by = Some(ordinal);
        }
    }
    messages
}

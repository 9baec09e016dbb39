//! Conversations of Festina with another stack in virtual time in which messages may be abandoned: every policy, with or without resets between their
//! parts.
//!
//! Each part begins and ends with one reliable message on each stream, both ways. Between them are the messages with policies; a quarter of them is
//! reliable too. After each part except the last, both sides reset all their streams, if the plan says so.

mod side;

use std::ops::Add;
use std::time::Duration;

use festina_netsim::LinkConfig;

use super::direction::Direction;
use crate::peer::{InReturn, PartiallyReliable, Peer, Policy};
use crate::stack::FestinaPeer;
use side::Side;

/// Virtual time after which a conversation counts as stuck.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Events after which it counts as busy without progress.
const EVENTS_MAX: u64 = 1_000_000;
/// Time for outstanding messages to arrive after a part.
const REST: Duration = Duration::from_secs(90);
/// Parts of a conversation with resets between them.
const PARTS: u32 = 3;
/// Streams that carry messages.
const STREAMS: u16 = 4;
/// Unordered messages have streams of their own, from here on: some stacks fix the mode per stream.
const FIRST_UNORDERED_STREAM: u16 = 4;

/// What one conversation is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What both links do to packets.
    pub link: LinkConfig,
    /// Decides the packets' fate.
    pub seed: u64,
    /// Whether the messages are unordered.
    pub unordered: bool,
    /// Whether streams are reset between the parts.
    pub resets: bool,
    /// The policies of Festina's messages, in turn.
    pub policies: Vec<Policy>,
    /// The peer's policies.
    pub peer_policies: Vec<Policy>,
    /// Messages with policies in each part, from either side.
    pub messages: u32,
}

/// Counts of a conversation that satisfied all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that arrived, both directions.
    pub delivered: u64,
    /// Festina's abandoned messages: before any part was sent, and later.
    pub abandoned: [u64; 2],
    /// The peer's messages that did not arrive.
    pub missing: u64,
    /// FORWARD-TSN and I-FORWARD-TSN that Festina sent.
    pub forward_tsns: u64,
    /// Streams that were reset, in both directions.
    pub resets: u64,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Tally {
            delivered: self.delivered + other.delivered,
            abandoned: [0, 1].map(|at| self.abandoned[at] + other.abandoned[at]),
            missing: self.missing + other.missing,
            forward_tsns: self.forward_tsns + other.forward_tsns,
            resets: self.resets + other.resets,
        }
    }
}

/// The stage of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The reliable messages at the beginning of a part, from then on.
    Greeting(Duration),
    Middle(Duration),
    Closing,
    /// Outstanding messages may arrive until then.
    Resting(Duration),
    /// One side has asked to reset its streams: which side, and how many resets each had before.
    Resetting(Asker, [u64; 2]),
    /// The other side has, too.
    ResettingInReturn([u64; 2]),
    /// As `Resting`, before the next part.
    Pausing(Duration),
    Ending,
    Over,
}

/// Which side is the first to reset its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Festina,
    Peer,
}

/// Holds a conversation between Festina and a peer. Nothing is lost at its end, which [`run`](super::run) tests.
///
/// # Errors
/// The first failure: the association ended by itself or not gracefully; a message was wrong, missing, duplicated or out of order; streams were not
/// reset; Festina's counters do not add up; or the conversation did not end.
pub fn hold<P: PartiallyReliable>(festina: FestinaPeer, peer: P, plan: &Plan) -> Result<Tally, String> {
    let mut conversation = Conversation {
        to_peer: Direction::new(plan.link.clone(), plan.seed, "to the peer"),
        to_festina: Direction::new(plan.link.clone(), plan.seed, "to festina"),
        festina: Side::new("festina", festina, plan.unordered, plan.policies.clone()),
        peer: Side::new("the peer", peer, plan.unordered, plan.peer_policies.clone()),
        now: Duration::ZERO,
        events: 0,
        stage: Stage::Greeting(Duration::ZERO),
        parts: 0,
    };
    conversation.festina.greet();
    conversation.peer.greet();
    while conversation.stage != Stage::Over {
        conversation.exchange()?;
        if !conversation.advance(plan)? {
            conversation.wait()?;
        }
    }
    conversation.tally()
}

/// The streams that carry messages.
fn streams(plan: &Plan) -> Vec<u16> {
    let first = if plan.unordered { FIRST_UNORDERED_STREAM } else { 0 };
    (first..first + STREAMS).collect()
}

struct Conversation<P> {
    festina: Side<FestinaPeer>,
    peer: Side<P>,
    to_peer: Direction,
    to_festina: Direction,
    now: Duration,
    events: u64,
    stage: Stage,
    parts: u32,
}

impl<P: PartiallyReliable> Conversation<P> {
    /// Enters the next stage when this one is complete. Returns whether it did.
    fn advance(&mut self, plan: &Plan) -> Result<bool, String> {
        let is_quiet = self.festina.has_settled() && self.peer.has_settled();
        let next = match self.stage {
            Stage::Greeting(_) | Stage::Middle(_) | Stage::Closing if !is_quiet => return Ok(false),
            Stage::Greeting(_) => {
                self.festina.talk(plan.messages);
                self.peer.talk(plan.messages);
                Stage::Middle(self.now)
            }
            Stage::Middle(_) => {
                self.festina.close();
                self.peer.close();
                Stage::Closing
            }
            Stage::Closing => Stage::Resting(self.now + REST),
            Stage::Resting(until) if self.now < until => return Ok(false),
            Stage::Resting(_) => {
                self.parts += 1;
                self.after_part(plan)?
            }
            Stage::Resetting(asker, before) => {
                if !self.have_begun_anew(before, asker) {
                    return Ok(false);
                }
                match asker {
                    Asker::Festina if P::IN_RETURN == InReturn::Resets => {}
                    Asker::Festina => self.peer.peer.reset(self.now, &streams(plan))?,
                    Asker::Peer => self.festina.peer.reset(self.now, &streams(plan))?,
                }
                Stage::ResettingInReturn(before)
            }
            Stage::ResettingInReturn(before) => {
                if !self.have_begun_anew(before, Asker::Festina) || !self.have_begun_anew(before, Asker::Peer) {
                    return Ok(false);
                }
                Stage::Pausing(self.now + REST)
            }
            Stage::Pausing(until) if self.now < until => return Ok(false),
            Stage::Pausing(_) => {
                self.festina.greet();
                self.peer.greet();
                Stage::Greeting(self.now)
            }
            Stage::Ending if self.festina.peer.is_closed() && self.peer.peer.is_closed() => Stage::Over,
            Stage::Ending => return Ok(false),
            Stage::Over => return Ok(true),
        };
        self.stage = next;
        Ok(true)
    }

    /// Whether the streams on which that side sends have.
    fn have_begun_anew(&self, before: [u64; 2], whose: Asker) -> bool {
        let at = usize::from(whose == Asker::Peer);
        self.festina.peer.resets()[at] >= before[at] + u64::from(STREAMS)
    }

    fn after_part(&mut self, plan: &Plan) -> Result<Stage, String> {
        if plan.resets && self.parts < PARTS {
            let is_festinas_turn = (plan.seed + u64::from(self.parts)).is_multiple_of(2);
            let asker =
                if is_festinas_turn && P::IN_RETURN != InReturn::ResetsOnce { Asker::Festina } else { Asker::Peer };
            let before = self.festina.peer.resets();
            match asker {
                Asker::Festina => self.festina.peer.reset(self.now, &streams(plan))?,
                Asker::Peer => self.peer.peer.reset(self.now, &streams(plan))?,
            }
            return Ok(Stage::Resetting(asker, before));
        }
        self.to_peer.shelter();
        self.to_festina.shelter();
        self.festina.peer.shutdown(self.now);
        Ok(Stage::Ending)
    }

    /// Lets both sides send and receive until neither has anything to do at this moment.
    fn exchange(&mut self) -> Result<(), String> {
        let since = match self.stage {
            Stage::Greeting(since) | Stage::Middle(since) => since,
            _ => Duration::ZERO,
        };
        for _ in 0..2 {
            self.peer.exchange(self.now, since, &mut self.to_festina, &mut self.festina)?;
            self.festina.exchange(self.now, since, &mut self.to_peer, &mut self.peer)?;
        }
        let is_ending = self.stage == Stage::Ending;
        if !is_ending && (self.festina.peer.is_closed() || self.peer.peer.is_closed()) {
            return Err(self.complaint("the association ended by itself"));
        }
        match self.festina.peer.error() {
            Some(error) => Err(self.complaint(&error)),
            None => Ok(()),
        }
    }

    /// Lets time go by until the next thing happens.
    fn wait(&mut self) -> Result<(), String> {
        let resting = if let Stage::Resting(until) | Stage::Pausing(until) = self.stage { Some(until) } else { None };
        let since = if let Stage::Middle(since) = self.stage { since } else { self.now };
        let deadlines = [
            self.to_peer.deadline(),
            self.to_festina.deadline(),
            self.festina.deadline(self.now, since),
            self.peer.deadline(self.now, since),
            resting,
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            return Err(self.complaint("nothing is left to happen"));
        };
        self.now = self.now.max(next);
        self.events += 1;
        if self.now > TIME_MAX || self.events > EVENTS_MAX {
            return Err(self.complaint("stuck"));
        }
        while let Some(packet) = self.to_peer.poll_delivery(self.now) {
            self.peer.peer.handle_packet(self.now, packet);
        }
        while let Some(packet) = self.to_festina.poll_delivery(self.now) {
            self.festina.peer.handle_packet(self.now, packet);
        }
        self.festina.run_timers(self.now);
        self.peer.run_timers(self.now);
        Ok(())
    }

    fn tally(&self) -> Result<Tally, String> {
        if let Some(error) = self.festina.peer.error().or_else(|| self.peer.peer.error()) {
            return Err(self.complaint(&format!("the end was not graceful: {error}")));
        }
        let stats = self.festina.peer.stats().unwrap_or_default();
        let abandoned = stats.abandoned.total();
        if stats.sent.messages_acked + abandoned.unsent + abandoned.sent != stats.sent.messages {
            return Err(self.complaint(&format!("the counters do not add up: {:?} {abandoned:?}", stats.sent)));
        }
        Ok(Tally {
            delivered: self.festina.arrived() + self.peer.arrived(),
            abandoned: [abandoned.unsent, abandoned.sent],
            missing: self.peer.sent() - self.festina.arrived(),
            forward_tsns: stats.sent.forward_tsns,
            resets: self.festina.peer.resets().iter().sum(),
        })
    }

    fn complaint(&self, what: &str) -> String {
        format!(
            "{what} at {:?} in part {}, {:?}; {}; {}; resets {:?}",
            self.now,
            self.parts,
            self.stage,
            self.festina.describe(),
            self.peer.describe(),
            self.festina.peer.resets()
        )
    }
}

//! One scripted loss, and its figure.

use std::time::Duration;

use festina_models::record::{MessageRecord, RetransmissionRecord, Truth};
use festina_netsim::LossModel;
use festina_sctp::RetransmissionCause;
use festina_units::{ByteCount, Instant};

use crate::figure::{Figure, Happening, TimeSequence};
use crate::plan::Point;
use crate::scenario::fate;
use crate::scenario::{Sender, Stack, StreamRun, ThinStream, cause_name};

/// Which message is lost, counted from zero: by then the round-trip time is well known.
const LOST: u32 = 60;
/// How many messages before it the figure has.
const LEAD: u32 = 2;
/// For how long messages are written after the loss: longer than any profile needs to recover.
const AFTERMATH: Duration = Duration::from_secs(10);
/// How long the link loses all packets offered to it: less than any other duration of the scene.
const INSTANT: Duration = Duration::from_micros(100);

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The first transmission of one message.
    Message,
    /// Those of two messages in a row.
    Pair,
    /// That of a message, and the packet that repeats it first, with everything else sent at the same moment.
    Repair,
    /// That of the last message.
    Last,
    /// Those of two messages in a row, and what the receiver answers to the packet that repeats the first of them.
    Answer,
}

impl Loss {
    /// What a point chooses.
    pub(super) fn of(point: &Point) -> Self {
        match point.choice("lost") {
            "pair" => Self::Pair,
            "repair" => Self::Repair,
            "last" => Self::Last,
            "answer" => Self::Answer,
            _ => Self::Message,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Message => "one message is lost",
            Self::Pair => "two messages in a row are lost",
            Self::Repair => "a message and its first repair are lost",
            Self::Last => "the last message is lost",
            Self::Answer => "two messages and the answer to their repair are lost",
        }
    }

    /// The last message whose first transmission is lost.
    fn last_lost(self) -> u32 {
        if matches!(self, Self::Pair | Self::Answer) { LOST + 1 } else { LOST }
    }
}

/// A thin stream and its losses.
pub(super) struct Scene {
    name: String,
    conditions: String,
    loss: Loss,
    lossless: ThinStream,
}

impl Scene {
    /// What a point describes.
    pub(super) fn of(point: &Point) -> Self {
        let [iat, rtt, sack_delay] = ["iat", "rtt", "sack_delay"].map(|name| point.duration(name));
        let loss = Loss::of(point);
        let after = if loss == Loss::Last { INSTANT } else { AFTERMATH };
        let stack = Stack::sctp(Sender::of(point).mechanisms(), sack_delay);
        let size: ByteCount = point.bytes("size");
        let value = |name| point.value(name).map_or_else(String::new, |value| value.to_string());
        Self {
            name: point.choice("sender").to_owned(),
            conditions: format!("a message of {size} every {}, RTT {}", value("iat"), value("rtt")),
            loss,
            lossless: ThinStream::periodic(stack, iat, size, iat * LOST + after, rtt),
        }
    }

    /// The stream with its losses. When a packet leaves is found by running the stream without its loss: up to that
    /// moment the runs are the same.
    pub(super) fn stream(&self, seed: u64) -> ThinStream {
        let messages = self.lossless.run(seed).record.truth().messages.clone();
        let lost = messages.iter().filter(|message| (LOST..=self.loss.last_lost()).contains(&message.sequence));
        let mut moments: Vec<Instant> = lost.filter_map(|message| message.left_at).collect();
        let mut stream = losing(&self.lossless, &moments);
        if !matches!(self.loss, Loss::Repair | Loss::Answer) {
            return stream;
        }
        let run = stream.run(seed);
        let repair = run.record.truth().retransmissions.iter().find(|resent| resent.sequence == LOST);
        if self.loss == Loss::Repair {
            moments.extend(repair.map(|resent| resent.at));
            return losing(&self.lossless, &moments);
        }
        stream.backward.loss = outages(repair.and_then(|resent| resent.arrived_at).as_slice());
        stream
    }

    /// The life of the messages around the loss; `None` if there was none to be lost.
    pub(super) fn figure(&self, seed: u64) -> Option<Figure> {
        let run: StreamRun = self.stream(seed).run(seed);
        let truth = run.record.truth();
        let lost = lost_message(truth)?;
        let first = truth.messages.iter().find(|message| message.sequence + LEAD == LOST)?;
        let latest = truth.messages.iter().max_by_key(|message| message.delay())?;
        let recovered = truth.messages.iter().filter(|message| message.sequence <= self.loss.last_lost());
        let recovered = recovered.chain([latest]).filter_map(|message| message.delivered_at).max()?;
        let until = recovered + 2 * self.lossless.forward.delay;
        let (number, delay_ms) = (latest.sequence + LEAD + 1 - LOST, latest.delay()?.as_secs_f64() * 1e3);
        let title = format!("{}: {}", self.name, self.loss.words());
        let subtitle = format!("{}; message {number} arrives {delay_ms:.0} ms after its write", self.conditions);
        let mut sequence = TimeSequence::new(&title, &subtitle, "message");
        let zero = lost.sent_at.saturating_duration_since(first.sent_at);
        sequence.count_from(zero, &format!("time since message {} was written", LEAD + 1));
        sequence.lasts_until(until.saturating_duration_since(first.sent_at));
        let mut drawing = Drawing { begins: first.sent_at, until, sequence };
        truth.messages.iter().for_each(|message| drawing.message(message));
        truth.retransmissions.iter().for_each(|resent| drawing.resent(resent));
        Some(drawing.sequence.figure())
    }
}

/// The stream over a path that loses all packets offered to it at these moments.
fn losing(stream: &ThinStream, moments: &[Instant]) -> ThinStream {
    let mut stream = stream.clone();
    stream.forward.loss = outages(moments);
    stream
}

fn outages(moments: &[Instant]) -> LossModel {
    LossModel::Outages(moments.iter().map(|&at| at..at + INSTANT).collect())
}

/// The message that is lost, the first if there are two.
fn lost_message(truth: &Truth) -> Option<&MessageRecord> {
    truth.messages.iter().find(|message| message.sequence == LOST)
}

/// A figure that has messages from [`LEAD`] before the loss on, numbered from one, and time from the first one's write on.
struct Drawing {
    begins: Instant,
    until: Instant,
    sequence: TimeSequence,
}

impl Drawing {
    /// Where something lies, if it is in the figure at all.
    fn place(&self, at: Instant, message: u32) -> Option<(Duration, u64)> {
        let number = (message + LEAD + 1).checked_sub(LOST).filter(|number| *number > 0)?;
        (at <= self.until).then(|| (at.saturating_duration_since(self.begins), u64::from(number)))
    }

    fn message(&mut self, message: &MessageRecord) {
        if let Some((at, number)) = message.left_at.and_then(|at| self.place(at, message.sequence)) {
            self.sequence.packet(at, number, fate::of_message(message));
        }
        if let Some((at, number)) = message.delivered_at.and_then(|at| self.place(at, message.sequence)) {
            self.sequence.delivered(at, number);
        }
    }

    fn resent(&mut self, resent: &RetransmissionRecord) {
        let Some((at, number)) = self.place(resent.at, resent.sequence) else { return };
        let happening = fate::of_retransmission(resent);
        self.sequence.packet(at, number, happening);
        if !matches!(happening, Happening::Copied | Happening::CopyLost) {
            self.sequence.note(at, number, short_name(resent.cause));
        }
    }
}

/// A name that fits next to a point.
fn short_name(cause: RetransmissionCause) -> &'static str {
    match cause {
        RetransmissionCause::Copy => "copy",
        RetransmissionCause::Bundled | RetransmissionCause::ReportedBundled => "bundled",
        other => cause_name(other),
    }
}

#[cfg(test)]
mod tests {
    use festina_models::record::Necessity;

    use super::*;
    use crate::experiments::RecoverySequences;
    use crate::plan::{Plan, Scale};

    /// All transmissions with their times and fates: first ones as ordinal 0, copies included.
    fn departures(truth: &Truth) -> Vec<(u32, u32, Instant, bool)> {
        let firsts = truth.messages.iter().map(|message| {
            let left_at = message.left_at.expect("all are delivered");
            (message.sequence, 0, left_at, message.delivered_by == Some(0))
        });
        let again = truth.retransmissions.iter();
        let again = again.map(|resent| (resent.sequence, resent.ordinal, resent.at, resent.arrived_at.is_some()));
        firsts.chain(again).collect()
    }

    #[test]
    fn exactly_the_packets_that_the_scene_names_are_lost() {
        let plan = Plan::own(&RecoverySequences, Scale::Full);
        for point in plan.points() {
            let loss = Loss::of(&point);
            let run = Scene::of(&point).stream(1).run(1);
            let departures = departures(run.record.truth());
            let is_named = |sequence, ordinal| match ordinal {
                0 => (LOST..=loss.last_lost()).contains(&sequence),
                _ => loss == Loss::Repair && (sequence, ordinal) == (LOST, 1),
            };
            let named = departures.iter().filter(|(sequence, ordinal, ..)| is_named(*sequence, *ordinal));
            let moments: Vec<Instant> = named.map(|(.., at, _)| *at).collect();
            let are_two = matches!(loss, Loss::Pair | Loss::Repair | Loss::Answer);
            assert_eq!(moments.len(), 1 + usize::from(are_two), "{point:?}");
            // Copies of other messages may ride in the packets that are lost. Nothing else is.
            for (sequence, ordinal, at, arrived) in departures {
                assert_eq!(!arrived, moments.contains(&at), "message {sequence}, transmission {ordinal}: {point:?}");
            }
        }
    }

    #[test]
    fn a_lost_answer_costs_rto_restart_a_second_timeout_and_the_standard_none() {
        let plan = Plan::own(&RecoverySequences, Scale::Full);
        let timeouts = |sender: &str| {
            let point = plan.points().into_iter().find(|point| {
                point.choice("sender") == sender
                    && point.duration("iat") == Duration::from_millis(250)
                    && Loss::of(point) == Loss::Answer
            });
            let run = Scene::of(&point.expect("the plan has it")).stream(1).run(1);
            let resent = run.record.truth().retransmissions.clone().into_iter();
            let timeouts =
                resent.filter(|resent| resent.cause == RetransmissionCause::Timeout && resent.sequence == LOST);
            timeouts.map(|resent| resent.necessity).collect::<Vec<_>>()
        };
        assert_eq!(timeouts("rfc9260"), [Necessity::Needed]);
        assert_eq!(timeouts("rto-restart"), [Necessity::Needed, Necessity::AcknowledgementLost]);
    }
}

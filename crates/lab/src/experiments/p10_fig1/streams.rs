//! Each stream of a server: its truth, and what captures at both ends show of it.

use std::collections::BTreeMap;

use festina_models::record::{Necessity, Truth};
use festina_trace::{Analyser, AnalyserOptions, Finding, ReceiverSide, StreamReport, analyse};
use festina_units::Duration;

use crate::count::as_f64;
use crate::scenario::server::{Packets, capture_file, client_at};

/// What a delay may be off.
const DELAY_OFF_MAX: Duration = Duration::from_millis(1);
/// By how much of itself a quantile may be off: the analysis counts in buckets.
const QUANTILE_OFF_MAX: f64 = 0.01;

/// The true course of a stream, and the analysis's report of it.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    pub(super) longest: Duration,
    pub(super) ninety_nine: Duration,
    pub(super) mean: Duration,
    /// How often the message with the longest delay was sent until it arrived or was known to have.
    pub(super) longest_copies: u32,
    /// Copies of messages that left, and how many of them the path lost.
    pub(super) copies: u64,
    pub(super) lost: u64,
    /// Copies that left although an earlier one arrived.
    pub(super) spurious: u64,
    pub(super) reported: Option<Reported>,
}

/// What the analysis says about a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub(super) longest: Duration,
    pub(super) ninety_nine: Duration,
    pub(super) mean: Duration,
    pub(super) longest_copies: u32,
    pub(super) loss: f64,
}

impl Fate {
    pub(super) fn is_longest_right(&self) -> bool {
        self.reported.is_some_and(|it| it.longest.abs_diff(self.longest) <= DELAY_OFF_MAX)
    }

    pub(super) fn is_rest_right(&self) -> bool {
        let is_about =
            |one: Duration, other: Duration| one.abs_diff(other) <= DELAY_OFF_MAX.max(other.mul_f64(QUANTILE_OFF_MAX));
        self.reported.is_some_and(|it| is_about(it.ninety_nine, self.ninety_nine) && is_about(it.mean, self.mean))
    }

    pub(super) fn are_copies_right(&self) -> bool {
        self.reported.is_some_and(|it| it.longest_copies == self.longest_copies)
    }

    /// The share of copies that the path lost.
    pub(super) fn loss(&self) -> f64 {
        as_f64(self.lost) / as_f64(self.copies.max(1))
    }

    /// Copies that were lost by what the analysis says.
    pub(super) fn lost_as_reported(&self) -> u64 {
        let lost = self.reported.map_or(0.0, |it| it.loss) * as_f64(self.copies);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        let lost = lost.round() as u64;
        lost
    }

    /// What the simulator knows; `None` of a stream that never sent.
    fn of(truth: &Truth) -> Option<Self> {
        // Messages that left at once left in one segment, which the last of them ends: a capture cannot tell them apart.
        let mut segments = BTreeMap::new();
        for message in &truth.messages {
            if let Some((left, delivered)) = message.left_at.zip(message.delivered_at) {
                segments.insert(left, (delivered - left, message.sequence));
            }
        }
        let mut delays: Vec<(Duration, u32)> = segments.into_values().collect();
        delays.sort_unstable();
        let (longest, sequence) = *delays.last()?;
        let total: Duration = delays.iter().map(|(delay, _)| *delay).sum();
        let rank = (99 * delays.len()).div_ceil(100).max(1);
        let resent = truth.retransmissions.len() as u64;
        let first_lost =
            truth.retransmissions.iter().filter(|it| it.ordinal == 1 && it.necessity == Necessity::Needed).count();
        let again_lost = truth.retransmissions.iter().filter(|it| it.arrived_at.is_none()).count();
        let again = truth.retransmissions.iter().filter(|it| it.sequence == sequence).count();
        Some(Self {
            longest,
            ninety_nine: delays[rank - 1].0,
            mean: total / u32::try_from(delays.len()).unwrap_or(u32::MAX),
            longest_copies: u32::try_from(again).unwrap_or(u32::MAX).saturating_add(1),
            copies: truth.first_transmissions + resent,
            lost: (first_lost + again_lost) as u64,
            spurious: truth.retransmissions.iter().filter(|it| it.is_spurious()).count() as u64,
            reported: None,
        })
    }
}

impl Reported {
    fn of(stream: &StreamReport) -> Option<Self> {
        let delays = &stream.delays.delivered_ns;
        let worst = stream.delays.worst.first()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of nanoseconds")]
        let mean = Duration::from_nanos(delays.mean()?.round() as u64);
        Some(Self {
            longest: Duration::from_nanos(delays.max()?),
            ninety_nine: Duration::from_nanos(delays.percentile(99.0)?),
            mean,
            longest_copies: worst.copies,
            loss: stream.repair.loss().unwrap_or(0.0),
        })
    }
}

/// The fate of each stream that sent anything: its truth, and what the analysis of both captures reports.
pub(super) fn fates(truths: &[Truth], at_server: &Packets, at_clients: &Packets) -> Vec<Fate> {
    let [at_server, at_clients] =
        [at_server, at_clients].map(|packets| capture_file(packets).expect("memory does not fail"));
    let mut receiver = ReceiverSide::read(at_clients.as_slice()).expect("a sound capture");
    receiver.align(at_server.as_slice()).expect("a sound capture");
    let analyser = Analyser::new(AnalyserOptions::default()).with_receiver(receiver);
    let mut reported = vec![None; truths.len()];
    let (_, result) = analyse(at_server.as_slice(), analyser, |finding| {
        if let Finding::Stream(stream) = finding
            && let Some(place) = client_at(stream.destination.ip()).and_then(|client| reported.get_mut(client))
        {
            *place = Reported::of(&stream);
        }
    });
    result.expect("a sound capture");
    let pairs = truths.iter().zip(reported);
    pairs.filter_map(|(truth, reported)| Some(Fate { reported, ..Fate::of(truth)? })).collect()
}

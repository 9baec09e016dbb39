//! The thin flows of a capture: what their applications wrote, and what became of it.

use std::collections::BTreeMap;

use festina_trace::analysis::{Retransmission, Write};
use festina_trace::{Cause, Finding, Histogram, Protocol, StreamReport};
use festina_units::Instant;

use crate::count::as_f64;
use crate::traces::is_thin;

/// Fewer writes say nothing about a path.
const WRITES_MIN: usize = 10;
/// A stream with more writes and retransmissions is left out.
const FINDINGS_OF_STREAM_MAX: usize = 1 << 18;
/// Writes and retransmissions that are kept at a time, those of all streams together.
const FINDINGS_MAX: usize = 1 << 21;
/// A sender of SCTP with more than one bundled or needless copy for this many writes sends them on purpose.
const COPIES_PART: u64 = 5;
/// One packet carries no more than this.
const PACKET_BYTES_MAX: u64 = 1 << 16;

/// A thin stream as the capture shows it.
#[derive(Clone, Debug)]
pub struct ThinFlow {
    /// The analysis of the stream.
    pub report: StreamReport,
    /// The application's writes: time of the first transmission and number of bytes, in the order of time.
    pub(super) writes: Vec<(Instant, u64)>,
    /// Time until the acknowledgement of each, in the same order.
    pub(super) delays_ns: Vec<u64>,
    /// Acknowledgements that ended the delay of a write.
    answers: u64,
    /// Copies that left behind a lost one, and those of them that were lost too.
    after_loss: [u64; 2],
}

/// Gathers thin flows from the findings of an analysis with details.
#[derive(Debug, Default)]
pub struct ThinFlows {
    open: BTreeMap<u64, Gathering>,
    kept: usize,
    flows: Vec<ThinFlow>,
    streams_other: u64,
    takes_any: bool,
}

#[derive(Debug, Default)]
struct Gathering {
    writes: Vec<Write>,
    retransmissions: Vec<Retransmission>,
    is_too_much: bool,
}

impl ThinFlows {
    /// Gathers all flows with writes: those of a simulated capture are known to be thin.
    pub(super) fn any() -> Self {
        Self { takes_any: true, ..Self::default() }
    }

    /// The next finding.
    pub fn take(&mut self, finding: Finding) {
        match finding {
            Finding::Write(write) => {
                if let Some(gathering) = self.room(write.stream) {
                    gathering.writes.push(write);
                }
            }
            Finding::Retransmission(copy) => {
                if let Some(gathering) = self.room(copy.stream) {
                    gathering.retransmissions.push(copy);
                }
            }
            Finding::Stream(report) => self.close(*report),
            _ => {}
        }
    }

    /// Streams that are left out: they are not thin, or too short, or too long, or without acknowledgements, or captured behind their losses.
    pub fn streams_other(&self) -> u64 {
        self.streams_other
    }

    /// The flows, in the order in which they ended.
    pub fn finish(self) -> Vec<ThinFlow> {
        self.flows
    }

    /// Room for another finding of a stream; `None` if it has too many.
    fn room(&mut self, stream: u64) -> Option<&mut Gathering> {
        let gathering = self.open.entry(stream).or_default();
        if gathering.is_too_much {
            return None;
        }
        let len = gathering.writes.len() + gathering.retransmissions.len();
        if len >= FINDINGS_OF_STREAM_MAX || self.kept >= FINDINGS_MAX {
            self.kept -= len;
            *gathering = Gathering { is_too_much: true, ..Gathering::default() };
            return None;
        }
        self.kept += 1;
        Some(gathering)
    }

    fn close(&mut self, report: StreamReport) {
        let gathering = self.open.remove(&report.id).unwrap_or_default();
        self.kept -= gathering.writes.len() + gathering.retransmissions.len();
        let is_known = gathering.writes.len() >= WRITES_MIN && is_thin(&report) && report.rtt_ns.count() > 0;
        let is_known = is_known && !report.repair.is_behind_loss();
        if is_known || (self.takes_any && !gathering.writes.is_empty()) {
            self.flows.push(ThinFlow::of(report, gathering));
        } else {
            self.streams_other += 1;
        }
    }
}

impl ThinFlow {
    fn of(report: StreamReport, gathering: Gathering) -> Self {
        let Gathering { mut writes, retransmissions, .. } = gathering;
        let mut answers: Vec<u64> = writes.iter().map(|write| write.acknowledged_packet).collect();
        answers.sort_unstable();
        answers.dedup();
        writes.sort_by_key(|write| write.end);
        let after_loss = after_loss(&writes, &retransmissions);
        let is_tcp = report.protocol == Protocol::Tcp;
        let mut before = writes.first().map_or(0, |first| first.end.saturating_sub(u64::from(first.bytes)));
        let mut sizes = Vec::with_capacity(writes.len());
        for write in &writes {
            // TCP counts bytes, and full segments before the last belong to the write; SCTP counts chunks.
            let bytes = if is_tcp { write.end - before } else { u64::from(write.bytes) };
            let delay_ns = u64::try_from(write.acknowledged().as_nanos()).unwrap_or(u64::MAX);
            sizes.push((write.sent_at, bytes.clamp(1, PACKET_BYTES_MAX), delay_ns));
            before = write.end;
        }
        sizes.sort_by_key(|(at, ..)| *at);
        let (writes, delays_ns) = sizes.into_iter().map(|(at, bytes, delay_ns)| ((at, bytes), delay_ns)).unzip();
        Self { report, writes, delays_ns, answers: as_u64(answers.len()), after_loss }
    }

    /// Number of writes.
    pub fn writes(&self) -> u64 {
        as_u64(self.writes.len())
    }
}

/// Copies sent right after a lost one, and those of them that were lost too. A write counts as lost if it was retransmitted for a reason. Of several
/// writes that one retransmission covers some may have arrived, in a real capture as in a simulated one.
fn after_loss(writes: &[Write], retransmissions: &[Retransmission]) -> [u64; 2] {
    let mut copies: BTreeMap<Instant, bool> = writes.iter().map(|write| (write.sent_at, false)).collect();
    copies.extend(retransmissions.iter().map(|copy| (copy.at, false)));
    for copy in retransmissions.iter().filter(|copy| !copy.is_spurious && copy.cause != Cause::Bundled) {
        let [from, to] = [copy.start, copy.end].map(|limit| writes.partition_point(|write| write.end <= limit));
        let first_copies = writes[from..to].iter().map(|write| write.sent_at).filter(|_| copy.ordinal == 1);
        copies.extend(first_copies.chain(copy.previous_at).map(|at| (at, true)));
    }
    let behind = copies.values().zip(copies.values().skip(1)).filter(|(before, _)| **before);
    behind.fold([0, 0], |[all, lost], (_, is_lost)| [all + 1, lost + u64::from(*is_lost)])
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Path properties visible in a capture, real or simulated.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// First transmissions and retransmissions.
    copies: u64,
    /// Retransmissions that were called for and needed.
    losses: f64,
    /// Acknowledgements that did not come: writes that were acknowledged together with later ones, and retransmissions that were
    /// not needed. Bundled copies need no acknowledgement that is lost.
    silences: u64,
    after_loss: [u64; 2],
    is_sctp: bool,
    pub(super) writes: u64,
    /// Retransmissions by cause, in the order of [`Cause::ALL`].
    pub(super) by_cause: [u64; Cause::ALL.len()],
    pub(super) spurious: u64,
    /// From the first transmission of each write to its acknowledgement.
    pub(super) delays_ns: Histogram,
}

impl Shown {
    pub(super) fn of<'a>(flows: impl IntoIterator<Item = &'a ThinFlow>) -> Self {
        let mut shown = Self::default();
        flows.into_iter().for_each(|flow| shown.add(flow));
        shown
    }

    fn add(&mut self, flow: &ThinFlow) {
        let repair = &flow.report.repair;
        let copies = repair.first_copies + repair.retransmissions();
        self.copies += copies;
        self.losses += repair.loss().unwrap_or(0.0) * as_f64(copies);
        self.silences += flow.writes().saturating_sub(flow.answers) + repair.spurious_repairs();
        self.follow(flow.after_loss);
        self.is_sctp |= flow.report.protocol == Protocol::Sctp;
        self.writes += flow.writes();
        self.spurious += repair.spurious_repairs();
        self.count(repair.by_cause);
        self.delays_ns.merge(&flow.report.delays.acknowledged_ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.copies += other.copies;
        self.losses += other.losses;
        self.silences += other.silences;
        self.follow(other.after_loss);
        self.is_sctp |= other.is_sctp;
        self.writes += other.writes;
        self.spurious += other.spurious;
        self.count(other.by_cause);
        self.delays_ns.merge(&other.delays_ns);
    }

    fn count(&mut self, by_cause: [u64; Cause::ALL.len()]) {
        for (sum, count) in self.by_cause.iter_mut().zip(by_cause) {
            *sum += count;
        }
    }

    fn follow(&mut self, after_loss: [u64; 2]) {
        for (sum, count) in self.after_loss.iter_mut().zip(after_loss) {
            *sum += count;
        }
    }

    /// The share of copies behind a lost one that were lost too, and the standard deviation that chance gives it.
    pub(super) fn loss_after_loss(&self) -> (f64, f64) {
        let [all, lost] = self.after_loss.map(|count| as_f64(count.max(1)));
        let share = (lost / all).min(1.0);
        (share, (share * (1.0 - share).max(1.0 / all) / all).sqrt())
    }

    /// Returns whether a packet or its acknowledgement was lost.
    pub(super) fn shows_loss(&self) -> bool {
        self.losses > 0.0 || self.spurious > 0
    }

    /// Returns whether the sender sends copies before it knows of a loss: many of them are bundled or needless.
    pub(super) fn has_copies(&self) -> bool {
        let bundled: u64 =
            Cause::ALL.iter().zip(self.by_cause).filter(|(c, _)| **c == Cause::Bundled).map(|(_, n)| n).sum();
        self.is_sctp && COPIES_PART * (bundled + self.spurious) > self.writes
    }

    /// Losses of each copy.
    pub(super) fn loss(&self) -> f64 {
        self.losses / as_f64(self.copies.max(1))
    }

    /// Acknowledgements that did not come, of each write.
    pub(super) fn silence(&self) -> f64 {
        as_f64(self.silences) / as_f64(self.writes.max(1))
    }
}

#[cfg(test)]
mod tests {
    use festina_trace::Confidence;

    use super::*;

    fn write(end: u64, sent_ms: u64) -> Write {
        let at = Instant::from_millis;
        Write {
            stream: 1,
            end,
            bytes: 100,
            sent_at: at(sent_ms),
            sent_packet: sent_ms,
            copies: 1,
            acknowledged_at: at(sent_ms + 50),
            acknowledged_packet: sent_ms + 50,
            delivered_at: None,
        }
    }

    fn again(range: std::ops::Range<u64>, ordinal: u32, previous_ms: u64, ms: u64) -> Retransmission {
        let at = Instant::from_millis;
        Retransmission {
            stream: 1,
            start: range.start,
            end: range.end,
            ordinal,
            first_at: Some(at(0)),
            previous_at: Some(at(previous_ms)),
            at: at(ms),
            packet: ms,
            cause: Cause::Timeout,
            confidence: Confidence::Sure,
            is_spurious: false,
        }
    }

    #[test]
    fn losses_in_a_row_are_counted_with_all_that_a_retransmission_covers_and_with_lost_retransmissions() {
        let writes: Vec<Write> = (0..6).map(|n| write(100 * (n + 1), 10 * n)).collect();
        let resent = [again(0..200, 1, 10, 300), again(0..200, 2, 300, 700), again(400..500, 1, 40, 310)];
        // Lost are the first two, the fifth, and the retransmission of the first two.
        assert_eq!(after_loss(&writes, &resent), [4, 1]);
        let spurious = resent.map(|copy| Retransmission { is_spurious: true, ..copy });
        assert_eq!(after_loss(&writes, &spurious), [0, 0]);
    }
}

//! A thin stream over a path that loses packets.

use festina_models::stack::Stack;
use festina_models::statistics::DelayStatistics;
use festina_models::tcp::TcpConfig;
use festina_models::thin_stream::ThinStream;
use festina_netsim::{LossModel, PacketGilbertElliott};
use festina_recovery::Profile;
use festina_units::{ByteCount, Duration, Probability};

/// The senders, in the order of their numbers.
pub(crate) const SENDERS: [&str; 4] = ["TCP (model of Linux)", "SCTP of 2006", "RACK-TLP, as in QUIC", "Festina"];
/// The receivers of TCP and SCTP may delay acknowledgements by this (RFC 9260 §6.2), those of QUIC by less (RFC 9000 §18.2).
const ACK_DELAY: Duration = Duration::from_millis(200);
const QUIC_ACK_DELAY: Duration = Duration::from_millis(25);
const SIZE: ByteCount = ByteCount::from_bytes(100);
const SEED: u64 = 1;
/// The numbers before the steps of a distribution.
const STEPS_MAX: usize = 400;

/// What a page asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub sender: u32,
    /// Mean loss each way.
    pub loss_permille: u32,
    /// Mean number of packets that are lost in a row; 1 for independent losses.
    pub burst_packets: u32,
    pub interval_ms: u32,
    pub rtt_ms: u32,
    pub messages: u32,
}

impl Job {
    fn is_in_range(&self) -> bool {
        self.loss_permille <= 500
            && (1..=20).contains(&self.burst_packets)
            && (1..=10_000).contains(&self.interval_ms)
            && (1..=2_000).contains(&self.rtt_ms)
            && self.messages <= 100_000
    }

    fn stack(&self) -> Option<Stack> {
        match self.sender {
            0 => Some(Stack::tcp(TcpConfig::linux())),
            1 => Some(Stack::sctp(Profile::Lksctp2006.mechanisms(), ACK_DELAY)),
            2 => Some(Stack::sctp(Profile::Rack.mechanisms(), QUIC_ACK_DELAY)),
            3 => Some(Stack::sctp(Profile::Festina.mechanisms(), ACK_DELAY)),
            _ => None,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// This number of messages over the path without losses.
    pub(crate) fn lossless(&self, messages: u32) -> Option<ThinStream> {
        let rtt = Duration::from_millis(self.rtt_ms.into());
        let stack = self.stack().filter(|_| self.is_in_range())?;
        Some(ThinStream::periodic(stack, self.interval(), SIZE, self.interval() * messages, rtt))
    }

    /// The losses of one direction. Bad periods lose everything; with each packet they end with the same probability.
    fn loss(&self) -> LossModel {
        const PPB: u64 = 1_000_000_000;
        let ppb = |share: u64| Probability::from_ppb(u32::try_from(share).unwrap_or(u32::MAX));
        let (loss, burst) = (u64::from(self.loss_permille), u64::from(self.burst_packets));
        if burst == 1 || loss == 0 {
            return LossModel::Independent(ppb(loss * PPB / 1_000));
        }
        LossModel::PacketGilbertElliott(PacketGilbertElliott {
            good_to_bad: ppb(loss * PPB / ((1_000 - loss) * burst)),
            bad_to_good: ppb(PPB / burst),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        })
    }

    /// As [`super::distribution`] describes.
    pub(crate) fn distribution(&self) -> Option<Vec<f64>> {
        let mut stream = self.lossless(self.messages).filter(|_| self.messages > 0)?;
        stream.forward.loss = self.loss();
        stream.backward.loss = self.loss();
        let run = stream.try_run(SEED)?;
        let messages = &run.record.truth().messages;
        let mut delays = DelayStatistics::new();
        messages.iter().filter_map(|message| message.delay()).for_each(|delay| delays.record(delay));
        let quantile = |share| delays.quantile(share).map_or(super::NOTHING, ms);
        let written = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        let each = |number: u64| as_f64(number) / as_f64(written);
        let mut values = vec![
            as_f64(delays.count()),
            as_f64(written - delays.count()),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            delays.max().map_or(super::NOTHING, ms),
            each(run.packets_sent + run.packets_returned),
            each(run.bytes_sent + run.bytes_returned),
        ];
        let steps = delays.shares_later();
        let stride = steps.len().div_ceil(STEPS_MAX).max(1);
        for step in steps.iter().step_by(stride) {
            values.extend([ms(step.delay), step.share]);
        }
        Some(values)
    }
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "counts of a simulation are far below 2^53")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

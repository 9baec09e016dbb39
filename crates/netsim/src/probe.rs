//! Measurements of links: queues at regular intervals, throughput per flow in bins.

use std::collections::BTreeMap;

use festina_units::{ByteCount, Duration, Instant, duration};

use crate::link::{Link, LinkPacket};
use crate::topology::LinkId;

/// Maximum number of samples of a queue probe; then it stops.
pub const QUEUE_SAMPLES_MAX: usize = 1 << 22;

/// Maximum number of bins of a throughput probe, over all its flows; bytes in later bins are not counted.
pub const THROUGHPUT_BINS_MAX: usize = 1 << 22;

/// Identifies a queue probe within its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueProbeId(usize);

/// Identifies a throughput probe within its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThroughputProbeId(usize);

/// A sample of a link's queue, excluding the packet in transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSample {
    /// Time of the sample.
    pub at: Instant,
    /// Packets waiting.
    pub packets: usize,
    /// Bytes waiting.
    pub bytes: ByteCount,
    /// Packets that the queue has dropped since the start of the simulation.
    pub dropped: u64,
}

/// The bytes of each flow that passed a link, by bin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThroughputSeries {
    begins_at: Instant,
    bin: Duration,
    flows: BTreeMap<u64, Vec<ByteCount>>,
    bin_count: usize,
    uncounted: ByteCount,
}

impl ThroughputSeries {
    /// Returns the start of the first bin.
    pub fn begins_at(&self) -> Instant {
        self.begins_at
    }

    /// Returns the length of a bin.
    pub fn bin(&self) -> Duration {
        self.bin
    }

    /// Returns the flows seen, in ascending order.
    pub fn flows(&self) -> impl Iterator<Item = u64> {
        self.flows.keys().copied()
    }

    /// Returns the bytes of a flow by bin, without the bins after the flow's last packet.
    pub fn bytes(&self, flow: u64) -> &[ByteCount] {
        self.flows.get(&flow).map_or(&[], Vec::as_slice)
    }

    /// Returns the bytes that were not counted because [`THROUGHPUT_BINS_MAX`] was reached.
    pub fn uncounted(&self) -> ByteCount {
        self.uncounted
    }

    fn note(&mut self, now: Instant, flow: u64, size: ByteCount) {
        let bin_ns = duration::saturating_nanos(self.bin).max(1);
        let index = usize::try_from((now - self.begins_at).as_nanos() / u128::from(bin_ns)).unwrap_or(usize::MAX);
        let have = self.flows.get(&flow).map_or(0, Vec::len);
        let added = index.saturating_add(1).saturating_sub(have);
        if added > THROUGHPUT_BINS_MAX - self.bin_count {
            self.uncounted += size;
            return;
        }
        self.bin_count += added;
        let bins = self.flows.entry(flow).or_default();
        if added > 0 {
            bins.resize(index + 1, ByteCount::ZERO);
        }
        bins[index] += size;
    }
}

/// All probes of a simulation.
#[derive(Debug)]
pub(crate) struct Probes {
    queues: Vec<QueueProbe>,
    throughputs: Vec<ThroughputSeries>,
    /// By link: the index of the throughput probe that counts its packets.
    throughput_of_link: Vec<Option<usize>>,
}

#[derive(Debug)]
struct QueueProbe {
    link: LinkId,
    interval: Duration,
    next_at: Option<Instant>,
    samples: Vec<QueueSample>,
}

impl Probes {
    pub(crate) fn new(link_count: usize) -> Self {
        Self { queues: Vec::new(), throughputs: Vec::new(), throughput_of_link: vec![None; link_count] }
    }

    pub(crate) fn add_queue(&mut self, link: LinkId, interval: Duration, now: Instant) -> QueueProbeId {
        assert!(!interval.is_zero(), "the interval is not zero");
        self.queues.push(QueueProbe { link, interval, next_at: Some(now), samples: Vec::new() });
        QueueProbeId(self.queues.len() - 1)
    }

    pub(crate) fn add_throughput(&mut self, link: LinkId, bin: Duration, now: Instant) -> ThroughputProbeId {
        assert!(!bin.is_zero(), "the bin length is not zero");
        let id = self.throughputs.len();
        let before = self.throughput_of_link[link.0 as usize].replace(id);
        assert!(before.is_none(), "a link has at most one throughput probe");
        let (flows, uncounted) = (BTreeMap::new(), ByteCount::ZERO);
        self.throughputs.push(ThroughputSeries { begins_at: now, bin, flows, bin_count: 0, uncounted });
        ThroughputProbeId(id)
    }

    pub(crate) fn queue_samples(&self, id: QueueProbeId) -> &[QueueSample] {
        &self.queues[id.0].samples
    }

    pub(crate) fn throughput(&self, id: ThroughputProbeId) -> &ThroughputSeries {
        &self.throughputs[id.0]
    }

    /// Returns when a queue is to be sampled next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|probe| probe.next_at).min()
    }

    /// Takes the samples that are due.
    pub(crate) fn sample<P: LinkPacket>(&mut self, now: Instant, links: &mut [Link<P>]) {
        for probe in &mut self.queues {
            if probe.next_at.is_none_or(|at| at > now) {
                continue;
            }
            let link = &mut links[probe.link.0 as usize];
            link.catch_up(now);
            probe.samples.push(QueueSample {
                at: now,
                packets: link.queue_packets(),
                bytes: link.queue_bytes(),
                dropped: link.counters().queue_dropped,
            });
            probe.next_at = (probe.samples.len() < QUEUE_SAMPLES_MAX).then(|| now + probe.interval);
        }
    }

    /// Counts a packet that has passed a link.
    pub(crate) fn note_delivery<P: LinkPacket>(&mut self, link_index: usize, now: Instant, packet: &P) {
        if let Some(index) = self.throughput_of_link[link_index] {
            self.throughputs[index].note(now, packet.flow(), packet.size());
        }
    }
}

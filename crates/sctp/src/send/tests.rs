//! Drives the sender by hand: messages and SACKs go in, packets are read back.

mod detectors;
mod duplicates;
mod expiry;
mod hostile;
mod interleaving;
mod messages;
mod pacing;
mod partial;
mod protection;
mod recovery;
mod redundancy;
mod resends;
mod spurious;
mod timers;
mod transmission;
mod walk;
mod window;

use std::sync::Arc;

use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_units::{Duration, Instant};

use super::*;
use crate::congestion::CongestionControl;
use crate::error::{ProtocolViolation, SendErrorKind};
use crate::event::{AbandonReason, Event, ProtocolEvent, RetransmissionCause};
use crate::message::Message;
use crate::outstanding::{Acknowledgement, ChunkState, MessageSlot, PathId, PathSet};
use crate::wire::{Chunk, CommonHeader, Packet, PacketBuilder, Sack, StreamId};

/// The first TSN: the peer's cumulative TSN is 0 before anything arrived.
const FIRST_TSN: u32 = 1;
const PACKET_BYTES: usize = 1_232;
/// PMDCS.
const CHUNKS_BYTES: usize = 1_220;
/// Payload of a chunk that fills a packet.
const FULL: usize = 1_204;
const WINDOW: u32 = 1_000_000;

/// A DATA chunk as the peer read it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    tsn: u32,
    stream: u16,
    ssn: u16,
    ppid: u32,
    /// The letters of the bits that are set: I, U, B, E.
    bits: String,
    len: usize,
}

/// A FORWARD-TSN as the peer read it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Forwarded {
    cumulative: u32,
    streams: Vec<(u16, u16)>,
}

/// A sender and its surroundings.
struct Rig {
    sender: Sender,
    path: SendPath,
    events: Events,
    now: Instant,
    next_id: u64,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// With the standard's congestion control, whose window the tests count on.
fn config(mechanisms: Mechanisms) -> Config {
    let congestion = CongestionControl::Rfc9260;
    let mut config = Config { mechanisms, congestion, message_events: true, ..Config::default() };
    config.limits.packet_bytes_max = PACKET_BYTES;
    config
}

impl Rig {
    fn new(profile: Profile) -> Self {
        Self::with(&config(profile.mechanisms()))
    }

    /// The standard's recovery.
    fn standard() -> Self {
        Self::new(Profile::Rfc9260)
    }

    /// Festina's own recovery and congestion control.
    fn cubic() -> Self {
        Self::with(&Config { congestion: CongestionControl::Cubic, ..config(Profile::Festina.mechanisms()) })
    }

    fn with(config: &Config) -> Self {
        let now = Instant::from_secs(100);
        let sender = Sender::new(config, Tsn(FIRST_TSN), WINDOW, 100);
        let path = SendPath::new(now, PathId(0), config, Arc::new(config.mechanisms), 4_344);
        Self { sender, path, events: Events::new(config.message_events), now, next_id: 0 }
    }

    /// Festina's recovery without redundancy, so that losses are not hidden.
    fn probing() -> Self {
        Self::with(&config(Mechanisms { redundancy: Redundancy::Off, ..Profile::Festina.mechanisms() }))
    }

    /// The round-trip time is known to be steady.
    fn measured(mut self, rtt: Duration) -> Self {
        (0..40).for_each(|_| self.sender.handle_round_trip(self.now, &mut self.path, rtt, &mut self.events));
        self.events();
        self
    }

    fn wait(&mut self, millis: u64) {
        self.now += ms(millis);
    }

    fn try_send(&mut self, message: Message) -> Result<MessageId, SendError> {
        let id = MessageId(self.next_id);
        self.sender.send((self.now, Duration::ZERO), &mut self.path, message, id, &mut self.events)?;
        self.next_id += 1;
        Ok(id)
    }

    fn send(&mut self, message: Message) -> MessageId {
        self.try_send(message).expect("the message is taken")
    }

    fn send_bytes(&mut self, len: usize) -> MessageId {
        self.send(Message::new(vec![7; len]))
    }

    /// One packet behind `reserved` bytes of other chunks.
    fn packet_behind(&mut self, reserved: usize) -> Vec<Sent> {
        let mut bytes = Vec::new();
        let header = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut packet = PacketBuilder::new(&mut bytes, header, PACKET_BYTES - reserved);
        let Self { sender, path, events, now, .. } = self;
        let errand = sender.errand(*now, path);
        let written = sender.fill_data(*now, path, errand, &mut packet, events).chunks;
        let sent = match packet.finish() {
            0 => Vec::new(),
            _ => read(&bytes),
        };
        assert_eq!(sent.len(), written);
        assert!(bytes.len() <= PACKET_BYTES - reserved);
        let order = |chunk: &Sent| chunk.tsn.wrapping_sub(sent[0].tsn);
        assert!(sent.is_sorted_by_key(order), "chunks stand in TSN order (RFC 9260 §6.10)");
        sent
    }

    fn packet(&mut self) -> Vec<Sent> {
        self.packet_behind(0)
    }

    /// One packet as the association puts it together.
    fn packet_bytes(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let header = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut packet = PacketBuilder::new(&mut bytes, header, PACKET_BYTES);
        let Self { sender, path, events, .. } = self;
        let errand = sender.errand(self.now, path);
        sender.fill(self.now, path, errand, &mut packet, events);
        (packet.finish() > 0).then_some(bytes)
    }

    /// The same, read: FORWARD-TSN, if one is due, and DATA.
    fn packet_with_forward(&mut self) -> (Option<Forwarded>, Vec<Sent>) {
        let Some(bytes) = self.packet_bytes() else { return (None, Vec::new()) };
        let packet = Packet::parse(&bytes).expect("the packet is sound");
        let mut chunks: Vec<_> = packet.chunks().map(|chunk| chunk.expect("the chunk is sound")).collect();
        let forward = match chunks.first() {
            Some(Chunk::IForwardTsn(forward)) => {
                let entry = |skipped: crate::wire::SkippedMessage| {
                    (
                        skipped.stream.0,
                        u16::try_from(skipped.mid.0).expect("few") + if skipped.unordered { 1_000 } else { 0 },
                    )
                };
                Some(Forwarded {
                    cumulative: forward.new_cumulative.0,
                    streams: forward.streams().map(entry).collect(),
                })
            }
            Some(Chunk::ForwardTsn(forward)) => {
                let streams = forward.streams().map(|(stream, ssn)| (stream.0, ssn.0)).collect();
                Some(Forwarded { cumulative: forward.new_cumulative.0, streams })
            }
            _ => None,
        };
        if forward.is_some() {
            chunks.remove(0);
        }
        (forward, chunks.iter().map(sent).collect())
    }

    /// All packets that may leave now.
    fn packets(&mut self) -> Vec<Vec<Sent>> {
        let mut packets = Vec::new();
        while self.can_send() {
            let packet = self.packet();
            if !packet.is_empty() {
                packets.push(packet);
            }
        }
        packets
    }

    /// The TSNs in all packets that may leave now.
    fn tsns(&mut self) -> Vec<Vec<u32>> {
        let packets = self.packets();
        packets.iter().map(|packet| packet.iter().map(|chunk| chunk.tsn).collect()).collect()
    }

    /// A thick stream: at least `packets` full packets are in flight, and more wait. Returns the cumulative TSN ack.
    fn grow(&mut self, packets: u64) -> u32 {
        (0..200).for_each(|_| {
            self.send_bytes(FULL);
        });
        let mut cumulative = 0;
        self.packets();
        while self.stats().path.in_flight_bytes < packets * CHUNKS_BYTES as u64 {
            cumulative += 2;
            self.sack(cumulative, &[]);
            self.packets();
        }
        cumulative
    }

    /// Queues `count` messages and sends all packets that may be sent.
    fn flight(&mut self, count: usize, len: usize) -> Vec<Vec<u32>> {
        (0..count).for_each(|_| {
            self.send_bytes(len);
        });
        self.tsns()
    }

    fn sack(&mut self, cumulative: u32, gaps: &[(u16, u16)]) -> PathSet {
        self.sack_full(cumulative, WINDOW, gaps, &[])
    }

    fn sack_full(&mut self, cumulative: u32, a_rwnd: u32, gaps: &[(u16, u16)], duplicates: &[u32]) -> PathSet {
        self.try_sack(cumulative, a_rwnd, gaps, duplicates).expect("the SACK is sound")
    }

    fn try_sack(
        &mut self,
        cumulative: u32,
        a_rwnd: u32,
        gaps: &[(u16, u16)],
        duplicates: &[u32],
    ) -> Result<PathSet, ProtocolViolation> {
        let duplicates: Vec<_> = duplicates.iter().map(|&tsn| Tsn(tsn)).collect();
        let sack = Sack::new_for_test(Tsn(cumulative), a_rwnd, gaps, &duplicates);
        self.acknowledge(Acknowledgement::sack(&sack))
    }

    /// An NR-SACK none of whose blocks will be taken back.
    fn nr_sack(&mut self, cumulative: u32, nr_gaps: &[(u16, u16)]) {
        let mut bytes = Vec::new();
        let header = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut packet = PacketBuilder::new(&mut bytes, header, PACKET_BYTES);
        let none = std::iter::empty;
        assert!(packet.nr_sack((Tsn(cumulative), WINDOW), none(), nr_gaps.iter().copied(), std::iter::empty()));
        packet.finish();
        let packet = Packet::parse(&bytes).expect("the packet is sound");
        let Some(Ok(Chunk::NrSack(sack))) = packet.chunks().next() else { panic!("no NR-SACK") };
        let mut both = Vec::new();
        let (merged, non_renegable) = (sack.as_sack(&mut both), sack.nr_gap_ack_block_bytes());
        self.acknowledge(Acknowledgement { non_renegable, ..Acknowledgement::sack(&merged) })
            .expect("the NR-SACK is sound");
    }

    fn acknowledge(&mut self, acknowledgement: Acknowledgement<'_>) -> Result<PathSet, ProtocolViolation> {
        self.sender.acknowledge(self.now, &mut self.path, acknowledgement, &mut self.events)
    }

    fn can_send(&self) -> bool {
        self.sender.errand(self.now, &self.path).is_due()
    }

    fn deadline(&self) -> Option<Instant> {
        self.sender.deadline([&self.path].into_iter())
    }

    fn handle_timeout(&mut self) -> Option<TimerExpiry> {
        *self.sender.handle_timeout(self.now, &mut self.path, &mut self.events).of(PathId::PRIMARY)
    }

    /// The association ends.
    fn end(&mut self) {
        self.sender.flight.fail_all(&mut self.events);
        self.path.stop();
    }

    /// The peer restarts, and gets `first_tsn` as this side's first TSN.
    fn restart(&mut self, config: &Config, first_tsn: Tsn) {
        self.sender.flight.reset_for_restart(first_tsn, &mut self.events);
        self.path.reset_for_restart(self.now, config);
    }

    /// Waits for the next deadline and acts on it. How long that took and what expired.
    fn expire(&mut self) -> (Duration, Option<TimerExpiry>) {
        let deadline = self.deadline().expect("a timer runs");
        let waited = deadline - self.now;
        self.now = deadline.max(self.now);
        (waited, self.handle_timeout())
    }

    /// The messages that have a slot are those that wait or have a chunk that is not settled.
    fn check_slots(&self) {
        let Flight { buffer, ledger, .. } = &self.sender.flight;
        let is_settled = |chunk: &&crate::outstanding::Chunk| chunk.state == ChunkState::NonRenegable;
        let outstanding = ledger.iter().filter(|chunk| !is_settled(chunk)).map(|chunk| chunk.message);
        let mut slots: Vec<_> = buffer.unsent().chain(outstanding).map(|slot| slot.0).collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.iter().all(|&slot| buffer.message(MessageSlot(slot)).is_some()), "each has its message");
        assert_eq!(buffer.slots_used(), slots.len());
    }

    fn stats(&self) -> Stats {
        self.sender.stats_on(&self.path)
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.pop()).collect()
    }

    /// Retransmissions since the last look at the events: TSN and cause.
    fn causes(&mut self) -> Vec<(u32, RetransmissionCause)> {
        let told = |event| match event {
            Event::Protocol(ProtocolEvent::Retransmitted { tsn, cause, .. }) => Some((tsn, cause)),
            _ => None,
        };
        self.events().into_iter().filter_map(told).collect()
    }

    fn delivered(&mut self) -> Vec<u64> {
        let delivered = |event| match event {
            Event::MessageDelivered { id, .. } => Some(id.0),
            _ => None,
        };
        self.events().into_iter().filter_map(delivered).collect()
    }
}

fn read(bytes: &[u8]) -> Vec<Sent> {
    let packet = Packet::parse(bytes).expect("the packet is sound");
    packet.chunks().map(|chunk| sent(&chunk.expect("the chunk is sound"))).collect()
}

fn sent(chunk: &Chunk<'_>) -> Sent {
    let data = match chunk {
        Chunk::Data(data) => data,
        Chunk::IData(data) => return sent_interleaved(data),
        _ => panic!("not DATA: {chunk:?}"),
    };
    let bits = [("I", data.immediate), ("U", data.unordered), ("B", data.beginning), ("E", data.end)];
    Sent {
        tsn: data.tsn.0,
        stream: data.stream.0,
        ssn: data.ssn.0,
        ppid: data.ppid,
        bits: bits.iter().filter(|(_, set)| *set).map(|(letter, _)| *letter).collect(),
        len: data.payload.len(),
    }
}

/// I-DATA, with its MID for SSN and its fragment number for PPID but in the first fragment.
fn sent_interleaved(data: &crate::wire::IData<'_>) -> Sent {
    let bits = [("I", data.immediate), ("U", data.unordered), ("B", data.beginning), ("E", data.end)];
    Sent {
        tsn: data.tsn.0,
        stream: data.stream.0,
        ssn: u16::try_from(data.mid.0).expect("few messages"),
        ppid: data.ppid().unwrap_or_else(|| data.fsn()),
        bits: bits.iter().filter(|(_, set)| *set).map(|(letter, _)| *letter).collect(),
        len: data.payload().len(),
    }
}

#[test]
fn a_sender_and_a_chunk_stay_small() {
    let (sender, path) = (size_of::<Sender>(), size_of::<SendPath>());
    assert!(sender + path <= 920, "{sender} bytes, and {path} per path");
    let chunk = size_of::<crate::outstanding::Chunk>();
    assert!(chunk <= 56, "{chunk} bytes");
}

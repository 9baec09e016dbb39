//! Both framings, side by side: fragments in random order, some of whose messages are abandoned (RFC 3758 §3.6, RFC 8260 §2.2, §2.3).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wire::{ChunkOut, FragmentHeader, Mid, SkippedMessage, SkippedRun};

const FRAMINGS: [Framing; 2] = [Framing::Data, Framing::IData];

/// A message to be sent, and how it is cut.
#[derive(Clone, Debug)]
struct Plan {
    stream: u16,
    unordered: bool,
    fragments: u32,
    fragment_bytes: usize,
    abandoned: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    (0..4u16, any::<bool>(), 1..6u32, 1..600usize, any::<bool>()).prop_map(
        |(stream, unordered, fragments, fragment_bytes, abandoned)| Plan {
            stream,
            unordered,
            fragments,
            fragment_bytes,
            abandoned,
        },
    )
}

/// A chunk on its way: a fragment of the message of this index.
#[derive(Clone, Debug)]
struct OnWire {
    plan: usize,
    header: FragmentHeader,
    payload: Vec<u8>,
}

fn payload_of(plan: &Plan, index: usize, fragment: u32) -> Vec<u8> {
    let byte = u8::try_from((7 * index + fragment as usize) % 251).unwrap();
    vec![byte; plan.fragment_bytes]
}

/// The chunks of all messages in the order of their TSNs. With I-DATA, messages of different streams, and ordered and unordered ones,
/// alternate as `turns` says; those of one stream and kind follow each other (RFC 8260 §2.2.3).
fn chunks_of(plans: &[Plan], framing: Framing, first: (u32, u32), turns: &[usize]) -> Vec<OnWire> {
    let (first_tsn, first_number) = first;
    let mut numbers = BTreeMap::new();
    let mut lanes: BTreeMap<(u16, bool), VecDeque<OnWire>> = BTreeMap::new();
    for (index, plan) in plans.iter().enumerate() {
        let lane = if framing == Framing::Data { (0, false) } else { (plan.stream, plan.unordered) };
        let number = numbers.entry((plan.stream, plan.unordered)).or_insert(first_number);
        for fragment in 0..plan.fragments {
            let header = FragmentHeader {
                tsn: Tsn(0),
                stream: StreamId(plan.stream),
                message: *number,
                fragment,
                ppid: u32::try_from(index).unwrap(),
                unordered: plan.unordered,
                end: fragment + 1 == plan.fragments,
                immediate: false,
            };
            let payload = payload_of(plan, index, fragment);
            lanes.entry(lane).or_default().push_back(OnWire { plan: index, header, payload });
        }
        *number = number.wrapping_add(1);
    }
    let mut chunks = Vec::new();
    let mut turns = turns.iter().cycle();
    while !lanes.is_empty() {
        let &lane = lanes.keys().nth(turns.next().unwrap() % lanes.len()).unwrap();
        let mut chunk = lanes.get_mut(&lane).and_then(VecDeque::pop_front).unwrap();
        lanes.retain(|_, lane| !lane.is_empty());
        chunk.header.tsn = Tsn(first_tsn.wrapping_add(u32::try_from(chunks.len()).unwrap()));
        chunks.push(chunk);
    }
    chunks
}

/// A receiver of either framing whose streams are at `first_number`, and what the application has fetched.
struct Side {
    framing: Framing,
    rig: Rig,
    first_tsn: u32,
    /// Indices of chunks that were accepted or skipped.
    passed: BTreeSet<usize>,
    messages: Vec<ReceivedMessage>,
}

impl Side {
    fn new(framing: Framing, (first_tsn, first_number): (u32, u32)) -> Self {
        let receiver = Receiver::new(&Config::default(), Tsn(first_tsn.wrapping_sub(8)), STREAMS, framing);
        let rig = Rig { receiver, now: Instant::ZERO };
        let mut side = Self { framing, rig, first_tsn, passed: BTreeSet::new(), messages: Vec::new() };
        // Streams begin at 0. Each jump passes less than half of the numbers.
        let first_number = if framing == Framing::Data { first_number & 0xffff } else { first_number };
        for jump in 1..=8 {
            let number = u32::try_from(u64::from(first_number) * jump / 8).unwrap().wrapping_sub(1);
            let skipped = (0..STREAMS).flat_map(|stream| [(stream, false, number), (stream, true, number)]);
            let skipped: Vec<_> = skipped.filter(|_| number != u32::MAX).collect();
            side.forward(first_tsn.wrapping_sub(9).wrapping_add(u32::try_from(jump).unwrap()), &skipped);
        }
        side
    }

    fn give(&mut self, chunks: &[OnWire], picks: &[usize]) {
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        for &pick in picks {
            assert!(packet.fragment(self.framing, &chunks[pick].header, &chunks[pick].payload));
        }
        packet.finish();
        let bytes = Bytes::from(buffer);
        for (chunk, &pick) in Packet::parse(&bytes).unwrap().chunks().zip(picks) {
            let verdict = match chunk.unwrap() {
                Chunk::Data(data) => self.rig.receiver.handle_data(&data, &bytes),
                Chunk::IData(data) => self.rig.receiver.handle_i_data(&data, &bytes),
                other => panic!("{other:?}"),
            };
            assert_eq!(
                verdict,
                Ok(if self.passed.insert(pick) { DataVerdict::Accepted } else { DataVerdict::Duplicate })
            );
        }
        self.done();
    }

    /// Receives FORWARD-TSN or I-FORWARD-TSN with stream, U bit and number of the skipped messages.
    fn forward(&mut self, new_cumulative: u32, skipped: &[(u16, bool, u32)]) {
        let new_cumulative = Tsn(new_cumulative);
        let ordered = skipped.iter().filter(|(_, unordered, _)| !unordered);
        let streams: Vec<_> =
            ordered.map(|&(stream, _, number)| (StreamId(stream), Ssn::wrap(number.into()))).collect();
        let each = |&(stream, unordered, mid)| SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
        let all: Vec<_> = skipped.iter().map(each).collect();
        let chunk = match self.framing {
            Framing::Data => ChunkOut::ForwardTsn { new_cumulative, streams: &streams },
            Framing::IData => ChunkOut::IForwardTsn { new_cumulative, streams: &all },
        };
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.chunk(&chunk));
        packet.finish();
        match Packet::parse(&buffer).unwrap().chunks().next() {
            Some(Ok(Chunk::ForwardTsn(forward))) => self.rig.receiver.handle_forward_tsn(&forward, buffer.len()),
            Some(Ok(Chunk::IForwardTsn(forward))) => self.rig.receiver.handle_i_forward_tsn(&forward, buffer.len()),
            other => panic!("{other:?}"),
        }
        self.done();
    }

    /// What a sender does that has abandoned these messages and passes over chunks that lie apart (docs/enhanced-forward-tsn.md): names all of their
    /// chunks that have not arrived.
    fn skip_apart(&mut self, messages: &BTreeSet<usize>, chunks: &[OnWire]) {
        let cumulative = (0..).find(|index| !self.passed.contains(index)).unwrap();
        let is_skipped = |&index: &usize| messages.contains(&chunks[index].plan) && !self.passed.contains(&index);
        let skipped: Vec<_> = (0..chunks.len()).filter(is_skipped).collect();
        let (mut blocks, mut runs) = (Vec::<(u16, u16)>::new(), Vec::<SkippedRun>::new());
        for &index in &skipped {
            let offset = u16::try_from(index + 1 - cumulative).unwrap();
            match blocks.last_mut() {
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => blocks.push((offset, offset)),
            }
            let FragmentHeader { stream, unordered, message, .. } = chunks[index].header;
            let first = if self.framing == Framing::Data { message & 0xffff } else { message };
            let run = SkippedRun { stream, unordered, first, more: 0 };
            if (self.framing == Framing::IData || !unordered) && !runs.contains(&run) {
                runs.push(run);
            }
        }
        self.passed.extend(skipped);
        let cumulative = Tsn(self.first_tsn.wrapping_add(u32::try_from(cumulative).unwrap()).wrapping_sub(1));
        let chunk = ChunkOut::EnhancedForwardTsn { cumulative, blocks: &blocks, messages: &runs };
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.chunk(&chunk));
        packet.finish();
        match Packet::parse(&buffer).unwrap().chunks().next() {
            Some(Ok(Chunk::EnhancedForwardTsn(forward))) => {
                self.rig.receiver.handle_enhanced_forward_tsn(&forward, buffer.len());
            }
            other => panic!("{other:?}"),
        }
        self.done();
    }

    fn done(&mut self) {
        self.rig.receiver.packet_done(self.rig.now);
        self.messages.extend(self.rig.messages());
    }

    /// What a sender does that has abandoned messages: skips them as far as nothing else is missing (RFC 3758 §3.5, C1 to C4).
    fn skip_abandoned(&mut self, plans: &[Plan], chunks: &[OnWire]) {
        let cumulative = (0..).find(|index| !self.passed.contains(index)).unwrap();
        let is_abandoned = |chunk: &&OnWire| plans[chunk.plan].abandoned;
        let skipped: Vec<_> = chunks[cumulative.min(chunks.len())..].iter().take_while(is_abandoned).collect();
        let Some(last) = skipped.last() else { return };
        let mut numbers = BTreeMap::new();
        for FragmentHeader { stream, unordered, message, .. } in skipped.iter().map(|chunk| chunk.header) {
            numbers.insert((stream.0, unordered), message);
        }
        let list: Vec<_> =
            numbers.into_iter().map(|((stream, unordered), number)| (stream, unordered, number)).collect();
        self.passed.extend(cumulative..cumulative + skipped.len());
        self.forward(last.header.tsn.0, &list);
    }

    /// Each message whole and once at most, those that were not abandoned once, ordered ones in order; and nothing is left behind.
    fn check(&mut self, plans: &[Plan], chunks: &[OnWire]) -> Result<(), TestCaseError> {
        let mut seen = BTreeSet::new();
        let mut last = BTreeMap::new();
        for message in &self.messages {
            let index = usize::try_from(message.ppid).unwrap();
            let plan = &plans[index];
            prop_assert!(seen.insert(index), "message {} came twice", index);
            prop_assert_eq!((message.stream.0, message.unordered), (plan.stream, plan.unordered));
            let whole: Vec<u8> = (0..plan.fragments).flat_map(|fragment| payload_of(plan, index, fragment)).collect();
            prop_assert_eq!(&message.payload[..], &whole[..]);
            if !plan.unordered {
                prop_assert!(
                    last.insert(plan.stream, index).is_none_or(|last| last < index),
                    "stream {} is out of order",
                    plan.stream
                );
            }
        }
        for (index, plan) in plans.iter().enumerate() {
            prop_assert!(plan.abandoned || seen.contains(&index), "message {} was lost", index);
        }
        let count = u32::try_from(chunks.len()).unwrap();
        prop_assert_eq!(self.rig.sack().cumulative, self.first_tsn.wrapping_add(count).wrapping_sub(1));
        prop_assert_eq!(self.rig.receiver.used_bytes(), 0, "something is held");
        Ok(())
    }
}

#[test]
fn a_fragment_of_the_highest_message_number_is_dropped_if_it_comes_after_it_was_skipped() {
    let plan = |stream, fragments, abandoned| Plan { stream, unordered: true, fragments, fragment_bytes: 1, abandoned };
    let (plans, firsts) = ([plan(0, 2, true), plan(1, 1, false)], (1, u32::MAX));
    let chunks = chunks_of(&plans, Framing::IData, firsts, &[0, 1, 0]);
    let mut side = Side::new(Framing::IData, firsts);
    side.skip_abandoned(&plans, &chunks);
    side.give(&chunks, &[2]);
    side.give(&chunks, &[1]);
    side.check(&plans, &chunks).unwrap();
}

fn firsts() -> impl Strategy<Value = (u32, u32)> {
    let tsns = prop_oneof![Just(1), Just(u32::MAX - 20), any::<u32>()];
    // The low 16 bits are the SSN, so that both kinds of numbers wrap.
    (tsns, prop_oneof![Just(0), Just(u32::MAX - 3), Just(0xfffd)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn both_framings_deliver_the_same_messages_in_whatever_order_their_fragments_come(
        plans in vec(plan(), 1..30),
        firsts in firsts(),
        turns in vec(0..8usize, 1..20),
        arrivals in vec(vec(any::<prop::sample::Index>(), 1..4), 0..60),
    ) {
        let plans: Vec<_> = plans.into_iter().map(|plan| Plan { abandoned: false, ..plan }).collect();
        let mut delivered = Vec::new();
        for framing in FRAMINGS {
            let chunks = chunks_of(&plans, framing, firsts, &turns);
            let mut side = Side::new(framing, firsts);
            for packet in &arrivals {
                let picks: Vec<_> = packet.iter().map(|pick| pick.index(chunks.len())).collect();
                side.give(&chunks, &picks);
            }
            (0..chunks.len()).for_each(|index| side.give(&chunks, &[index]));
            side.check(&plans, &chunks)?;
            side.messages.sort_by_key(|message| message.ppid);
            delivered.push(side.messages);
        }
        prop_assert_eq!(&delivered[0], &delivered[1]);
    }

    #[test]
    fn messages_are_skipped_and_the_others_delivered_once_and_in_order_and_nothing_stays_behind(
        plans in vec(plan(), 1..30),
        firsts in firsts(),
        turns in vec(0..8usize, 1..20),
        steps in vec((vec(any::<prop::sample::Index>(), 0..4), any::<bool>()), 0..60),
    ) {
        for framing in FRAMINGS {
            let chunks = chunks_of(&plans, framing, firsts, &turns);
            let mut side = Side::new(framing, firsts);
            for (packet, skips) in &steps {
                let picks: Vec<_> = packet.iter().map(|pick| pick.index(chunks.len())).collect();
                if !picks.is_empty() {
                    side.give(&chunks, &picks);
                }
                if *skips {
                    side.skip_abandoned(&plans, &chunks);
                }
            }
            for index in (0..chunks.len()).filter(|&index| !plans[chunks[index].plan].abandoned) {
                side.give(&chunks, &[index]);
                side.skip_abandoned(&plans, &chunks);
            }
            side.skip_abandoned(&plans, &chunks);
            side.check(&plans, &chunks)?;
        }
    }

    #[test]
    fn messages_that_lie_apart_are_skipped_and_the_others_delivered_once_and_in_order_and_nothing_stays_behind(
        plans in vec(plan(), 1..30),
        firsts in firsts(),
        turns in vec(0..8usize, 1..20),
        steps in vec((vec(any::<prop::sample::Index>(), 0..4), vec(any::<prop::sample::Index>(), 0..3), any::<bool>()), 0..60),
    ) {
        for framing in FRAMINGS {
            let chunks = chunks_of(&plans, framing, firsts, &turns);
            let mut side = Side::new(framing, firsts);
            let abandoned: BTreeSet<_> = (0..plans.len()).filter(|&index| plans[index].abandoned).collect();
            for (packet, skips, plain) in &steps {
                let picks: Vec<_> = packet.iter().map(|pick| pick.index(chunks.len())).collect();
                if !picks.is_empty() {
                    side.give(&chunks, &picks);
                }
                let skips: BTreeSet<_> = skips.iter().map(|skip| skip.index(plans.len())).collect();
                side.skip_apart(&(&skips & &abandoned), &chunks);
                if *plain {
                    side.skip_abandoned(&plans, &chunks);
                }
            }
            side.skip_apart(&abandoned, &chunks);
            for index in (0..chunks.len()).filter(|&index| !plans[chunks[index].plan].abandoned) {
                side.give(&chunks, &[index]);
            }
            side.check(&plans, &chunks)?;
        }
    }

    /// A peer that sends anything: no panic, and no more memory in use than the bounds allow.
    #[test]
    fn a_hostile_peer_that_skips_messages_can_neither_crash_the_receiver_nor_make_it_hold_more_than_two_buffers(
        steps in vec((0..200u32, 0..STREAMS + 1, 0..4u32, 0..16u8, 0..6u32, 1..3_000usize), 1..300),
        fetches: bool,
        framing in prop::sample::select(&FRAMINGS),
    ) {
        const BUFFER_BYTES: usize = 10_000;
        let mut config = Config::default();
        config.limits.receive_buffer_bytes = BUFFER_BYTES;
        config.limits.message_bytes_max = 8_000;
        let mut rig = Rig { receiver: Receiver::new(&config, Tsn(1), STREAMS, framing), now: Instant::ZERO };
        for (tsn, stream, message, bits, fragment, payload_bytes) in steps {
            let header = FragmentHeader {
                tsn: Tsn(tsn),
                stream: StreamId(stream),
                message,
                fragment,
                ppid: 0,
                unordered: bits & 1 != 0,
                end: bits & 2 != 0,
                immediate: false,
            };
            let mut buffer = Vec::new();
            let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
            let new_cumulative = Tsn(if bits & 4 == 0 { tsn } else { tsn << 24 });
            let ssn = Ssn::wrap(message.into());
            let skipped = SkippedMessage { stream: StreamId(stream), unordered: bits & 1 != 0, mid: Mid(message) };
            let is_written = match (framing, bits & 8 == 0) {
                (framing, true) => packet.fragment(framing, &header, &vec![0; payload_bytes]),
                _ if bits & 2 != 0 => {
                    let run = SkippedRun { stream: StreamId(stream), unordered: bits & 1 != 0, first: message, more: u16::try_from(0x7fff & (fragment << (tsn % 13))).unwrap() };
                    let first = 1 + u16::try_from(fragment).unwrap();
                    let block = (first, first + u16::try_from(payload_bytes % 7).unwrap());
                    packet.chunk(&ChunkOut::EnhancedForwardTsn { cumulative: new_cumulative, blocks: &[block], messages: &[run, run] })
                }
                (Framing::Data, _) => packet.chunk(&ChunkOut::ForwardTsn { new_cumulative, streams: &[(StreamId(stream), ssn)] }),
                (Framing::IData, _) => packet.chunk(&ChunkOut::IForwardTsn { new_cumulative, streams: &[skipped] }),
            };
            prop_assert!(is_written);
            packet.finish();
            let bytes = Bytes::from(buffer);
            let broke_off = match Packet::parse(&bytes).unwrap().chunks().next() {
                Some(Ok(Chunk::Data(data))) => rig.receiver.handle_data(&data, &bytes).is_err(),
                Some(Ok(Chunk::IData(data))) => rig.receiver.handle_i_data(&data, &bytes).is_err(),
                Some(Ok(Chunk::ForwardTsn(forward))) => {
                    rig.receiver.handle_forward_tsn(&forward, bytes.len());
                    false
                }
                Some(Ok(Chunk::IForwardTsn(forward))) => {
                    rig.receiver.handle_i_forward_tsn(&forward, bytes.len());
                    false
                }
                Some(Ok(Chunk::EnhancedForwardTsn(forward))) => {
                    rig.receiver.handle_enhanced_forward_tsn(&forward, bytes.len());
                    false
                }
                other => panic!("{other:?}"),
            };
            rig.receiver.packet_done(rig.now);
            // An association would end at the first violation.
            if broke_off {
                break;
            }
            prop_assert!(rig.receiver.used_bytes() <= 2 * BUFFER_BYTES + cost_bytes(8_000));
            if fetches {
                rig.receiver.poll_message();
            }
        }
        let sack = rig.sack();
        prop_assert!(sack.gaps.is_sorted_by(|(_, last), (first, _)| last + 1 < *first));
    }
}

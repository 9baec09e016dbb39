use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A message to be sent, and how it is cut.
#[derive(Clone, Debug)]
struct Plan {
    stream: u16,
    unordered: bool,
    fragments: usize,
    fragment_bytes: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    (0..STREAMS, any::<bool>(), 1..6usize, 1..300usize).prop_map(|(stream, unordered, fragments, fragment_bytes)| {
        Plan { stream, unordered, fragments, fragment_bytes }
    })
}

/// The chunks of all messages in the order of their TSNs, from `first_tsn` on; the PPID numbers the messages.
fn chunks_of(plans: &[Plan], first_tsn: u32) -> Vec<Piece> {
    let mut ssns = [0u16; STREAMS as usize];
    let mut chunks = Vec::new();
    for (number, plan) in (0..).zip(plans) {
        let next_ssn = &mut ssns[usize::from(plan.stream)];
        for index in 0..plan.fragments {
            let bits = match (index == 0, index + 1 == plan.fragments) {
                (true, true) => "BE",
                (true, false) => "B",
                (false, true) => "E",
                (false, false) => "M",
            };
            let tsn = first_tsn.wrapping_add(u32::try_from(chunks.len()).unwrap());
            let payload = vec![u8::try_from(index).unwrap(); plan.fragment_bytes];
            let mut chunk = piece(tsn, plan.stream, *next_ssn, bits, payload).ppid(number);
            chunk.header.unordered = plan.unordered;
            chunks.push(chunk);
        }
        *next_ssn += u16::from(!plan.unordered);
    }
    chunks
}

fn whole_payload(plan: &Plan) -> Vec<u8> {
    (0..plan.fragments).flat_map(|index| vec![u8::try_from(index).unwrap(); plan.fragment_bytes]).collect()
}

/// What a SACK must say if these chunks, counted from 0, have been accepted.
fn expected_gaps(accepted: &BTreeSet<usize>) -> (usize, Vec<(u16, u16)>) {
    let cumulative = (0..).find(|index| !accepted.contains(index)).unwrap();
    let mut gaps: Vec<(u16, u16)> = Vec::new();
    for &index in accepted.range(cumulative..) {
        let offset = u16::try_from(index - cumulative + 1).unwrap();
        match gaps.last_mut() {
            Some((_, last)) if *last + 1 == offset => *last = offset,
            _ => gaps.push((offset, offset)),
        }
    }
    (cumulative, gaps)
}

/// Every message exactly once; the ordered ones of each stream in the order in which they were sent.
fn check_delivery(plans: &[Plan], messages: &[ReceivedMessage]) -> Result<(), TestCaseError> {
    let mut numbers: Vec<u32> = messages.iter().map(|message| message.ppid).collect();
    numbers.sort_unstable();
    prop_assert_eq!(numbers, (0..u32::try_from(plans.len()).unwrap()).collect::<Vec<_>>());
    for message in messages {
        let plan = &plans[usize::try_from(message.ppid).unwrap()];
        prop_assert_eq!((message.stream.0, message.unordered), (plan.stream, plan.unordered));
        prop_assert_eq!(&message.payload[..], &whole_payload(plan)[..]);
    }
    for stream in 0..STREAMS {
        let ordered = messages.iter().filter(|message| message.stream.0 == stream && !message.unordered);
        prop_assert!(ordered.map(|message| message.ppid).is_sorted());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Loss, reordering, duplication and bundling: `arrivals` picks chunks at random; then missing ones are repeated.
    #[test]
    fn every_message_is_delivered_once_and_in_order_and_every_sack_tells_what_has_arrived(
        plans in vec(plan(), 1..40),
        first_tsn in prop_oneof![Just(1), Just(u32::MAX - 20), any::<u32>()],
        arrivals in vec(vec(any::<prop::sample::Index>(), 1..4), 0..80),
        buffer_bytes in prop_oneof![Just(1_500usize), Just(6_000), Just(1 << 20)],
    ) {
        let chunks = chunks_of(&plans, first_tsn);
        let mut config = Config::default();
        config.limits.receive_buffer_bytes = buffer_bytes;
        let receiver = Receiver::new(&config, Tsn(first_tsn), STREAMS, Framing::Data);
        let mut rig = Rig { receiver, now: Instant::ZERO };
        let (mut accepted, mut messages) = (BTreeSet::new(), Vec::new());
        let random = arrivals.iter().map(|packet| packet.iter().map(|pick| pick.index(chunks.len())).collect());
        let repeated = (0..chunks.len()).map(|index| vec![index]);
        for packet in random.chain(repeated).collect::<Vec<Vec<usize>>>() {
            let pieces: Vec<Piece> = packet.iter().map(|&index| chunks[index].clone()).collect();
            for (index, verdict) in packet.into_iter().zip(rig.packet(&pieces)) {
                match verdict.unwrap() {
                    DataVerdict::Accepted => prop_assert!(accepted.insert(index)),
                    DataVerdict::Duplicate => prop_assert!(accepted.contains(&index)),
                    DataVerdict::DroppedNoSpace => prop_assert!(!accepted.contains(&index)),
                    DataVerdict::InvalidStream(stream) => panic!("{stream} exists"),
                }
            }
            let sack = rig.sack();
            let (cumulative, gaps) = expected_gaps(&accepted);
            prop_assert_eq!(sack.cumulative, first_tsn.wrapping_add(u32::try_from(cumulative).unwrap()).wrapping_sub(1));
            prop_assert_eq!(sack.gaps, gaps);
            messages.extend(rig.messages());
        }
        prop_assert_eq!(accepted.len(), chunks.len(), "the lowest missing chunk always finds room");
        prop_assert!(!rig.receiver.has_message());
        check_delivery(&plans, &messages)?;
        prop_assert_eq!(rig.receiver.used_bytes(), 0, "nothing is left behind");
        prop_assert!(rig.sack().a_rwnd >= PACKET_BYTES_MAX.min(buffer_bytes / 4));
    }

    /// A peer that sends anything: no panic, and no more memory in use than the bounds allow.
    #[test]
    fn a_hostile_peer_can_neither_crash_the_receiver_nor_make_it_hold_more_than_two_buffers(
        chunks in vec((0..200u32, 0..STREAMS + 1, 0..4u16, 0..16u8, 1..3_000usize), 1..300),
        fetches: bool,
    ) {
        const BUFFER_BYTES: usize = 10_000;
        let mut rig = Rig::with(|config| {
            config.limits.receive_buffer_bytes = BUFFER_BYTES;
            config.limits.message_bytes_max = 8_000;
        });
        for (tsn, stream, ssn, bits, payload_bytes) in chunks {
            let mut chunk = piece(tsn, stream, ssn, "", vec![0; payload_bytes]);
            chunk.header.beginning = bits & 3 != 0;
            chunk.header.end = bits & 6 != 0;
            chunk.header.unordered = bits & 8 != 0;
            // An association would end at the first violation.
            if rig.packet(&[chunk])[0].is_err() {
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

use festina_units::Duration;

use super::super::sack::DUPLICATES_MAX;
use super::*;

const DELAY: Duration = Duration::from_millis(200);

/// A rig that has received TSN 1 and acknowledged it, so that the rule for the first DATA chunk is done with.
fn warm() -> Rig {
    warm_with(|_| {})
}

fn warm_with(change: impl FnOnce(&mut Config)) -> Rig {
    let mut rig = Rig::with(change);
    rig.accept(&[whole(1, 0, 0, "first")]);
    rig.sack();
    assert!(!rig.receiver.sack_useful());
    rig
}

#[test]
fn before_any_data_the_cumulative_tsn_is_the_initial_tsn_minus_one_rfc9260_3_3_4() {
    assert_eq!(Rig::new().sack().cumulative, 0);
    let mut rig = Rig { receiver: Receiver::new(&Config::default(), Tsn(0), 1, Framing::Data), now: Instant::ZERO };
    assert_eq!(rig.sack().cumulative, u32::MAX);
}

#[test]
fn the_first_data_chunk_of_an_association_is_acknowledged_at_once_rfc9260_5_1() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().cumulative, 1);
    assert!(!rig.receiver.sack_wanted());
}

#[test]
fn a_single_packet_is_acknowledged_when_the_delay_is_over_rfc9260_6_2() {
    let mut rig = warm();
    let arrival = rig.now;
    rig.accept(&[whole(2, 0, 1, "a")]);
    assert!(!rig.receiver.sack_wanted());
    assert!(rig.receiver.sack_useful(), "it may go with data");
    assert_eq!(rig.receiver.deadline(), Some(arrival + DELAY));
    rig.wait(DELAY - Duration::from_nanos(1));
    assert!(!rig.receiver.sack_wanted());
    rig.wait(Duration::from_nanos(1));
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.receiver.deadline(), None);
}

#[test]
fn the_delay_runs_from_the_first_unacknowledged_packet_rfc9260_6_2() {
    let mut rig = warm_with(|config| config.sack.every_packets = 9);
    let arrival = rig.now;
    rig.accept(&[whole(2, 0, 1, "a")]);
    rig.wait(DELAY / 2);
    rig.accept(&[whole(3, 0, 2, "b")]);
    assert_eq!(rig.receiver.deadline(), Some(arrival + DELAY));
}

#[test]
fn every_second_packet_is_acknowledged_at_once_however_many_chunks_each_has_rfc9260_6_2() {
    let mut rig = warm();
    for round in 0..5 {
        let tsn = 2 + 4 * round;
        let ssn = u16::try_from(tsn).unwrap() - 1;
        rig.packet(&[whole(tsn, 0, ssn, "a"), whole(tsn + 1, 0, ssn + 1, "b")]);
        assert!(!rig.receiver.sack_wanted());
        rig.packet(&[whole(tsn + 2, 0, ssn + 2, "c"), whole(tsn + 3, 0, ssn + 3, "d")]);
        assert!(rig.receiver.sack_wanted());
        assert_eq!(rig.sack().cumulative, tsn + 3);
        assert_eq!(rig.receiver.deadline(), None);
    }
}

#[test]
fn the_number_of_packets_per_acknowledgement_is_a_setting() {
    let mut rig = warm_with(|config| config.sack.every_packets = 4);
    rig.accept(&[whole(2, 0, 1, "a"), whole(3, 0, 2, "b"), whole(4, 0, 3, "c")]);
    assert!(!rig.receiver.sack_wanted());
    rig.accept(&[whole(5, 0, 4, "d")]);
    assert!(rig.receiver.sack_wanted());
}

/// Has `packets` whole messages arrive in packets of their own, at the same instant; after which of them a SACK left at once.
fn batch(rig: &mut Rig, first: u32, packets: u32) -> Vec<u32> {
    let mut answered = Vec::new();
    for packet in 1..=packets {
        let tsn = first + packet - 1;
        rig.accept(&[whole(tsn, 0, u16::try_from(tsn - 1).unwrap(), "a")]);
        if rig.receiver.sack_wanted() {
            assert_eq!(rig.sack().cumulative, tsn);
            answered.push(packet);
        }
    }
    answered
}

/// The same, after enough single packets that batches may have fewer SACKs; the next TSN is 66.
fn long_warm() -> Rig {
    let mut rig = warm();
    rig.receiver.answer_batches(true);
    for tsn in 2..=65 {
        rig.wait(Duration::from_millis(1));
        batch(&mut rig, tsn, 1);
    }
    rig
}

#[test]
fn the_first_packets_of_an_association_are_answered_as_the_standard_has_it() {
    let mut rig = warm();
    rig.receiver.answer_batches(true);
    rig.wait(Duration::from_millis(1));
    assert_eq!(batch(&mut rig, 2, 10), [2, 4, 6, 8, 10]);
}

#[test]
fn a_batch_has_a_sack_for_sixteen_packets_and_one_at_its_end_if_the_peer_agreed() {
    let mut rig = long_warm();
    rig.wait(Duration::from_millis(1));
    assert_eq!(batch(&mut rig, 66, 25), [2, 4, 20]);
    assert_eq!(rig.receiver.deadline(), Some(rig.now), "the rest is due at the end of the batch");
    rig.wait(Duration::ZERO);
    assert_eq!(rig.sack().cumulative, 90);
    assert_eq!(rig.receiver.deadline(), None);
    // The next batch is known for one from the start.
    rig.wait(Duration::from_millis(1));
    assert_eq!(batch(&mut rig, 91, 18), [16]);
    rig.wait(Duration::ZERO);
    assert_eq!(rig.sack().cumulative, 108);
}

#[test]
fn without_agreement_a_batch_is_answered_as_the_standard_has_it_rfc9260_6_2() {
    let mut rig = warm();
    rig.wait(Duration::from_millis(1));
    assert_eq!(batch(&mut rig, 2, 9), [2, 4, 6, 8]);
    assert_eq!(rig.receiver.deadline(), Some(rig.now + DELAY));
}

#[test]
fn packets_that_come_four_at_a_time_are_no_batch() {
    let mut rig = long_warm();
    for round in 0..5 {
        rig.wait(Duration::from_millis(1));
        assert_eq!(batch(&mut rig, 66 + 4 * round, 4), [2, 4]);
        assert_eq!(rig.receiver.deadline(), None);
    }
}

#[test]
fn gaps_and_the_i_bit_are_answered_at_once_within_a_batch() {
    let mut rig = long_warm();
    rig.wait(Duration::from_millis(1));
    assert_eq!(batch(&mut rig, 66, 7), [2, 4]);
    rig.accept(&[whole(73, 0, 72, "a").immediate()]);
    assert!(rig.receiver.sack_wanted());
    rig.sack();
    rig.accept(&[whole(74, 0, 73, "a"), whole(75, 0, 74, "a"), whole(77, 0, 76, "a")]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().cumulative, 75);
}

#[test]
fn without_delay_every_packet_is_acknowledged_at_once() {
    let mut rig = warm_with(|config| config.sack.delay = Duration::ZERO);
    rig.accept(&[whole(2, 0, 1, "a")]);
    assert!(rig.receiver.sack_wanted());
}

#[test]
fn a_packet_without_data_changes_nothing() {
    let mut rig = warm();
    rig.receiver.packet_done(rig.now);
    rig.receiver.packet_done(rig.now);
    assert!(!rig.receiver.sack_useful());
    rig.accept(&[whole(2, 0, 1, "a")]);
    assert!(!rig.receiver.sack_wanted());
}

#[test]
fn each_packet_above_a_gap_and_the_one_that_fills_it_are_acknowledged_at_once_rfc9260_6_7() {
    let mut rig = warm();
    rig.accept(&[whole(3, 0, 2, "c")]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!((rig.sack().cumulative, rig.sack().gaps), (1, vec![(2, 2)]));
    rig.accept(&[whole(4, 0, 3, "d")]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().gaps, [(2, 3)]);
    rig.accept(&[whole(2, 0, 1, "b")]);
    assert!(rig.receiver.sack_wanted());
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (4, vec![]));
    rig.accept(&[whole(5, 0, 4, "e")]);
    assert!(!rig.receiver.sack_wanted(), "no gap any more");
}

#[test]
fn several_gaps_are_reported_as_offsets_from_the_cumulative_tsn_rfc9260_3_3_4() {
    let mut rig = Rig::new();
    for tsn in (1..=12).chain([15, 14, 17]) {
        rig.accept(&[whole(tsn, 0, 0, "x").unordered()]);
    }
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (12, vec![(2, 3), (5, 5)]));
}

#[test]
fn the_cumulative_tsn_and_the_gaps_survive_the_wrap_of_the_tsn_rfc9260_3_3_1() {
    let receiver = Receiver::new(&Config::default(), Tsn(u32::MAX - 1), STREAMS, Framing::Data);
    let mut rig = Rig { receiver, now: Instant::ZERO };
    rig.accept(&[whole(u32::MAX - 1, 0, 0, "a"), whole(0, 1, 0, "c"), whole(2, 2, 0, "e")]);
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (u32::MAX - 1, vec![(2, 2), (4, 4)]));
    rig.accept(&[whole(u32::MAX, 0, 1, "b"), whole(1, 1, 1, "d")]);
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (2, vec![]));
    assert_eq!(rig.packet(&[whole(u32::MAX, 0, 1, "b")]), [Ok(DataVerdict::Duplicate)]);
}

#[test]
fn a_packet_with_nothing_but_duplicates_is_acknowledged_at_once_and_each_is_reported_once_rfc9260_6_2() {
    let mut rig = warm();
    let duplicates = [whole(1, 0, 0, "first"), whole(1, 0, 0, "first")];
    assert_eq!(rig.packet(&duplicates), [Ok(DataVerdict::Duplicate); 2]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().duplicates, [1, 1]);
    assert_eq!(rig.sack().duplicates, []);
}

#[test]
fn duplicates_beside_new_data_are_reported_with_the_delayed_sack_rfc9260_6_2() {
    let mut rig = warm();
    rig.packet(&[whole(1, 0, 0, "first"), whole(2, 0, 1, "second")]);
    assert!(!rig.receiver.sack_wanted());
    assert_eq!(rig.sack().duplicates, [1]);
}

#[test]
fn a_duplicate_above_a_gap_is_recognised() {
    let mut rig = warm();
    rig.accept(&[whole(5, 0, 4, "e"), whole(3, 0, 2, "c")]);
    for tsn in [3, 5] {
        let piece = whole(tsn, 0, u16::try_from(tsn).unwrap() - 1, "x");
        assert_eq!(rig.packet(&[piece]), [Ok(DataVerdict::Duplicate)]);
    }
    let sack = rig.sack();
    assert_eq!((sack.gaps, sack.duplicates), (vec![(2, 2), (4, 4)], vec![3, 5]));
}

/// A warm rig with this many gaps, all reported.
fn with_gaps(gaps: u32, change: impl FnOnce(&mut Config)) -> Rig {
    let mut rig = warm_with(change);
    rig.accept(&(0..gaps).map(|gap| whole(3 + 2 * gap, 0, 0, "x").unordered()).collect::<Vec<_>>());
    assert_eq!(rig.sack().gaps.len(), gaps as usize);
    rig
}

#[test]
fn a_sack_that_reports_nothing_new_leaves_at_once_unless_it_has_more_than_three_times_the_bytes_it_answers() {
    let mut rig = with_gaps(16, |_| {});
    // 32 bytes come, and 12 + 16 + 16 * 4 + 4 bytes leave.
    rig.packet(&[whole(3, 0, 0, "x").immediate()]);
    assert!(rig.receiver.sack_wanted());
    let mut rig = with_gaps(18, |_| {});
    rig.packet(&[whole(3, 0, 0, "x").immediate()]);
    assert!(!rig.receiver.sack_wanted());
    rig.packet(&[whole(3, 0, 0, "x").immediate()]);
    assert!(rig.receiver.sack_wanted(), "enough has come");
    assert_eq!(rig.sack().duplicates, [3, 3]);
    rig.packet(&[whole(40_000, 0, 0, "x")]);
    assert!(!rig.receiver.sack_wanted(), "a chunk that is dropped brings nothing new either");
    rig.wait(DELAY);
    assert!(rig.receiver.sack_wanted());
}

#[test]
fn a_sack_that_reports_something_new_leaves_at_once_however_many_gaps_it_reports_rfc9260_6_7() {
    let mut rig = with_gaps(300, |_| {});
    rig.accept(&[whole(5_000, 0, 0, "x").unordered()]);
    assert!(rig.receiver.sack_wanted());
}

#[test]
fn a_duplicate_in_a_full_packet_is_answered_at_once_however_many_gaps_there_are_rfc9260_6_2() {
    let mut rig = with_gaps(300, |_| {});
    rig.packet(&[whole(3, 0, 0, [0; 1_000])]);
    assert!(rig.receiver.sack_wanted());
}

#[test]
fn a_long_sack_that_reports_nothing_new_waits_a_little_even_without_delayed_acknowledgements() {
    let mut rig = with_gaps(300, |config| config.sack.delay = Duration::ZERO);
    rig.packet(&[whole(3, 0, 0, "x")]);
    assert!(!rig.receiver.sack_wanted());
    rig.wait(Duration::from_millis(20));
    assert!(rig.receiver.sack_wanted());
}

#[test]
fn the_list_of_duplicates_is_bounded() {
    let mut rig = warm();
    for _ in 0..1_000 {
        rig.packet(&[whole(1, 0, 0, "first")]);
    }
    assert_eq!(rig.sack().duplicates.len(), DUPLICATES_MAX);
}

#[test]
fn the_i_bit_asks_for_a_sack_without_delay_rfc9260_6_2_and_rfc7053() {
    let mut rig = warm();
    rig.packet(&[whole(2, 0, 1, "a").immediate(), whole(3, 0, 2, "b")]);
    assert!(rig.receiver.sack_wanted());
    rig.sack();
    rig.packet(&[whole(4, 0, 3, "c")]);
    assert!(!rig.receiver.sack_wanted(), "the I bit concerns its own packet only");
}

#[test]
fn a_requested_sack_leaves_at_once() {
    let mut rig = warm();
    rig.receiver.request_sack();
    assert!(rig.receiver.sack_wanted() && rig.receiver.sack_useful());
}

#[test]
fn a_sack_that_does_not_fit_stays_wanted() {
    let mut rig = warm();
    rig.packet(&[whole(1, 0, 0, "first")]);
    let mut buffer = Vec::new();
    let mut packet = PacketBuilder::new(&mut buffer, HEADER, 24);
    assert!(!rig.receiver.write_sack(false, &mut packet));
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().duplicates, [1]);
}

#[test]
fn when_the_delay_runs_out_the_empty_queue_gives_its_memory_back() {
    let mut rig = warm();
    rig.messages();
    rig.accept(&[whole(2, 0, 1, "a")]);
    rig.messages();
    assert!(rig.receiver.ready.capacity() > 0);
    rig.wait(DELAY);
    assert_eq!(rig.receiver.ready.capacity(), 0);
}

#[test]
fn nr_sack_takes_the_place_of_sack_where_there_are_gaps_and_says_that_nothing_will_be_taken_back() {
    let mut rig = warm();
    rig.accept(&[whole(3, 0, 1, "a"), whole(5, 0, 2, "b")]);
    let mut buffer = Vec::new();
    let mut packet = PacketBuilder::new(&mut buffer, HEADER, PACKET_BYTES_MAX);
    assert!(rig.receiver.write_sack(true, &mut packet));
    packet.finish();
    let packet = Packet::parse(&buffer).unwrap();
    let Some(Ok(Chunk::NrSack(sack))) = packet.chunks().next() else { panic!("no NR-SACK") };
    assert_eq!(sack.gap_ack_blocks().len(), 0);
    let blocks: Vec<_> = sack.nr_gap_ack_blocks().collect();
    assert_eq!(
        blocks,
        [
            (3 - sack.cumulative_tsn.0, 3 - sack.cumulative_tsn.0),
            (5 - sack.cumulative_tsn.0, 5 - sack.cumulative_tsn.0)
        ]
        .map(|(a, b)| (u16::try_from(a).unwrap(), u16::try_from(b).unwrap()))
    );
    assert!(!rig.receiver.sack_wanted());
}

use proptest::prelude::*;

use super::*;
use crate::outstanding::{Chunk, Transmission};
use crate::path_id::PathId;
use crate::wire::Tsn;

/// TSN 1, unwrapped.
const ONE: u64 = (1 << 32) + 1;
const PLAIN: SackTerms = SackTerms {
    in_fast_recovery: false,
    fast_retransmit: Some(FastRetransmit::RFC9260),
    overtaken_after: None,
    early_retransmit: false,
    sends_copies: false,
};

/// Chunks with the TSNs 1 to `count`, of 116 bytes each.
fn ledger(count: usize) -> Ledger {
    let mut ledger = Ledger::new(ONE);
    (0..count).for_each(|_| ledger.push(Chunk::for_test(Instant::ZERO)));
    ledger
}

fn apply(ledger: &mut Ledger, cumulative: u32, gaps: &[(u16, u16)]) -> Option<Digest> {
    apply_sack(ledger, &Sack::new_for_test(Tsn(cumulative), 0, gaps, &[])).expect("the SACK is sound")
}

fn apply_sack(ledger: &mut Ledger, sack: &Sack<'_>) -> Result<Option<Digest>, ProtocolViolation> {
    let acknowledgement = Acknowledgement { cumulative_tsn: sack.cumulative_tsn, sack: Some(sack), non_renegable: &[] };
    Ok(digest_of(ledger, acknowledgement, 0)?.map(|(digest, _)| digest))
}

/// The digest of an acknowledgement, and how many chunks it acknowledges for good; `None` if it is no news.
fn digest_of(
    ledger: &mut Ledger,
    acknowledgement: Acknowledgement<'_>,
    forwarded: u64,
) -> Result<Option<(Digest, usize)>, ProtocolViolation> {
    let mut settled = 0;
    let mut digest = Digest::default();
    let is_news = ledger.apply(acknowledgement, PLAIN, forwarded, &mut digest, |_, _| settled += 1)?;
    Ok(is_news.then_some((digest, settled)))
}

/// One letter per chunk: flying, acked by a gap block, lost, acked by an NR block, abandoned in flight or otherwise.
fn states(ledger: &Ledger) -> String {
    let letter = |chunk: &Chunk| match chunk.state {
        ChunkState::InFlight => 'f',
        ChunkState::GapAcked => 'a',
        ChunkState::Lost(_) => 'l',
        ChunkState::NonRenegable => 'n',
        ChunkState::AbandonedOnTheWay => 'x',
        ChunkState::Abandoned => '-',
    };
    ledger.iter().map(letter).collect()
}

/// Compares the sums with a new count.
fn check_sums(ledger: &mut Ledger) {
    let is_reported = |chunk: &Chunk| matches!(chunk.state, ChunkState::GapAcked | ChunkState::NonRenegable);
    let count = |state: fn(&Chunk) -> bool| ledger.iter().filter(|chunk| state(chunk)).count();
    assert_eq!(ledger.in_flight().chunks, count(|chunk| chunk.state == ChunkState::InFlight));
    assert_eq!(ledger.lost().chunks, count(|chunk| matches!(chunk.state, ChunkState::Lost(_))));
    assert_eq!(ledger.gap_acked_chunks(), count(is_reported));
    assert_eq!(ledger.in_flight().bytes, 116 * ledger.in_flight().chunks);
    assert_eq!(ledger.in_flight().payload_bytes, 100 * ledger.in_flight().chunks);
    assert_eq!(ledger.lost().bytes, 116 * ledger.lost().chunks);
    let on_the_way = count(|chunk| chunk.state.is_undecided());
    assert_eq!(ledger.on_the_way_bytes(PathId::PRIMARY), 116 * on_the_way);
    let first_lost =
        (ledger.first_tsn()..).zip(ledger.iter()).find(|(_, chunk)| matches!(chunk.state, ChunkState::Lost(_)));
    let first_lost = first_lost.map_or(ledger.next_tsn(), |(tsn, _)| tsn);
    assert_eq!(ledger.first_lost(), first_lost);
}

#[test]
fn what_lies_between_two_lost_chunks_is_passed_over_once() {
    let mut ledger = ledger(2_000);
    let lost: Vec<_> = (ledger.first_tsn()..ledger.next_tsn()).step_by(1_000).collect();
    lost.iter().for_each(|&tsn| ledger.lose(tsn, RetransmissionCause::Fast));
    let steps: Vec<_> = lost
        .iter()
        .map(|&tsn| {
            assert_eq!(ledger.first_lost(), tsn);
            ledger.resend(tsn, Instant::ZERO, Transmission::Repair(RetransmissionCause::Fast), PathId(0), false);
            ledger.first_lost() - tsn
        })
        .collect();
    assert_eq!(steps, [1_000, 1_000], "to the next lost chunk, and to the end");
    ledger.lose(lost[1] - 1, RetransmissionCause::Fast);
    assert_eq!(ledger.first_lost(), lost[1] - 1, "a chunk that is lost later counts wherever it stands");
}

#[test]
fn a_cumulative_ack_shows_what_it_acknowledges_in_order() {
    let mut ledger = ledger(5);
    let acknowledgement = Acknowledgement { cumulative_tsn: Tsn(3), sack: None, non_renegable: &[] };
    let (report, settled) = digest_of(&mut ledger, acknowledgement, 0).expect("sound").expect("it is news");
    assert_eq!(settled, 3);
    assert!(report.cumulative_advanced);
    let credit = report.credits.of(PathId::PRIMARY);
    assert_eq!((credit.acked_bytes, credit.in_flight_bytes_before), (3 * 116, 5 * 116));
    assert_eq!((ledger.first_tsn(), ledger.next_tsn()), (ONE + 3, ONE + 5));
    check_sums(&mut ledger);
}

#[test]
fn bytes_are_acknowledged_once_whether_by_gap_block_or_cumulatively() {
    let mut ledger = ledger(3);
    let acked_bytes = |report: Option<Digest>| report.map(|report| report.credits.of(PathId::PRIMARY).acked_bytes);
    assert_eq!(acked_bytes(apply(&mut ledger, 0, &[(2, 2)])), Some(116));
    assert_eq!(acked_bytes(apply(&mut ledger, 0, &[(2, 2)])), Some(0));
    assert_eq!(acked_bytes(apply(&mut ledger, 3, &[])), Some(2 * 116));
}

#[test]
fn an_old_sack_is_told_apart_and_a_repeated_one_is_not() {
    let mut ledger = ledger(3);
    apply(&mut ledger, 2, &[]);
    assert_eq!(apply(&mut ledger, 1, &[(2, 2)]), None);
    assert!(apply(&mut ledger, 2, &[]).is_some_and(|report| !report.cumulative_advanced));
}

#[test]
fn blocks_are_offsets_from_the_cumulative_tsn_section_3_3_4() {
    let mut ledger = ledger(8);
    apply(&mut ledger, 1, &[(2, 3), (5, 5)]);
    assert_eq!(states(&ledger), "faafaff");
    check_sums(&mut ledger);
}

#[test]
fn blocks_that_make_no_sense_are_passed_over() {
    let mut ledger = ledger(10);
    apply(&mut ledger, 0, &[(1, 1), (0, 3), (6, 5), (4, 5), (5, 7), (2, 2), (8, 8), (0, 0)]);
    assert_eq!(states(&ledger), "fffaaaaaff");
    check_sums(&mut ledger);
}

#[test]
fn acknowledging_beyond_what_was_sent_is_an_error_and_changes_no_gap() {
    let mut ledger = ledger(4);
    let beyond = Sack::new_for_test(Tsn(0), 0, &[(2, 5)], &[]);
    assert!(apply_sack(&mut ledger, &beyond).is_err());
    assert_eq!(states(&ledger), "ffff");
    assert!(digest_of(&mut ledger, Acknowledgement::cumulative(Tsn(5)), 0).is_err());
    let far = Sack::new_for_test(Tsn(0), 0, &[(2, u16::MAX)], &[]);
    assert!(apply_sack(&mut ledger, &far).is_err());
}

#[test]
fn what_the_peer_takes_back_is_in_flight_again_section_6_2_1() {
    let mut ledger = ledger(6);
    apply(&mut ledger, 0, &[(2, 3), (5, 6)]);
    let report = apply(&mut ledger, 0, &[(3, 3)]);
    assert_eq!(report.map(|report| report.reneged_chunks), Some(3));
    assert_eq!(states(&ledger), "ffafff");
    let report = apply(&mut ledger, 0, &[]);
    assert_eq!(report.map(|report| report.reneged_chunks), Some(1), "no block at all takes everything back");
    assert_eq!(states(&ledger), "ffffff");
    check_sums(&mut ledger);
}

#[test]
fn a_cumulative_ack_that_splits_a_block_takes_nothing_back() {
    let mut ledger = ledger(6);
    apply(&mut ledger, 0, &[(2, 5)]);
    let report = apply(&mut ledger, 3, &[(2, 2)]);
    assert_eq!(report.map(|report| report.reneged_chunks), Some(1), "TSN 4 is the hole now");
    let report = apply(&mut ledger, 4, &[]);
    assert_eq!(report.map(|report| report.reneged_chunks), Some(1), "and now TSN 5");
    check_sums(&mut ledger);
}

#[test]
fn a_lost_chunk_that_arrives_after_all_is_not_sent_again() {
    let mut ledger = ledger(5);
    (2..=4).for_each(|end| {
        apply(&mut ledger, 0, &[(2, end)]);
    });
    assert_eq!(states(&ledger), "laaaf");
    check_sums(&mut ledger);
    apply(&mut ledger, 4, &[]);
    assert_eq!(states(&ledger), "f");
    assert_eq!(ledger.lost().chunks, 0);
    check_sums(&mut ledger);
}

#[test]
fn the_sums_hold_through_any_history() {
    let mut state = 1_u64;
    let mut roll = |sides: u16| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from((state >> 33) % u64::from(sides)).expect("a modulus of 16 bits")
    };
    let mut ledger = ledger(0);
    for step in 0..20_000 {
        match roll(6) {
            0 | 1 => ledger.push(Chunk::for_test(Instant::ZERO)),
            2 => {
                ledger.pop(|_| ());
            }
            3 => {
                ledger.time_out(PathId::PRIMARY, Instant::ZERO, true);
            }
            4 => {
                let first_lost = ledger.first_lost();
                ledger.resend(
                    first_lost,
                    Instant::from_nanos(step),
                    Transmission::Repair(RetransmissionCause::Fast),
                    PathId(0),
                    false,
                );
            }
            _ => {
                let len = u16::try_from(ledger.len()).expect("a small ledger");
                let start = 2 + roll(8);
                let cumulative = Tsn::wrap(ledger.first_tsn() - 1).0;
                apply(&mut ledger, cumulative, &[(start.min(len), (start + roll(4)).min(len))]);
            }
        }
        check_sums(&mut ledger);
    }
}

proptest! {
    #[test]
    fn after_each_sack_exactly_those_chunks_count_as_reported_that_it_reports(
        sacks in prop::collection::vec((0..4_u8, 0..3_u32, prop::collection::vec((0..6_u16, 0..5_u16), 0..8)), 1..25),
    ) {
        let mut ledger = ledger(200);
        let (mut cumulative, mut gaps) = (0, Vec::new());
        for (step, advance, changes) in sacks {
            match step {
                // The same with a longer last block, as while a gap stays open.
                0 | 1 => {
                    if let Some((_, end)) = gaps.last_mut() {
                        *end += u16::from(step) + 1;
                    }
                }
                // Another one, whose blocks may overlap or touch.
                _ => {
                    let mut next = 0;
                    let block = |(hole, length): (u16, u16)| {
                        let start = next + hole;
                        next = start + length;
                        (start, next)
                    };
                    gaps = changes.into_iter().map(block).collect();
                    cumulative += if step == 3 { advance } else { 0 };
                }
            }
            apply(&mut ledger, cumulative, &gaps);
            let mut above = 1;
            let mut reported = std::collections::BTreeSet::new();
            for &(start, end) in gaps.iter().filter(|(start, end)| start <= end) {
                if start > 1 && end > above {
                    let first = start.max(above + 1);
                    above = end;
                    reported.extend((first..=end).map(|offset| ONE - 1 + u64::from(cumulative) + u64::from(offset)));
                }
            }
            let counted = (ledger.first_tsn()..).zip(ledger.iter()).filter(|(_, chunk)| chunk.state == ChunkState::GapAcked);
            prop_assert_eq!(counted.map(|(tsn, _)| tsn).collect::<std::collections::BTreeSet<_>>(), reported);
            check_sums(&mut ledger);
        }
    }
}

/// Applies an NR-SACK with these blocks, the second ones not to be taken back. How many chunks are settled by it.
fn apply_nr(ledger: &mut Ledger, cumulative: u32, gaps: &[(u16, u16)], nr_gaps: &[(u16, u16)]) -> usize {
    let mut all = [gaps, nr_gaps].concat();
    all.sort_unstable();
    let sack = Sack::new_for_test(Tsn(cumulative), 0, &all, &[]);
    let nr_sack = Sack::new_for_test(Tsn(cumulative), 0, nr_gaps, &[]);
    let acknowledgement = Acknowledgement {
        cumulative_tsn: Tsn(cumulative),
        sack: Some(&sack),
        non_renegable: nr_sack.gap_ack_block_bytes(),
    };
    digest_of(ledger, acknowledgement, 0).expect("the NR-SACK is sound").map_or(0, |(_, settled)| settled)
}

#[test]
fn nr_sack_what_the_peer_will_not_take_back_is_settled_once_and_gives_up_its_payload() {
    let mut ledger = ledger(6);
    assert_eq!(apply_nr(&mut ledger, 0, &[], &[(2, 3)]), 2);
    assert_eq!(states(&ledger), "fnnfff");
    assert_eq!(apply_nr(&mut ledger, 0, &[], &[(2, 3), (5, 5)]), 1);
    assert!(ledger.get(ONE + 1).is_some_and(|chunk| chunk.payload.is_empty()));
    check_sums(&mut ledger);
    assert_eq!(apply_nr(&mut ledger, 3, &[], &[(2, 2)]), 1, "those that were settled before are not settled again");
    check_sums(&mut ledger);
}

#[test]
fn nr_sack_blocks_of_both_kinds_stand_side_by_side_and_the_renegable_ones_may_be_taken_back() {
    let mut ledger = ledger(6);
    assert_eq!(apply_nr(&mut ledger, 0, &[(2, 2), (5, 5)], &[(3, 3)]), 1);
    assert_eq!(states(&ledger), "fanfaf");
    assert_eq!(apply_nr(&mut ledger, 0, &[(2, 2)], &[(3, 3)]), 0);
    assert_eq!(states(&ledger), "fanfff");
    assert_eq!(apply_nr(&mut ledger, 0, &[], &[(2, 3)]), 1, "a renegable chunk may become non-renegable later");
    assert_eq!(states(&ledger), "fnnfff");
    assert_eq!(apply_nr(&mut ledger, 0, &[], &[]), 0);
    assert_eq!(states(&ledger), "fnnfff", "it stays non-renegable, whichever blocks follow");
    check_sums(&mut ledger);
}

#[test]
fn nr_sack_what_was_settled_and_is_missing_again_breaks_the_protocol() {
    let mut ledger = ledger(3);
    apply_nr(&mut ledger, 0, &[], &[(2, 3)]);
    assert!(apply_sack(&mut ledger, &Sack::new_for_test(Tsn(1), 0, &[], &[])).is_err());
}

#[test]
fn nr_sack_what_was_settled_and_is_missing_again_is_waited_for_while_something_else_is_outstanding() {
    let mut ledger = ledger(6);
    apply_nr(&mut ledger, 0, &[], &[(2, 5)]);
    assert_eq!(apply_nr(&mut ledger, 1, &[], &[]), 1, "TSN 1");
    assert_eq!(states(&ledger), "nnnnf", "none of it is sent again");
    check_sums(&mut ledger);
    assert!(apply(&mut ledger, 6, &[]).is_some() && ledger.is_empty(), "the peer had it after all");
}

#[test]
fn nr_sack_blocks_of_both_kinds_that_overlap_report_what_either_says() {
    for (gaps, nr_gaps, settled, expected) in [
        (vec![(2, 3)], vec![(2, 2)], 1, "fnafff"),
        (vec![(2, 2)], vec![(2, 3)], 2, "fnnfff"),
        (vec![(2, 5)], vec![(3, 4)], 2, "fannaf"),
        (vec![(3, 6)], vec![(2, 4)], 3, "fnnnaa"),
        (vec![(2, 3)], vec![(2, 3)], 2, "fnnfff"),
        (vec![(2, 2), (4, 5)], vec![(2, 4)], 3, "fnnnaf"),
    ] {
        let mut ledger = ledger(6);
        assert_eq!(apply_nr(&mut ledger, 0, &gaps, &nr_gaps), settled, "{gaps:?} {nr_gaps:?}");
        assert_eq!(states(&ledger), expected, "{gaps:?} {nr_gaps:?}");
        check_sums(&mut ledger);
        assert_eq!(apply_nr(&mut ledger, 0, &gaps, &nr_gaps), 0, "repeated, it says nothing new");
        assert_eq!(states(&ledger), expected);
        assert!(apply(&mut ledger, 6, &[]).is_some() && ledger.is_empty());
    }
}

#[test]
fn a_chunk_that_was_abandoned_on_its_way_may_yet_show_a_loss_and_earns_nothing() {
    let mut ledger = ledger(6);
    assert_eq!(ledger.abandon(ONE), 100);
    assert_eq!(ledger.abandon(ONE), 0, "only once");
    assert_eq!(states(&ledger), "xfffff");
    check_sums(&mut ledger);
    let digests: Vec<_> = (2..=4).filter_map(|end| apply(&mut ledger, 0, &[(2, end)])).collect();
    let lost = digests.iter().map(|digest| digest.credits.of(PathId::PRIMARY).lost_chunks);
    assert_eq!(lost.collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((states(&ledger).as_str(), ledger.lost().chunks), ("-aaaff", 0));
    ledger.abandon(ONE + 4);
    let digest = apply(&mut ledger, 5, &[]).expect("it is new");
    let credit = digest.credits.of(PathId::PRIMARY);
    assert_eq!((credit.acked_bytes, credit.abandoned_acked), (0, true));
    check_sums(&mut ledger);
}

#[test]
fn what_the_peer_was_told_to_pass_over_shows_no_arrival() {
    for (forwarded, is_shown) in [(0, true), (ONE, false)] {
        let mut ledger = ledger(1);
        ledger.abandon(ONE);
        let acknowledgement = Acknowledgement { cumulative_tsn: Tsn(1), sack: None, non_renegable: &[] };
        let (digest, _) = digest_of(&mut ledger, acknowledgement, forwarded).expect("sound").expect("new");
        let credit = digest.credits.of(PathId::PRIMARY);
        assert_eq!((credit.highest_acked.is_some(), credit.abandoned_acked), (is_shown, true));
    }
}

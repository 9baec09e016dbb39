//! E-FORWARD-TSN (docs/enhanced-forward-tsn.md). [`framings`](super::framings) checks whole conversations in both framings.

use super::*;
use crate::bounds::TSN_SPAN_MAX;
use crate::wire::{ChunkOut, SkippedRun};

impl Rig {
    /// Has a packet with E-FORWARD-TSN arrive: the sender's cumulative TSN, blocks, and stream, first SSN and further messages of each run.
    fn pass_over(&mut self, cumulative: u32, blocks: &[(u16, u16)], runs: &[(u16, u32, u16)]) {
        let run = |&(stream, first, more)| SkippedRun { stream: StreamId(stream), unordered: false, first, more };
        let messages: Vec<_> = runs.iter().map(run).collect();
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.chunk(&ChunkOut::EnhancedForwardTsn {
            cumulative: Tsn(cumulative),
            blocks,
            messages: &messages
        }));
        packet.finish();
        match Packet::parse(&buffer).unwrap().chunks().next() {
            Some(Ok(Chunk::EnhancedForwardTsn(forward))) => {
                self.receiver.handle_enhanced_forward_tsn(&forward, buffer.len());
            }
            other => panic!("{other:?} is not E-FORWARD-TSN"),
        }
        self.receiver.packet_done(self.now);
    }
}

#[test]
fn what_was_passed_over_is_reported_by_gap_ack_blocks_and_the_cumulative_tsn_moves_on_over_it() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "x").unordered(), whole(7, 0, 0, "x").unordered()]);
    rig.pass_over(1, &[(1, 1), (3, 3), (5, 5)], &[]);
    assert!(rig.receiver.sack_wanted(), "there is a gap");
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (2, vec![(2, 2), (4, 5)]));
    rig.accept(&[whole(3, 0, 0, "x").unordered(), whole(5, 0, 0, "x").unordered()]);
    assert_eq!(rig.sack().cumulative, 7);
}

#[test]
fn an_ordered_stream_skips_the_messages_named_and_waits_for_the_others() {
    let mut rig = Rig::new();
    rig.pass_over(0, &[(2, 3), (5, 5)], &[(0, 1, 1), (0, 4, 0)]);
    rig.accept(&[whole(4, 0, 3, "d"), whole(6, 0, 5, "f"), whole(7, 1, 0, "other stream")]);
    assert_eq!(rig.texts(), ["other stream"], "SSN 0 is missing");
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert_eq!(rig.texts(), ["a", "d", "f"]);
    assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (7, 0));
    rig.accept(&[whole(8, 0, 6, "g")]);
    assert_eq!(rig.texts(), ["g"]);
}

#[test]
fn a_message_that_arrived_before_it_was_skipped_is_delivered_in_its_turn() {
    let mut rig = Rig::new();
    rig.accept(&[whole(3, 0, 2, "c"), whole(5, 0, 4, "e")]);
    rig.pass_over(0, &[(2, 4)], &[(0, 1, 2)]);
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (["a", "c", "e"].map(str::to_owned).to_vec(), 0));

    let mut rig = Rig::new();
    rig.accept(&[whole(3, 0, 2, "c"), whole(5, 0, 4, "e")]);
    rig.pass_over(0, &[(3, 4)], &[(0, 2, 1)]);
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert_eq!(rig.texts(), ["a"], "SSN 1 was not named");
    rig.pass_over(1, &[(1, 1)], &[(0, 1, 0)]);
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (["c", "e"].map(str::to_owned).to_vec(), 0));
}

#[test]
fn the_fragments_of_a_message_that_was_passed_over_are_dropped_and_make_room() {
    for unordered in [false, true] {
        for missing in [3, 4, 5] {
            let mut rig = Rig::new();
            let pieces = [piece(3, 0, 1, "B", [0; 900]), piece(4, 0, 1, "M", [0; 900]), piece(5, 0, 1, "E", [0; 900])];
            for piece in pieces.into_iter().filter(|piece| piece.header.tsn.0 != missing) {
                rig.accept(&[if unordered { piece.unordered() } else { piece }]);
            }
            assert!(rig.receiver.used_bytes() > 1_800);
            let offset = u16::try_from(missing).unwrap();
            let runs = [(0, 1, 0)];
            rig.pass_over(0, &[(offset, offset)], if unordered { &[] } else { &runs });
            assert!(rig.receiver.used_bytes() <= WAITING_ENTRY_BYTES, "{missing}");
            assert_eq!(rig.sack().gaps, [(3, 5)]);
            let ssn = if unordered { 1 } else { 2 };
            rig.accept(&[whole(1, 0, 0, "a"), whole(2, 1, 0, "b"), whole(6, 0, ssn, "next")]);
            assert_eq!(rig.texts(), ["a", "b", "next"]);
            assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (6, 0));
        }
    }
}

#[test]
fn a_fragment_whose_beginning_was_passed_over_is_dropped() {
    let mut rig = Rig::new();
    rig.pass_over(0, &[(3, 3)], &[(0, 1, 0)]);
    rig.accept(&[
        piece(4, 0, 1, "M", "rest"),
        piece(5, 0, 1, "E", "rest"),
        whole(6, 0, 2, "next"),
        whole(1, 0, 0, "a"),
    ]);
    rig.accept(&[whole(2, 1, 0, "b")]);
    assert_eq!((rig.texts(), rig.sack().cumulative), (vec!["a".to_owned(), "next".to_owned(), "b".to_owned()], 6));
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn a_passed_tsn_that_comes_late_is_a_duplicate() {
    let mut rig = Rig::new();
    rig.pass_over(0, &[(2, 2)], &[(0, 1, 0)]);
    rig.sack();
    assert_eq!(rig.packet(&[whole(2, 0, 1, "late")]), [Ok(DataVerdict::Duplicate)]);
    assert_eq!(rig.sack().duplicates, [2]);
}

#[test]
fn a_chunk_that_is_out_of_date_changes_nothing_and_is_answered_at_once() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a"), whole(2, 0, 1, "b"), whole(4, 0, 3, "d")]);
    rig.sack();
    for (cumulative, blocks) in [(0, &[(1, 2)][..]), (0, &[]), (u32::MAX - 9, &[(3, 4), (6, 9)]), (2, &[])] {
        rig.pass_over(cumulative, blocks, &[(0, 2, 0)]);
        assert!(rig.receiver.sack_wanted(), "{cumulative}");
        assert_eq!(rig.sack().cumulative, 2);
    }
    assert_eq!(rig.texts(), ["a", "b"], "SSN 3 keeps waiting");
    rig.pass_over(0, &[(1, 3)], &[(0, 0, 2)]);
    assert_eq!((rig.sack().cumulative, rig.texts()), (4, vec!["d".to_owned()]), "a part of it is new");
    rig.pass_over(2, &[(4, 4)], &[]);
    rig.sack();
    rig.pass_over(2, &[(4, 4)], &[]);
    assert!(rig.receiver.sack_wanted(), "repeated");
    assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (4, 0));
}

#[test]
fn blocks_that_no_sender_of_this_association_can_name_are_dropped_as_if_lost() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a")]);
    rig.sack();
    for (cumulative, last) in [(2, 1), (0x7000_0000, 1), (1, TSN_SPAN_MAX + 1), (0, TSN_SPAN_MAX + 2), (1, u16::MAX)] {
        rig.pass_over(cumulative, &[(1, last)], &[(0, 1, 5)]);
        assert!(rig.receiver.sack_wanted(), "{cumulative} {last}");
        let sack = rig.sack();
        assert_eq!((sack.cumulative, sack.gaps.len()), (1, 0), "{cumulative} {last}");
    }
    rig.accept(&[whole(2, 0, 1, "b")]);
    assert_eq!(rig.texts(), ["a", "b"]);
    rig.pass_over(2, &[(1, TSN_SPAN_MAX)], &[]);
    assert_eq!(rig.sack().cumulative, 2 + u32::from(TSN_SPAN_MAX));
}

#[test]
fn numbers_behind_or_too_far_ahead_and_streams_that_do_not_exist_mean_nothing() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a"), whole(2, 0, 1, "b")]);
    assert_eq!(rig.texts(), ["a", "b"]);
    rig.pass_over(2, &[(2, 2)], &[(0, 0, 0), (0, 0x8001, 0x7fff), (0, 0x8002, 0), (STREAMS, 0, 9), (u16::MAX, 0, 0)]);
    assert_eq!(rig.receiver.used_bytes(), 0);
    rig.accept(&[whole(3, 0, 2, "c")]);
    assert_eq!(rig.texts(), ["c"]);
}

#[test]
fn numbers_wrap() {
    let mut rig = Rig::new();
    let mut tsn = 0;
    for last in [0x7000_u16, 0xe000, 0xfffd] {
        tsn += 1;
        rig.forward(tsn, &[(0, last)]);
    }
    // SSN 0xfffe is due: 0xffff and 0 are passed over.
    rig.pass_over(tsn, &[(2, 3)], &[(0, 0xffff, 1)]);
    rig.accept(&[whole(tsn + 4, 0, 1, "d"), whole(tsn + 1, 0, 0xfffe, "a")]);
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (vec!["a".to_owned(), "d".to_owned()], 0));
}

#[test]
fn runs_that_wait_count_and_are_taken_only_where_there_is_room() {
    let mut rig = Rig::with(|config| config.limits.receive_buffer_bytes = 8_000);
    let runs: Vec<_> = (0..50).map(|run| (0, 2 + 2 * run, 0)).collect();
    for round in 0..20_u32 {
        let runs: Vec<_> = runs.iter().map(|&(stream, first, more)| (stream, first + 100 * round, more)).collect();
        let first = 2 + u16::try_from(round).unwrap();
        rig.pass_over(0, &[(first, first)], &runs);
        assert!(rig.receiver.used_bytes() <= 2 * 8_000 + (12 << 10), "{round}: {}", rig.receiver.used_bytes());
    }
    let used = rig.receiver.used_bytes();
    assert!(used > 2 * 8_000 - 8_000, "{used}");
    rig.pass_over(0, &[(1, 1)], &[(0, 0, 1)]);
    rig.forward(40, &[(0, 0x7000)]);
    assert_eq!(rig.receiver.used_bytes(), 0, "what waited is gone");
}

#[test]
fn a_stream_that_is_reset_forgets_what_it_was_to_skip() {
    let mut rig = Rig::new();
    rig.pass_over(0, &[(2, 2)], &[(0, 1, 0), (0, 3, 2)]);
    rig.accept(&[whole(3, 0, 2, "c")]);
    rig.receiver.reset_stream(StreamId(0));
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (vec!["c".to_owned()], 0));
    rig.accept(&[whole(1, 0, 0, "a"), whole(4, 0, 1, "b")]);
    assert_eq!(rig.texts(), ["a", "b"]);
}

use std::collections::VecDeque;

use super::super::tracker::RANGES_MAX;
use super::super::window::{Use, Window};
use super::*;
use crate::bounds::TSN_SPAN_MAX;

const BUFFER_BYTES: usize = 20_000;

fn small() -> Rig {
    Rig::with(|config| config.limits.receive_buffer_bytes = BUFFER_BYTES)
}

/// Sends whole ordered messages of stream 0 from `tsn` on until one is dropped; returns its TSN.
fn fill(rig: &mut Rig, tsn: u32, payload_bytes: usize) -> u32 {
    let mut tsn = tsn;
    loop {
        let ssn = u16::try_from(tsn).unwrap() - 1;
        match rig.packet(&[whole(tsn, 0, ssn, vec![7; payload_bytes])])[0] {
            Ok(DataVerdict::Accepted) => tsn += 1,
            Ok(DataVerdict::DroppedNoSpace) => return tsn,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_buffered_lowers_the_window_and_what_is_fetched_raises_it_rfc9260_6_2() {
    let mut rig = small();
    assert_eq!(rig.sack().a_rwnd, BUFFER_BYTES);
    rig.accept(&[whole(1, 0, 0, [0; 1_300]), whole(3, 0, 2, [0; 1_200]), piece(5, 0, 3, "M", [0; 1_100])]);
    let list_bytes = 2 * size_of::<Bytes>();
    let held_bytes = packet_cost_bytes(1_200) + WAITING_ENTRY_BYTES + packet_cost_bytes(1_100) + RUN_BYTES + list_bytes;
    // Waiting messages cost more than available ones, and the window is a little smaller than the free space.
    let mut assert_about = |free_bytes| {
        let open_bytes = rig.sack().a_rwnd;
        assert!((free_bytes * 99 / 100..=free_bytes).contains(&open_bytes), "{open_bytes} of {free_bytes}");
        rig.receiver.poll_message();
    };
    assert_about(BUFFER_BYTES - cost_bytes(1_300) - held_bytes);
    assert_about(BUFFER_BYTES - held_bytes);
}

#[test]
fn a_chunk_that_finds_the_window_closed_is_dropped_and_a_sack_says_so_at_once_rfc9260_6_2() {
    let mut rig = small();
    let dropped = fill(&mut rig, 1, 1_000);
    assert!(rig.receiver.sack_wanted());
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.a_rwnd, sack.gaps), (dropped - 1, 0, vec![]));
    let beyond = whole(dropped + 1, 1, 0, "x");
    assert_eq!(rig.packet(&[beyond]), [Ok(DataVerdict::DroppedNoSpace)]);
    assert!(rig.receiver.sack_wanted());
    assert_eq!(rig.sack().gaps, []);
}

#[test]
fn a_duplicate_is_reported_while_the_window_is_closed_rfc9260_6_2() {
    let mut rig = small();
    fill(&mut rig, 1, 1_000);
    rig.sack();
    assert_eq!(rig.packet(&[whole(1, 0, 0, "x")]), [Ok(DataVerdict::Duplicate)]);
    assert_eq!(rig.sack().duplicates, [1]);
}

#[test]
fn a_window_smaller_than_a_packet_counts_as_closed_rfc9260_6_2_silly_window() {
    let mut rig = small();
    for tsn in 1..=400 {
        let before = rig.sack().a_rwnd;
        if before == 0 {
            return;
        }
        assert!(before >= PACKET_BYTES_MAX);
        rig.accept(&[whole(tsn, 0, u16::try_from(tsn).unwrap() - 1, [0; 10])]);
    }
    panic!("the window never closed");
}

#[test]
fn the_peer_is_told_of_a_reopened_window_in_steps_of_a_quarter_of_the_buffer_rfc9260_6_2() {
    let mut rig = small();
    fill(&mut rig, 1, 1_300);
    rig.sack();
    let (mut updates, mut told_bytes) = (0, 0);
    while rig.receiver.poll_message().is_some() {
        if rig.receiver.sack_wanted() {
            updates += 1;
            let open_bytes = rig.sack().a_rwnd;
            assert!(open_bytes >= told_bytes + BUFFER_BYTES / 4);
            told_bytes = open_bytes;
        }
    }
    assert!((3..=4).contains(&updates), "{updates} updates");
}

#[test]
fn messages_of_one_byte_cannot_take_more_memory_than_the_buffer_suggests() {
    let mut rig = small();
    let accepted = usize::try_from(fill(&mut rig, 1, 1)).unwrap() - 1;
    let kept_bytes_max = BUFFER_BYTES + BUFFER_BYTES / 4;
    assert!(accepted * (QUEUE_ENTRY_BYTES + 1) <= kept_bytes_max);
    assert!(rig.receiver.used_bytes() <= kept_bytes_max + cost_bytes(1));
}

/// Sends ordered messages of `payload_bytes`, as many to a packet as `chunks`, as far as the window allows. A SACK answers every second packet, and
/// the peer has it `late` packets later. Returns how many messages the receiver holds when the peer has to stop.
fn fill_as_allowed(rig: &mut Rig, payload_bytes: usize, chunks: u32, late: usize) -> u32 {
    let mut sacks = VecDeque::from([(0, BUFFER_LARGE_BYTES)]);
    let mut tsn = 1;
    loop {
        let (acked, a_rwnd) = sacks[0];
        let room_bytes = a_rwnd.saturating_sub((tsn - 1 - acked) as usize * payload_bytes);
        let fits = u32::try_from(room_bytes / payload_bytes).unwrap().min(chunks);
        if fits > 0 {
            let pieces: Vec<_> = (tsn..tsn + fits)
                .map(|tsn| whole(tsn, 0, u16::try_from(tsn - 1).unwrap(), vec![7; payload_bytes]))
                .collect();
            let verdicts = rig.packet(&pieces);
            assert!(verdicts.iter().all(|verdict| *verdict == Ok(DataVerdict::Accepted)), "{payload_bytes}: TSN {tsn}");
            tsn += fits;
            let sack = rig.sack();
            sacks.push_back((sack.cumulative, sack.a_rwnd));
        } else if sacks.len() == 1 {
            return tsn - 1;
        }
        if sacks.len() > late || fits == 0 {
            sacks.pop_front();
        }
    }
}

const BUFFER_LARGE_BYTES: usize = 1 << 20;

#[test]
fn of_a_peer_that_keeps_to_the_window_nothing_is_dropped_however_small_its_messages_are() {
    for payload_bytes in [1, 8, 64, 200, 1_200, 1_400] {
        for (chunks, late) in [(1, 1), (1, 40), (12, 40)] {
            let mut rig = Rig::new();
            let chunks = chunks.min(u32::try_from(1_400 / payload_bytes).unwrap());
            let held = fill_as_allowed(&mut rig, payload_bytes, chunks, late);
            let used_bytes = rig.receiver.used_bytes();
            assert!(used_bytes >= BUFFER_LARGE_BYTES * 9 / 10, "{payload_bytes}: {held} messages hold {used_bytes}");
            assert!(used_bytes <= BUFFER_LARGE_BYTES * 5 / 4);
        }
    }
}

#[test]
fn a_window_of_small_messages_opens_again_before_all_of_them_are_fetched() {
    let mut rig = Rig::new();
    let held = fill_as_allowed(&mut rig, 8, 1, 1);
    assert_eq!(rig.sack().a_rwnd, 0);
    assert!(!rig.receiver.sack_wanted());
    let fetched = (1..=held).find(|_| rig.receiver.poll_message().is_some() && rig.receiver.sack_wanted());
    let fetched = fetched.expect("the peer gets a window update");
    assert!(fetched <= held / 2, "after {fetched} of {held}");
    assert!(rig.sack().a_rwnd >= PACKET_BYTES_MAX);
}

#[test]
fn a_chunk_too_far_ahead_is_dropped_and_the_farthest_that_is_taken_fits_a_gap_ack_block() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a")]);
    let span = u32::from(TSN_SPAN_MAX);
    let far = |tsn| [whole(tsn, 0, 0, "x").unordered()];
    assert_eq!(rig.packet(&far(span + 2)), [Ok(DataVerdict::DroppedNoSpace)]);
    assert!(rig.receiver.sack_wanted());
    rig.accept(&far(span + 1));
    assert_eq!(rig.sack().gaps, [(32_767, 32_767)]);
}

#[test]
fn the_number_of_gaps_is_bounded_and_filling_gaps_makes_room_again() {
    let mut rig = Rig::new();
    let unordered = |tsn: u32| whole(tsn, 0, 0, "x").unordered();
    let ranges = u32::try_from(RANGES_MAX).unwrap();
    rig.accept(&(1..=ranges).map(|range| unordered(2 * range)).collect::<Vec<_>>());
    let one_more = [unordered(2 * ranges + 2)];
    assert_eq!(rig.packet(&one_more), [Ok(DataVerdict::DroppedNoSpace)]);
    rig.accept(&[unordered(2 * ranges + 1), unordered(1)]);
    assert_eq!(rig.packet(&one_more), [Ok(DataVerdict::Accepted)]);
}

#[test]
fn a_message_as_large_as_the_buffer_arrives_whole_and_the_window_never_closes_before_however_it_is_fragmented() {
    for fragment_bytes in [1, 50, 511, 512, 1_000] {
        let mut rig = Rig::with(|config| {
            config.limits.receive_buffer_bytes = BUFFER_BYTES;
            config.limits.message_bytes_max = BUFFER_BYTES;
        });
        let fragments = BUFFER_BYTES.div_ceil(fragment_bytes);
        for index in 0..fragments {
            let bits = match index {
                0 => "B",
                _ if index + 1 == fragments => "E",
                _ => "M",
            };
            let bytes = fragment_bytes.min(BUFFER_BYTES - index * fragment_bytes);
            assert!(rig.sack().a_rwnd >= PACKET_BYTES_MAX, "the peer may go on");
            rig.accept(&[piece(u32::try_from(index).unwrap() + 1, 0, 0, bits, vec![9; bytes])]);
        }
        assert_eq!(rig.sack().a_rwnd, 0, "until it is fetched");
        assert_eq!(rig.messages()[0].payload.len(), BUFFER_BYTES);
        assert!(rig.receiver.sack_wanted(), "the window is open again");
        assert_eq!(rig.sack().a_rwnd, BUFFER_BYTES);
    }
}

#[test]
fn a_buffer_full_of_fragments_of_several_messages_still_takes_what_completes_them() {
    let mut rig = small();
    // Five messages of six fragments each; the second fragment of every message is lost at first.
    let fragment = |tsn: u32| {
        let (message, index) = ((tsn - 1) / 6, (tsn - 1) % 6);
        let bits = ["B", "M", "M", "M", "M", "E"][usize::try_from(index).unwrap()];
        piece(tsn, 0, u16::try_from(message).unwrap(), bits, [3; 1_000])
    };
    let mut missing = Vec::new();
    for tsn in 1..=30 {
        let lost = tsn % 6 == 2;
        if lost || rig.packet(&[fragment(tsn)]) == [Ok(DataVerdict::DroppedNoSpace)] {
            missing.push(tsn);
        }
    }
    assert_eq!(rig.sack().a_rwnd, 0);
    assert!(!rig.receiver.has_message(), "the application can do nothing");
    for tsn in missing {
        rig.accept(&[fragment(tsn)]);
        rig.messages();
    }
    assert_eq!((rig.sack().cumulative, rig.sack().a_rwnd), (30, BUFFER_BYTES));
}

#[test]
fn what_fills_a_gap_is_taken_beyond_the_window_but_not_beyond_two_buffers_while_nothing_is_fetched() {
    let mut rig = small();
    rig.accept(&[piece(30_000, 1, 0, "M", "keeps a gap open for ever")]);
    let dropped = fill(&mut rig, 1, 1_000);
    let held_bytes = rig.receiver.used_bytes();
    assert!((2 * BUFFER_BYTES..=2 * BUFFER_BYTES + (4 << 10)).contains(&held_bytes), "{held_bytes}");
    assert_eq!(rig.messages().len(), usize::try_from(dropped - 1).unwrap());
    assert!(fill(&mut rig, dropped, 1_000) > dropped, "dropped chunks are accepted when they come again");
}

#[test]
fn a_message_that_can_be_fetched_is_taken_however_full_the_buffer_is_if_there_is_no_other() {
    let mut rig = small();
    rig.accept(&[whole(3, 0, 2, [0; BUFFER_BYTES]), whole(5, 0, 4, [0; BUFFER_BYTES])]);
    assert!(rig.receiver.used_bytes() > 2 * BUFFER_BYTES);
    let second = [whole(2, 0, 1, vec![b'b'; 4_000])];
    assert_eq!(rig.packet(&second), [Ok(DataVerdict::DroppedNoSpace)], "not the lowest");
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert_eq!(rig.packet(&second), [Ok(DataVerdict::DroppedNoSpace)], "fetch first");
    assert_eq!(rig.texts(), ["a"]);
    rig.accept(&second);
    assert_eq!(rig.messages().len(), 2);
    rig.accept(&[whole(4, 0, 3, "d")]);
    assert_eq!(rig.messages().len(), 2);
    assert_eq!(rig.sack().a_rwnd, BUFFER_BYTES);
}

#[test]
fn what_cannot_be_fetched_is_not_taken_beyond_two_buffers_though_everything_else_was_fetched() {
    let mut rig = small();
    for tsn in 1..1_000_u16 {
        rig.packet(&[whole(tsn.into(), 0, tsn, [0; 500])]);
        assert!(rig.receiver.used_bytes() <= 2 * BUFFER_BYTES + (4 << 10));
        assert!(!rig.receiver.has_message());
    }
    assert_eq!(rig.sack().a_rwnd, 0);
    let missing = rig.sack().cumulative + 1;
    rig.accept(&[whole(missing, 0, 0, "the first")]);
    assert_eq!(rig.messages().len(), usize::try_from(missing).unwrap());
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn a_closed_window_is_told_to_be_open_when_all_is_fetched_though_tables_hold_much_and_messages_are_tiny() {
    let limits = crate::config::Limits { receive_buffer_bytes: 64 << 10, ..crate::config::Limits::default() };
    let mut window = Window::new(&limits);
    (0..1_000).for_each(|_| window.note_cost(1, 269));
    let full = Use { used_bytes: limits.receive_buffer_bytes, has_ready: true, has_gap: false };
    assert_eq!(window.open_bytes(full), 0);
    window.note_advertised(0, full);
    let tables_bytes = limits.receive_buffer_bytes / 4;
    let emptied = Use { used_bytes: tables_bytes, has_ready: false, has_gap: true };
    assert!(window.open_bytes(emptied) > 0);
    assert!(window.is_update_due(emptied), "the peer would wait for its probe");
    assert!(!window.is_update_due(full));
    // What fragments of one message hold leaves a quarter of the buffer open once all else is fetched, however little that was.
    window.note_advertised(0, full);
    let fetched = Use { used_bytes: limits.receive_buffer_bytes - 1_000, has_ready: false, has_gap: false };
    assert!(window.is_update_due(fetched), "no other event would trigger the check again");
}

#[test]
fn a_buffer_full_of_what_waits_takes_a_few_messages_that_can_be_fetched_at_once() {
    let mut rig = small();
    // TSN 1 is missing, and all others of its stream wait for it.
    let full = fill(&mut rig, 2, 100);
    assert!(rig.receiver.poll_message().is_none(), "all of them wait");
    let kept_bytes_max = BUFFER_BYTES + BUFFER_BYTES / 4;
    assert!(rig.receiver.used_bytes() >= kept_bytes_max);
    let due = |tsn: u32| whole(full + tsn, 1, u16::try_from(tsn).unwrap(), [0; 100]);
    assert_eq!(rig.packet(&[due(0), due(1), due(2)]), [Ok(DataVerdict::Accepted); 3]);
    let refused = (3..1_000).find(|&tsn| rig.packet(&[due(tsn)]) == [Ok(DataVerdict::DroppedNoSpace)]).unwrap();
    assert!(rig.receiver.used_bytes() <= kept_bytes_max + (8 << 10), "an application that fetches nothing");
    while rig.receiver.poll_message().is_some() {}
    assert_eq!(rig.packet(&[due(refused)]), [Ok(DataVerdict::Accepted)], "one that does");
}

/// However the application fetches, a grown window is advertised at most a thirty-second of the buffer later than it would be if
/// each message were looked at.
#[test]
fn looking_seldom_tells_of_a_window_hardly_later_section_6_2() {
    for (payload_bytes, cost_bytes) in [(1_000, 1_100), (64, 260)] {
        let limits = crate::config::Limits { receive_buffer_bytes: 256 << 10, ..crate::config::Limits::default() };
        let mut window = Window::new(&limits);
        (0..2_000).for_each(|_| window.note_cost(payload_bytes, cost_bytes));
        let held = |used_bytes| Use { used_bytes, has_ready: used_bytes > 0, has_gap: false };
        // Low at first, and then full: samples taken when little was held must not count any more.
        for told_at_bytes in [60_000, 250_000] {
            window.note_advertised(window.open_bytes(held(told_at_bytes)), held(told_at_bytes));
            let fetched = |used_bytes: &usize| *used_bytes <= told_at_bytes;
            let steps = || (0..=told_at_bytes).rev().step_by(cost_bytes).filter(fetched);
            let exact = steps().find(|&used_bytes| window.has_grown(held(used_bytes)));
            let told = steps().find(|&used_bytes| window.is_update_due(held(used_bytes)));
            match (exact, told) {
                (Some(exact), Some(told)) => assert!(exact - told <= (256 << 10) / 32 + cost_bytes, "{exact}, {told}"),
                (exact, told) => assert_eq!(exact.is_some(), told.is_some(), "{told_at_bytes}"),
            }
            assert!(exact.is_some() || told_at_bytes < 100_000, "a full buffer that is emptied is news");
        }
    }
}

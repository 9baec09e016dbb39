//! I-DATA and I-FORWARD-TSN (RFC 8260 §2).

use super::*;
use crate::wire::{ChunkOut, IDataHeader, Mid, SkippedMessage};

/// An I-DATA chunk to be received.
#[derive(Clone, Debug)]
struct IPiece {
    header: IDataHeader,
    payload: Vec<u8>,
}

/// A chunk of the message of this MID, with the FSN and the bits that `place` names: "B", "BE", "1", "2E" and so on.
fn i_piece(tsn: u32, stream: u16, mid: u32, place: &str, payload: impl Into<Vec<u8>>) -> IPiece {
    let fsn = place.trim_end_matches('E').parse().unwrap_or(0);
    let header = IDataHeader {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        mid: Mid(mid),
        ppid_or_fsn: fsn,
        unordered: false,
        beginning: place.contains('B'),
        end: place.contains('E'),
        immediate: false,
    };
    IPiece { header, payload: payload.into() }
}

impl IPiece {
    fn unordered(mut self) -> Self {
        self.header.unordered = true;
        self
    }
}

impl Rig {
    fn interleaved() -> Self {
        let receiver = Receiver::new(&Config::default(), Tsn(1), STREAMS, Framing::IData);
        Self { receiver, now: Instant::from_secs(1) }
    }

    fn i_packet(&mut self, piece: &IPiece) -> Verdict {
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.i_data(&piece.header, &piece.payload));
        packet.finish();
        let bytes = Bytes::from(buffer);
        let verdict = match Packet::parse(&bytes).unwrap().chunks().next() {
            Some(Ok(Chunk::IData(data))) => self.receiver.handle_i_data(&data, &bytes),
            other => panic!("{other:?} is not I-DATA"),
        };
        self.receiver.packet_done(self.now);
        verdict
    }

    fn i_accept(&mut self, pieces: &[IPiece]) {
        for piece in pieces {
            assert_eq!(self.i_packet(piece), Ok(DataVerdict::Accepted), "{piece:?}");
        }
    }

    fn i_violation(&mut self, pieces: &[IPiece]) -> &'static str {
        let (last, others) = pieces.split_last().unwrap();
        self.i_accept(others);
        match self.i_packet(last) {
            Err(ReceiveError::ProtocolViolation(what)) => what,
            other => panic!("{other:?} is no protocol violation"),
        }
    }

    /// Receives a packet with I-FORWARD-TSN: the new cumulative TSN, and stream, U bit and last MID of the skipped messages.
    fn i_forward(&mut self, new_cumulative: u32, skipped: &[(u16, bool, u32)]) {
        let each = |&(stream, unordered, mid)| SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
        let streams: Vec<_> = skipped.iter().map(each).collect();
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.chunk(&ChunkOut::IForwardTsn { new_cumulative: Tsn(new_cumulative), streams: &streams }));
        packet.finish();
        match Packet::parse(&buffer).unwrap().chunks().next() {
            Some(Ok(Chunk::IForwardTsn(forward))) => self.receiver.handle_i_forward_tsn(&forward, buffer.len()),
            other => panic!("{other:?} is not I-FORWARD-TSN"),
        }
        self.receiver.packet_done(self.now);
    }
}

#[test]
fn rfc8260_2_2_fragments_of_several_messages_may_alternate() {
    let mut rig = Rig::interleaved();
    rig.i_accept(&[
        i_piece(1, 0, 0, "B", "lo"),
        i_piece(2, 1, 0, "BE", "short"),
        i_piece(3, 0, 0, "1", "n"),
        i_piece(4, 0, 0, "B", "ur").unordered(),
        i_piece(5, 2, 0, "B", "oth"),
        i_piece(6, 0, 0, "1E", "gent").unordered(),
        i_piece(7, 2, 0, "1E", "er"),
        i_piece(8, 0, 0, "2E", "g"),
    ]);
    assert_eq!(rig.texts(), ["short", "urgent", "other", "long"]);
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn rfc8260_2_2_fragments_become_one_message_in_whatever_order_they_come() {
    let fragments = ["B", "1", "2", "3E"].map(|place| place);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [0, 3, 1, 2], [3, 0, 2, 1]] {
        let mut rig = Rig::interleaved();
        for index in order {
            assert!(!rig.receiver.has_message());
            let tsn = u32::try_from(index).unwrap() + 1;
            let mut piece = i_piece(tsn, 5, 0, fragments[index], format!("{index}"));
            if index == 0 {
                piece.header.ppid_or_fsn = 51;
            }
            rig.i_accept(&[piece]);
        }
        let messages = rig.messages();
        assert_eq!((messages.len(), &messages[0].payload[..]), (1, &b"0123"[..]), "{order:?}");
        assert_eq!((messages[0].stream, messages[0].ppid), (StreamId(5), 51), "of the first fragment");
        assert_eq!(rig.receiver.used_bytes(), 0);
    }
}

#[test]
fn rfc8260_2_2_ordered_messages_come_in_the_order_of_their_mids_and_unordered_ones_at_once() {
    let mut rig = Rig::interleaved();
    rig.i_accept(&[i_piece(1, 0, 2, "BE", "2"), i_piece(2, 0, 1, "B", "1"), i_piece(3, 0, 7, "BE", "u").unordered()]);
    assert_eq!(rig.texts(), ["u"]);
    rig.i_accept(&[i_piece(4, 0, 0, "BE", "0")]);
    assert_eq!(rig.texts(), ["0"]);
    rig.i_accept(&[i_piece(5, 0, 1, "1E", "st")]);
    assert_eq!(rig.texts(), ["1st", "2"]);
}

#[test]
fn rfc8260_2_2_1_data_where_i_data_was_agreed_on_breaks_the_protocol() {
    let mut rig = Rig::interleaved();
    let verdict = rig.packet(&[whole(1, 0, 0, "x")]);
    assert_eq!(verdict, [Err(ReceiveError::ProtocolViolation("DATA where I-DATA was agreed on"))]);
}

#[test]
fn i_data_without_user_data_ends_the_association() {
    let mut rig = Rig::interleaved();
    assert_eq!(rig.i_packet(&i_piece(1, 0, 0, "BE", "")), Err(ReceiveError::NoUserData { tsn: Tsn(1) }));
}

#[test]
fn fragments_that_contradict_each_other_break_the_protocol() {
    let begun = || vec![i_piece(1, 0, 0, "B", "a"), i_piece(3, 0, 0, "2", "c")];
    for (piece, what) in [
        (i_piece(5, 0, 0, "2", "c"), "came twice"),
        (i_piece(5, 0, 0, "B", "a"), "came twice"),
        (i_piece(5, 0, 0, "BE", "a"), "came twice"),
        (i_piece(5, 0, 0, "1E", "b"), "beyond the end"),
        (i_piece(5, 0, 0, "0", "b"), "number 0"),
        (i_piece(5, 0, 0, "4294967295", "b"), "longer than"),
    ] {
        let found = Rig::interleaved().i_violation(&[begun(), vec![piece.clone()]].concat());
        assert!(found.contains(what), "{found}: {piece:?}");
    }
    let ended = vec![i_piece(1, 0, 0, "2E", "c"), i_piece(2, 0, 0, "4", "e")];
    assert!(Rig::interleaved().i_violation(&ended).contains("beyond the end"));
}

#[test]
fn a_mid_that_was_used_before_breaks_the_protocol() {
    for pieces in [
        [i_piece(1, 0, 0, "BE", "a"), i_piece(2, 0, 0, "BE", "a")],
        [i_piece(1, 0, 0, "BE", "a"), i_piece(2, 0, 0, "1", "a")],
        [i_piece(1, 0, 5, "BE", "a"), i_piece(2, 0, 5, "BE", "a")],
        [i_piece(1, 0, 5, "BE", "a"), i_piece(2, 0, 5, "1", "a")],
        [i_piece(1, 0, 0, "BE", "a"), i_piece(2, 0, 0x8000_0001, "1", "a")],
    ] {
        assert_eq!(Rig::interleaved().i_violation(&pieces), "a message identifier was used twice", "{pieces:?}");
    }
}

#[test]
fn a_message_longer_than_the_limit_breaks_the_protocol_however_it_is_cut() {
    let config = |config: &mut Config| config.limits.message_bytes_max = 1_000;
    let rig = || {
        let mut settings = Config::default();
        config(&mut settings);
        Rig { receiver: Receiver::new(&settings, Tsn(1), STREAMS, Framing::IData), now: Instant::ZERO }
    };
    rig().i_accept(&[i_piece(1, 0, 0, "B", [0; 600]), i_piece(2, 0, 0, "1E", [0; 400])]);
    for pieces in [
        vec![i_piece(1, 0, 0, "BE", [0; 1_001])],
        vec![i_piece(1, 0, 0, "B", [0; 600]), i_piece(2, 0, 0, "1", [0; 401])],
        vec![i_piece(1, 0, 0, "1", [0; 600]), i_piece(2, 0, 0, "B", [0; 401])],
        vec![i_piece(1, 0, 0, "1000", [0; 1])],
    ] {
        assert_eq!(rig().i_violation(&pieces), "a message is longer than this endpoint accepts");
    }
}

#[test]
fn rfc8260_2_3_1_skipped_messages_are_dropped_and_those_that_wait_for_them_delivered() {
    let mut rig = Rig::interleaved();
    rig.i_accept(&[
        i_piece(2, 0, 0, "1", "dropped"),
        i_piece(3, 0, 1, "BE", "kept"),
        i_piece(4, 0, 2, "B", "dropped"),
        i_piece(6, 0, 3, "BE", "later"),
        i_piece(7, 1, 0, "B", "liv"),
        i_piece(8, 0, 4, "B", "dropped").unordered(),
        i_piece(10, 0, 5, "B", "unor").unordered(),
    ]);
    rig.i_forward(9, &[(0, false, 2), (0, true, 4)]);
    assert_eq!((rig.texts(), rig.sack().cumulative), (vec!["kept".to_owned(), "later".to_owned()], 10));
    rig.i_accept(&[i_piece(11, 1, 0, "1E", "es on"), i_piece(12, 0, 5, "1E", "dered").unordered()]);
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (vec!["lives on".to_owned(), "unordered".to_owned()], 0));
}

#[test]
fn fragments_of_a_skipped_message_that_come_later_are_acknowledged_and_dropped() {
    let mut rig = Rig::interleaved();
    rig.i_forward(3, &[(0, false, 1), (0, true, 8)]);
    rig.i_accept(&[
        i_piece(4, 0, 1, "1", "x"),
        i_piece(5, 0, 0, "BE", "x"),
        i_piece(6, 0, 8, "1E", "x").unordered(),
        i_piece(7, 0, 3, "BE", "x").unordered(),
    ]);
    assert_eq!((rig.texts().len(), rig.sack().cumulative, rig.receiver.used_bytes()), (0, 7, 0));
    rig.i_accept(&[i_piece(8, 0, 2, "BE", "ordered"), i_piece(9, 0, 9, "BE", "unordered").unordered()]);
    assert_eq!(rig.texts(), ["ordered", "unordered"]);
}

#[test]
fn mids_are_skipped_across_their_wrap_and_stale_repeated_and_unknown_streams_are_passed_over() {
    let mut rig = Rig::interleaved();
    for (tsn, mid) in [(1, 0x7000_0000), (2, 0xe000_0000), (3, u32::MAX - 2)] {
        rig.i_forward(tsn, &[(0, false, mid), (0, true, mid), (STREAMS, false, 5), (0, false, mid), (0, true, mid)]);
    }
    rig.i_accept(&[
        i_piece(4, 0, u32::MAX - 1, "B", "dropped"),
        i_piece(5, 0, u32::MAX, "BE", "a"),
        i_piece(7, 0, 0, "1", "dropped"),
        i_piece(8, 0, 1, "BE", "b"),
        i_piece(9, 0, u32::MAX, "B", "dropped").unordered(),
        i_piece(10, 0, 0, "1", "dropped").unordered(),
        i_piece(11, 0, 1, "1", "c").unordered(),
    ]);
    assert_eq!(rig.texts(), [""; 0]);
    rig.i_forward(6, &[(0, false, 0), (0, true, 0), (0, false, 0x9000_0000)]);
    assert_eq!(rig.texts(), ["a", "b"]);
    rig.i_accept(&[i_piece(12, 0, 1, "B", "kept").unordered(), i_piece(13, 0, 1, "2E", "d").unordered()]);
    assert_eq!((rig.texts(), rig.receiver.used_bytes()), (vec!["keptcd".to_owned()], 0));
}

#[test]
fn unordered_messages_far_beyond_a_skipped_one_are_not_taken_for_earlier_ones() {
    let mut rig = Rig::interleaved();
    rig.i_forward(1, &[(0, true, 3)]);
    let mids = [4, 0x4000_0005, 0x8000_0006, 0xc000_0007, 2];
    for (tsn, mid) in (2..).zip(mids) {
        rig.i_accept(&[i_piece(tsn, 0, mid, "BE", "x").unordered()]);
    }
    assert_eq!(rig.texts().len(), mids.len());
}

#[test]
fn an_i_forward_tsn_that_is_out_of_date_changes_nothing_and_is_answered_at_once() {
    let mut rig = Rig::interleaved();
    rig.i_accept(&[i_piece(1, 0, 0, "B", "a"), i_piece(3, 0, 1, "BE", "b")]);
    rig.sack();
    rig.i_forward(1, &[(0, false, 0)]);
    assert!(rig.receiver.sack_wanted());
    rig.i_accept(&[i_piece(2, 0, 0, "1E", "a")]);
    assert_eq!(rig.texts(), ["aa", "b"]);
}

#[test]
fn a_message_that_is_begun_goes_on_to_count_and_closes_the_window() {
    let mut rig = Rig::interleaved();
    rig.i_accept(&[i_piece(1, 0, 0, "B", [0; 100]), i_piece(2, 1, 0, "B", [0; 100])]);
    assert_eq!(rig.sack().a_rwnd, Config::default().limits.receive_buffer_bytes - rig.receiver.used_bytes());
    assert!(rig.receiver.used_bytes() >= 2 * (RUN_BYTES + 100));
}

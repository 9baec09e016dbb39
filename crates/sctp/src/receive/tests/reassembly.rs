use super::*;

fn three_fragments() -> [Piece; 3] {
    [piece(1, 5, 0, "B", "frag").ppid(7), piece(2, 5, 0, "M", "men").ppid(8), piece(3, 5, 0, "E", "ted").ppid(9)]
}

#[test]
fn fragments_become_one_message_in_whatever_order_they_come_rfc9260_6_9() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut rig = Rig::new();
        let fragments = three_fragments();
        for index in order {
            assert!(!rig.receiver.has_message());
            rig.accept(&[fragments[index].clone()]);
        }
        let messages = rig.messages();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].payload, "fragmented", "{order:?}");
        assert_eq!((messages[0].stream, messages[0].ppid), (StreamId(5), 7), "of the first chunk");
        assert_eq!(rig.sack().a_rwnd, Config::default().limits.receive_buffer_bytes);
    }
}

#[test]
fn an_unordered_message_above_a_gap_is_delivered_when_its_last_fragment_comes_rfc9260_6_6() {
    let mut rig = Rig::new();
    // The SSN of an unordered message has no meaning, and may differ.
    rig.accept(&[piece(9, 0, 3, "E", "ent").unordered(), piece(8, 0, 4, "B", "urg").unordered()]);
    assert_eq!(rig.texts(), ["urgent"]);
}

#[test]
fn a_fragmented_message_waits_for_its_turn_in_the_stream_rfc9260_6_9() {
    let mut rig = Rig::new();
    rig.accept(&[piece(2, 0, 1, "B", "se"), piece(3, 0, 1, "E", "cond"), whole(4, 0, 2, "third")]);
    assert_eq!(rig.texts(), [""; 0]);
    rig.accept(&[whole(1, 0, 0, "first")]);
    assert_eq!(rig.texts(), ["first", "second", "third"]);
}

#[test]
fn fragments_of_neighbouring_messages_do_not_mix_rfc9260_6_9() {
    let mut rig = Rig::new();
    let mut pieces = Vec::new();
    for message in 0..10u16 {
        let tsn = 1 + 2 * u32::from(message);
        pieces.push(piece(tsn, message % 3, message / 3, "B", format!("{message}")));
        pieces.push(piece(tsn + 1, message % 3, message / 3, "E", "."));
    }
    // All ends, highest first, then all beginnings.
    for piece in pieces.iter().skip(1).step_by(2).rev().chain(pieces.iter().step_by(2)) {
        rig.accept(std::slice::from_ref(piece));
    }
    assert_eq!(rig.texts(), ["0.", "1.", "2.", "3.", "4.", "5.", "6.", "7.", "8.", "9."]);
}

#[test]
fn two_long_runs_of_fragments_are_joined_from_either_side() {
    for (below, above) in [(3u32, 400u32), (400, 3)] {
        let mut rig = Rig::new();
        let last = below + above + 1;
        let fragment = |tsn: u32| {
            let bits = match tsn {
                1 => "B",
                _ if tsn == last => "E",
                _ => "M",
            };
            piece(tsn, 0, 0, bits, tsn.to_be_bytes())
        };
        let missing = below + 1;
        for tsn in (2..missing).chain((missing + 1..=last).rev()).chain([missing, 1]) {
            rig.accept(&[fragment(tsn)]);
        }
        let expected: Vec<u8> = (1..=last).flat_map(u32::to_be_bytes).collect();
        assert_eq!(rig.messages()[0].payload, expected);
    }
}

#[test]
fn a_message_begins_with_the_b_bit_rfc9260_3_3_1() {
    let expected = "a fragment follows the end of a message without beginning one";
    let b_missing: [&[Piece]; 6] = [
        &[piece(1, 0, 0, "M", "x")],
        &[piece(1, 0, 0, "E", "x")],
        &[whole(1, 0, 0, "x"), piece(2, 0, 1, "M", "y")],
        &[whole(4, 1, 0, "x"), piece(5, 0, 1, "E", "y")],
        &[piece(5, 0, 1, "E", "y"), whole(4, 1, 0, "x")],
        &[piece(5, 0, 1, "M", "y"), piece(4, 1, 0, "E", "x")],
    ];
    for pieces in b_missing {
        assert_eq!(Rig::new().violation(pieces), expected, "{pieces:?}");
    }
}

#[test]
fn a_message_ends_with_the_e_bit_rfc9260_3_3_1() {
    let expected = "a message begins before the one before it has ended";
    let e_missing: [&[Piece]; 6] = [
        &[piece(1, 0, 0, "B", "x"), whole(2, 0, 1, "y")],
        &[piece(1, 0, 0, "B", "x"), piece(2, 0, 1, "B", "y")],
        &[piece(4, 0, 0, "M", "x"), whole(5, 0, 1, "y")],
        &[piece(5, 0, 1, "B", "y"), piece(4, 0, 0, "M", "x")],
        &[whole(5, 0, 1, "y").unordered(), piece(4, 0, 0, "B", "x")],
        &[whole(2, 0, 1, "y"), piece(1, 0, 0, "B", "x")],
    ];
    for pieces in e_missing {
        assert_eq!(Rig::new().violation(pieces), expected, "{pieces:?}");
    }
}

#[test]
fn all_fragments_of_a_message_have_one_stream_one_ssn_and_one_u_bit_rfc9260_6_9() {
    let expected = "the fragments of a message differ in stream, stream sequence number or U bit";
    let strangers = [piece(2, 1, 0, "E", "y"), piece(2, 0, 1, "E", "y"), piece(2, 0, 0, "E", "y").unordered()];
    for stranger in strangers {
        let first = piece(1, 0, 0, "B", "x");
        assert_eq!(Rig::new().violation(&[first.clone(), stranger.clone()]), expected);
        assert_eq!(Rig::new().violation(&[stranger, first]), expected);
    }
}

#[test]
fn no_chunk_of_an_invalid_stream_lies_within_a_message() {
    let stranger = || piece(2, STREAMS, 0, "M", "y");
    assert_eq!(
        Rig::new().violation(&[piece(1, 0, 0, "B", "x"), stranger()]),
        "a message begins before the one before it has ended"
    );
    assert_eq!(
        Rig::new().violation(&[piece(3, 0, 0, "E", "x"), stranger()]),
        "a fragment follows the end of a message without beginning one"
    );
}

#[test]
fn a_message_longer_than_the_limit_breaks_the_protocol_in_one_piece_or_several() {
    let rig = || Rig::with(|config| config.limits.message_bytes_max = 1_000);
    let expected = "a message is longer than this endpoint accepts";
    assert_eq!(rig().violation(&[whole(1, 0, 0, [0; 1_001])]), expected);
    assert_eq!(rig().violation(&[piece(1, 0, 0, "B", [0; 500]), piece(2, 0, 0, "E", [0; 501])]), expected);
    let mut rig = rig();
    rig.accept(&[whole(1, 0, 0, [0; 1_000]), piece(2, 0, 1, "B", [0; 500]), piece(3, 0, 1, "E", [0; 500])]);
    assert_eq!(rig.messages().len(), 2);
}

#[test]
fn a_message_in_countless_tiny_fragments_costs_about_its_bytes() {
    let mut rig = Rig::new();
    rig.accept(&[piece(1, 0, 0, "B", "x")]);
    for tsn in 2..=30_000 {
        rig.accept(&[piece(tsn, 0, 0, "M", "x")]);
    }
    assert!(rig.receiver.used_bytes() < 40_000, "{}", rig.receiver.used_bytes());
    rig.accept(&[piece(30_001, 0, 0, "E", "x")]);
    assert_eq!(rig.messages()[0].payload.len(), 30_001);
    assert_eq!(rig.receiver.used_bytes(), 0);
}

//! The peer's receive window and probing for it (RFC 9260 §6.1 rule A, §6.2.1).

use super::*;

/// A window that holds the chunk of one full packet exactly.
const ONE_CHUNK: u32 = 1_204;

/// One packet is acknowledged, one waits, and the peer's window is `a_rwnd`.
fn blocked(profile: Profile, a_rwnd: u32) -> Rig {
    let mut rig = Rig::new(profile).measured(ms(100));
    rig.flight(1, FULL);
    rig.sack_full(1, a_rwnd, &[], &[]);
    rig.send_bytes(FULL);
    rig
}

#[test]
fn the_window_is_what_was_told_less_what_is_on_the_way_section_6_2_1() {
    let mut rig = Rig::standard();
    rig.flight(3, 1_000);
    assert_eq!(rig.stats().path.peer_window_bytes, u64::from(WINDOW) - 3_000);
    rig.sack_full(0, 5_000, &[(2, 2)], &[]);
    assert_eq!(rig.stats().path.peer_window_bytes, 3_000, "two chunks are still outstanding");
    rig.expire();
    assert_eq!(rig.stats().path.peer_window_bytes, 5_000, "chunks marked for retransmission are given back");
}

#[test]
fn new_data_waits_for_a_window_that_holds_the_whole_chunk_section_6_1_rule_a() {
    let mut rig = Rig::standard();
    rig.flight(2, FULL);
    rig.sack_full(1, 2 * ONE_CHUNK - 1, &[], &[]);
    rig.send_bytes(FULL);
    assert!(!rig.can_send(), "no fragment is cut to the window: no silly window");
    rig.sack_full(1, 2 * ONE_CHUNK, &[], &[]);
    assert_eq!(rig.tsns(), [[3]]);
}

#[test]
fn if_the_message_in_front_expires_the_window_that_is_too_small_for_the_next_one_is_probed() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    rig.flight(1, FULL);
    rig.sack_full(1, 300, &[], &[]);
    rig.send(Message::new(vec![7; 300]).with_lifetime(ms(10)));
    rig.send_bytes(FULL);
    rig.wait(11);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "one is too late, one too large");
    assert_eq!(rig.expire(), (ms(200), None));
    assert_eq!(rig.tsns(), [[2]]);
}

#[test]
fn a_closed_window_is_probed_after_one_rto_with_one_chunk_section_6_1_rule_a() {
    let mut rig = blocked(Profile::Rfc9260, 0);
    rig.send_bytes(10);
    assert!(!rig.can_send());
    assert_eq!(rig.expire(), (ms(1_000), None), "nothing counts as an error");
    assert_eq!(rig.tsns(), [[2]], "one chunk though both would fit the packet");
}

#[test]
fn a_window_too_small_for_the_next_chunk_is_probed_like_a_closed_one() {
    let mut rig = blocked(Profile::Rfc9260, ONE_CHUNK - 1);
    assert!(!rig.can_send());
    assert_eq!(rig.expire(), (ms(1_000), None));
    assert_eq!(rig.tsns(), [[2]]);
    rig.sack(2, &[]);
    assert!(rig.sender.flight.is_drained());
    assert_eq!(rig.deadline(), None);
}

#[test]
fn probes_back_off_and_count_nothing_while_the_peer_answers_section_6_1_rule_a() {
    for (profile, rto) in [(Profile::Rfc9260, 1_000), (Profile::Festina, 200), (Profile::Petlund2010, 232)] {
        let mut rig = blocked(profile, 0);
        rig.expire();
        rig.packets();
        let cwnd = rig.stats().path.cwnd_bytes;
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert!(rig.sack_full(1, 0, &[], &[]).contains(PathId::PRIMARY));
            let (pause, expiry) = rig.expire();
            assert_eq!(expiry, Some(TimerExpiry::Timeout { counts: false }), "{profile}");
            assert_eq!(rig.tsns(), [[2]]);
            pauses.push(pause);
        }
        assert_eq!(pauses[..3], [1, 2, 4].map(|factor| ms(factor * rto)), "{profile} starts from its own RTO");
        assert!(pauses.is_sorted() && pauses[9] == ms(60_000), "{pauses:?}");
        assert_eq!(rig.stats().path.cwnd_bytes, cwnd, "probing does not touch cwnd");
        assert_eq!(rig.stats().sent.timeouts, 0);
    }
}

#[test]
fn an_unanswered_window_probe_counts_as_an_error_section_8_1() {
    let mut rig = blocked(Profile::Rfc9260, 0);
    rig.expire();
    rig.packets();
    assert_eq!(rig.expire().1, Some(TimerExpiry::Timeout { counts: true }));
}

#[test]
fn when_the_window_opens_the_dropped_probe_leaves_at_once() {
    let mut rig = blocked(Profile::Rfc9260, 0);
    rig.send_bytes(10);
    rig.expire();
    rig.packets();
    for _ in 0..5 {
        rig.sack_full(1, 0, &[], &[]);
        rig.expire();
        rig.packets();
    }
    rig.wait(500);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [vec![2], vec![3]]);
    assert_eq!(rig.stats().path.rto, ms(1_000), "the wait for the window was no sign of congestion");
    rig.sack(3, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn a_probe_that_the_peer_takes_ends_the_probing() {
    let mut rig = blocked(Profile::Rfc9260, 0);
    rig.send_bytes(10);
    rig.expire();
    rig.packets();
    rig.sack_full(2, 0, &[], &[]);
    assert!(!rig.can_send());
    assert_eq!(rig.expire(), (ms(1_000), None), "probing starts again");
    assert_eq!(rig.tsns(), [[3]]);
}

#[test]
fn a_window_that_opens_before_the_probe_releases_the_data() {
    let mut rig = blocked(Profile::Rfc9260, 0);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[2]]);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Timeout { counts: true }), "an ordinary chunk, an ordinary timeout");
}

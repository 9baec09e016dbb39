//! §5.2: setup chunks when an association exists: collisions, restarts, Table 12.

use festina_sctp::{AssociationState, ClosedReason, Event, Message};
use festina_units::Duration;

use super::packet::{
    COOKIE_ACK, COOKIE_ECHO, DATA, Data, ERROR, INIT, INIT_ACK, Init, SACK, SHUTDOWN_ACK, chunk, cookie_echo, data,
    shutdown, tlv, u32_at,
};
use super::peer::{PEER_TAG, PEER_WINDOW, Peer, config, init_ack, offer};

/// The tag of the peer's other life.
pub(super) const NEW_TAG: u32 = 0x0bad_cafe;

/// An INIT with which the peer restarts.
pub(super) fn new_init() -> Init {
    Init { tag: NEW_TAG, tsn: 500, ..offer() }
}

/// Sends an INIT to the association and returns its INIT ACK.
pub(super) fn unexpected_init(peer: &mut Peer, init: &Init) -> Init {
    peer.give_tagged(0, &[init.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.to), (vec![INIT_ACK], init.tag, peer.address));
    sent.init()
}

/// Asserts that the association continues undisturbed.
pub(super) fn goes_on(peer: &mut Peer, tsn: u32) {
    assert_eq!(peer.state(), AssociationState::Established);
    assert!(!peer.events.contains(&Event::PeerRestarted));
    let before = peer.received.len();
    peer.give(&[data(tsn)]);
    assert_eq!(peer.received.len(), before + 1);
    peer.send("still here");
    let sent = peer.take();
    assert!(sent.iter().all(|sent| sent.tag == PEER_TAG) && sent.iter().any(|sent| sent.has(DATA)), "{sent:?}");
}

/// Asserts that a cookie had no effect, except that its owner, if alive, has to send another INIT.
fn has_to_ask_anew(peer: &mut Peer, tag: u32) {
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ERROR], tag));
    assert_eq!(sent.the(ERROR).causes(), [(3, vec![0; 4])], "§3.3.10.3");
}

#[test]
fn s5_2_1_an_init_in_cookie_wait_is_answered_with_the_parameters_of_the_own_init() {
    let mut peer = Peer::connecting(config());
    let own = peer.take_one();
    let answer = unexpected_init(&mut peer, &offer());
    let init = own.init();
    assert_eq!(
        (answer.tag, answer.a_rwnd, answer.inbound, answer.tsn),
        (init.tag, init.a_rwnd, init.inbound, init.tsn)
    );
    assert!(!answer.cookie().is_empty());
    assert_eq!(peer.state(), AssociationState::CookieWait);
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1), "T1-init was left running");
    assert_eq!(peer.take_one().bytes, own.bytes);
}

#[test]
fn s5_2_1_an_init_in_cookie_echoed_is_answered_with_the_parameters_of_the_own_init() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    let own = peer.take_one();
    let answer = unexpected_init(&mut peer, &new_init());
    assert_eq!((answer.tag, answer.tsn), (peer.tag, peer.initial_tsn));
    assert!(!answer.cookie().is_empty());
    assert_eq!(peer.state(), AssociationState::CookieEchoed);
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1), "T1-cookie was left running");
    assert_eq!(peer.take_one().bytes, own.bytes);
}

#[test]
fn s5_2_2_an_unexpected_init_is_answered_with_a_new_tag_and_changes_nothing() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &new_init());
    assert_ne!(answer.tag, peer.tag);
    assert_ne!(answer.tag, 0);
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_2_an_init_is_answered_while_shutting_down_and_changes_nothing() {
    let mut pending = Peer::established();
    pending.send("unacknowledged");
    pending.shutdown();
    let mut sent = Peer::established();
    sent.shutdown();
    let mut received = Peer::established();
    received.send("unacknowledged");
    received.give(&[shutdown(received.tsn(0))]);
    for mut peer in [pending, sent, received] {
        peer.take();
        let before = peer.state();
        unexpected_init(&mut peer, &new_init());
        assert_eq!(peer.state(), before);
    }
}

#[test]
fn s5_2_3_an_unexpected_init_ack_is_discarded_whatever_it_says() {
    let bad = [
        Init { tag: 0, ..init_ack() },
        Init { outbound: 0, ..init_ack() },
        Init { inbound: 0, ..init_ack() },
        Init { tag: 99, ..init_ack() },
        offer(),
    ];
    for init_ack in bad {
        let mut peer = Peer::established();
        peer.give(&[init_ack.chunk(INIT_ACK)]);
        peer.nothing_sent();
        goes_on(&mut peer, 1);
    }
}

#[test]
fn s5_2_4_a_restart_of_the_peer_begins_the_association_anew() {
    let mut peer = Peer::established();
    peer.give(&[data(1), data(2)]);
    peer.send_full(4);
    peer.take();
    peer.ack(4);
    let answer = unexpected_init(&mut peer, &new_init());
    let initial_cwnd = Peer::established().association().stats().path.cwnd_bytes;
    assert!(peer.association().stats().path.cwnd_bytes > initial_cwnd, "it has grown");
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![COOKIE_ACK], NEW_TAG));
    assert_eq!(peer.state(), AssociationState::Established);
    assert!(peer.events.contains(&Event::PeerRestarted));
    assert_eq!(peer.association().stats().path.cwnd_bytes, initial_cwnd);
    (peer.tag, peer.initial_tsn) = (answer.tag, answer.tsn);
    peer.give(&[Data::new(500, 0, b"fresh").chunk()]);
    assert_eq!(peer.take_one().sack().cumulative, 500);
    assert_eq!(peer.payloads().last(), Some(&&b"fresh"[..]));
    peer.send("fresh");
    let again = peer.take_one();
    assert_eq!((peer.tsns(&again), again.data()[0].ssn, again.tag), (vec![1], 0, NEW_TAG), "§6.5: SSNs from 0");
}

#[test]
fn s5_2_4_after_a_restart_packets_with_the_old_tag_are_dropped() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &new_init());
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    peer.take();
    peer.give(&[Data::new(500, 0, b"old").chunk()]);
    assert!(peer.payloads().is_empty());
}

#[test]
fn s5_2_4_a_restart_while_shutdown_ack_is_out_repeats_it_with_an_error() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &new_init());
    peer.give(&[shutdown(peer.tsn(0))]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(SHUTDOWN_ACK)), "{sent:?}");
    let errors: Vec<_> = sent.iter().filter(|sent| sent.has(ERROR)).map(|sent| sent.the(ERROR).causes()).collect();
    assert_eq!(errors, [[(10, vec![])]], "§3.3.10.10");
    assert_eq!(peer.state(), AssociationState::ShutdownAckSent);
    assert!(!peer.events.contains(&Event::PeerRestarted));
}

#[test]
fn s5_2_4_a_collision_in_cookie_wait_is_resolved_by_the_peers_cookie_echo() {
    let mut peer = Peer::connecting(config());
    peer.take();
    let answer = unexpected_init(&mut peer, &offer());
    (peer.tag, peer.initial_tsn) = (answer.tag, answer.tsn);
    peer.give(&[cookie_echo(&answer.cookie())]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK], "row M 0, action B");
    goes_on(&mut peer, 1);
    peer.ack(1);
    peer.wait(Duration::from_secs(600));
    assert!(peer.take().iter().all(|sent| !sent.has(INIT)), "T1-init was stopped");
}

#[test]
fn s5_2_4_a_cookie_with_another_tag_of_the_peer_replaces_the_peers_tag() {
    let mut peer = Peer::connecting(config());
    peer.take();
    let answer = unexpected_init(&mut peer, &offer());
    (peer.tag, peer.initial_tsn) = (answer.tag, answer.tsn);
    peer.give(&[Init { tag: 99, ..init_ack() }.chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().tag, 99);
    peer.give(&[cookie_echo(&answer.cookie())]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![COOKIE_ACK], PEER_TAG), "row M X, action B");
    goes_on(&mut peer, 1);
    peer.ack(1);
    peer.wait(Duration::from_secs(600));
    assert!(peer.take().iter().all(|sent| !sent.has(COOKIE_ECHO)), "T1-cookie was stopped");
}

#[test]
fn s6_in_cookie_echoed_a_sack_is_not_processed_since_the_peer_may_yet_be_another() {
    let mut peer = Peer::connecting(config());
    peer.take();
    let answer = unexpected_init(&mut peer, &offer());
    (peer.tag, peer.initial_tsn) = (answer.tag, answer.tsn);
    peer.send("first");
    peer.give(&[Init { tag: 99, ..init_ack() }.chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO, DATA]);
    peer.ack(1);
    peer.give(&[cookie_echo(&answer.cookie())]);
    peer.take();
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1]], "the other has not had it");
}

#[test]
fn s5_2_4_a_late_cookie_of_an_earlier_own_tag_is_discarded_silently() {
    // The listener's answer to the peer's INIT, from before the association was begun.
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    let earlier_tag = peer.tag;
    peer.connect(1);
    let init = peer.take_one().init();
    (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
    peer.give(&[init_ack().chunk(INIT_ACK)]);
    let echo = peer.take_one();
    assert_ne!(peer.tag, earlier_tag);
    peer.give_tagged(earlier_tag, &[cookie_echo(&cookie)]);
    peer.nothing_sent();
    assert_eq!(peer.state(), AssociationState::CookieEchoed, "row X M 0 0, action C");
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1), "T1-cookie was left running");
    assert_eq!(peer.take_one().bytes, echo.bytes);
}

#[test]
fn s5_2_4_a_cookie_with_both_tags_establishes_from_cookie_echoed() {
    let mut peer = Peer::connecting(config());
    peer.take();
    let answer = unexpected_init(&mut peer, &offer());
    (peer.tag, peer.initial_tsn) = (answer.tag, answer.tsn);
    peer.give(&[init_ack().chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
    peer.give(&[cookie_echo(&answer.cookie())]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK], "row M M, action D");
    goes_on(&mut peer, 1);
    peer.ack(1);
    peer.wait(Duration::from_secs(600));
    assert!(peer.take().iter().all(|sent| !sent.has(COOKIE_ECHO)), "T1-cookie was stopped");
}

#[test]
fn s5_2_4_a_repeated_cookie_echo_is_acknowledged_again_and_changes_nothing() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.give(&[cookie_echo(&cookie)]);
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK], "row M M, action D");
    goes_on(&mut peer, 2);
}

#[test]
fn s5_2_4_a_stale_cookie_with_both_tags_is_still_good() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.give(&[cookie_echo(&cookie)]);
    peer.take();
    peer.wait(Duration::from_secs(100));
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
}

#[test]
fn s5_2_4_a_stale_cookie_with_other_tags_is_answered_by_an_error() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &new_init());
    peer.wait(Duration::from_secs(62));
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    let sent = peer.take_one();
    assert_eq!(sent.kinds(), [ERROR]);
    let [(3, staleness)] = &sent.the(ERROR).causes()[..] else { panic!("{sent:?}") };
    assert!([0, 2_000_000].contains(&u32_at(staleness, 0)));
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_4_a_forged_cookie_does_not_restart_an_association() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &new_init());
    let mut forged = answer.cookie();
    *forged.last_mut().expect("it is not empty") ^= 1;
    peer.give_tagged(answer.tag, &[cookie_echo(&forged)]);
    peer.nothing_sent();
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_4_a_cookie_without_tie_tags_does_not_restart_an_association() {
    let mut peer = Peer::new(config());
    let early_cookie = peer.begin(&new_init());
    let early_tag = peer.tag;
    let cookie = peer.begin(&offer());
    peer.give(&[cookie_echo(&cookie)]);
    peer.take();
    peer.give_tagged(early_tag, &[cookie_echo(&early_cookie)]);
    has_to_ask_anew(&mut peer, NEW_TAG);
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_4_a_cookie_with_the_peers_tag_but_another_own_tag_and_tie_tags_is_discarded() {
    let mut peer = Peer::established();
    let answer = unexpected_init(&mut peer, &offer());
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    peer.nothing_sent();
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_4_a_restart_cookie_cannot_be_replayed() {
    let mut peer = Peer::established();
    let first = unexpected_init(&mut peer, &new_init());
    let second = unexpected_init(&mut peer, &Init { tag: NEW_TAG + 1, ..new_init() });
    peer.give_tagged(second.tag, &[cookie_echo(&second.cookie())]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
    peer.give_tagged(first.tag, &[cookie_echo(&first.cookie())]);
    has_to_ask_anew(&mut peer, NEW_TAG);
    let restarts = peer.events.iter().filter(|event| **event == Event::PeerRestarted).count();
    assert_eq!(restarts, 1, "its tie tags are those of the association before the restart");
}

#[test]
fn s5_2_4_unacknowledged_messages_fail_at_a_restart() {
    let mut peer = Peer::established();
    peer.send("lost");
    peer.take();
    let answer = unexpected_init(&mut peer, &new_init());
    peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
    assert!(peer.events.iter().any(|event| matches!(event, Event::MessagesAbandoned { .. })));
}

#[test]
fn s5_2_5_an_unexpected_cookie_ack_is_discarded() {
    let mut peer = Peer::established();
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    peer.nothing_sent();
    goes_on(&mut peer, 1);
    let mut waiting = Peer::connecting(config());
    waiting.take();
    waiting.tag = waiting.association().local_tag();
    waiting.give(&[chunk(COOKIE_ACK, 0, b"")]);
    assert_eq!(waiting.state(), AssociationState::CookieWait);
}

#[test]
fn s5_2_6_a_stale_cookie_error_in_cookie_echoed_leads_to_a_new_init_or_to_the_end() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    peer.take();
    peer.give(&[chunk(ERROR, 0, &tlv(3, &[0, 0, 0, 9]))]);
    if let Some(reason) = peer.closed() {
        assert_eq!(reason, &ClosedReason::HandshakeTimeout);
    } else {
        assert_eq!(peer.take_one().kinds(), [INIT]);
        assert_eq!(peer.state(), AssociationState::CookieWait);
    }
}

#[test]
fn s5_2_6_stale_cookie_errors_do_not_keep_an_attempt_alive_for_ever() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    let mut attempts = 0;
    while peer.closed().is_none() {
        attempts += 1;
        assert!(attempts <= 9, "Max.Init.Retransmits is 8");
        peer.give(&[chunk(ERROR, 0, &tlv(3, &[0, 0, 0, 9]))]);
        if let Some(init) = peer.take().into_iter().find(|sent| sent.has(INIT)) {
            peer.tag = init.init().tag;
            peer.give(&[init_ack().chunk(INIT_ACK)]);
        }
    }
    assert_eq!(peer.closed(), Some(&ClosedReason::HandshakeTimeout));
}

#[test]
fn s5_2_6_causes_behind_the_stale_cookie_that_ends_the_attempt_are_not_reported() {
    let mut config = config();
    config.retries.init_max = 0;
    let mut peer = Peer::cookie_echoed(config, &init_ack());
    // Out of Resource (§3.3.10.4).
    peer.give(&[chunk(ERROR, 0, &[tlv(3, &[0, 0, 0, 9]), tlv(4, &[])].concat())]);
    assert_eq!(peer.closed(), Some(&ClosedReason::HandshakeTimeout));
    assert!(matches!(peer.events.last(), Some(Event::Closed(_))), "{:?}", peer.events);
}

#[test]
fn s5_2_6_a_stale_cookie_error_in_another_state_is_discarded() {
    let mut peer = Peer::established();
    peer.give(&[chunk(ERROR, 0, &tlv(3, &[0, 0, 0, 9]))]);
    peer.nothing_sent();
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_2_the_new_tie_tags_do_not_disturb_data_that_is_on_the_way() {
    let mut peer = Peer::established();
    peer.send_message(Message::new("x"));
    peer.take();
    unexpected_init(&mut peer, &new_init());
    let sack = peer.sack(1, PEER_WINDOW, &[]);
    peer.give(&[sack.chunk(), data(1)]);
    assert!(peer.take_one().has(SACK));
    assert!(peer.events.contains(&Event::Drained));
}

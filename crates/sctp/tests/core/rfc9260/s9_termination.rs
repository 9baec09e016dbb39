//! §9: abort and shutdown.

use festina_sctp::{AssociationState, ClosedReason, Event, Message, SendError, SendErrorKind};
use festina_units::Duration;

use super::packet::{
    ABORT, DATA, HEARTBEAT, INIT, Init, SACK, SHUTDOWN, SHUTDOWN_ACK, SHUTDOWN_COMPLETE, chunk, cookie_echo, data,
    heartbeat, shutdown, tlv, u32_at,
};
use super::peer::{PEER_TAG, Peer, config, init_ack, ms, offer};

/// The cumulative TSN of a SHUTDOWN.
fn cumulative(sent: &super::packet::Sent) -> u32 {
    assert_eq!(sent.the(SHUTDOWN).value.len(), 4, "§3.3.8: length 8");
    u32_at(&sent.the(SHUTDOWN).value, 0)
}

/// A peer that faces an association in SHUTDOWN-SENT.
fn shutdown_sent() -> Peer {
    let mut peer = Peer::established();
    peer.shutdown();
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN]);
    peer
}

/// A peer that faces an association in SHUTDOWN-RECEIVED with one message outstanding.
fn shutdown_received() -> Peer {
    let mut peer = Peer::established();
    peer.send("outstanding");
    peer.take();
    peer.give(&[shutdown(peer.tsn(0))]);
    assert_eq!(peer.state(), AssociationState::ShutdownReceived);
    peer.take();
    peer
}

#[test]
fn s9_1_an_abort_names_the_users_reason_and_ends_everything() {
    let mut peer = Peer::established();
    peer.send_full(10);
    peer.take();
    peer.abort(b"enough");
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], PEER_TAG));
    assert_eq!(sent.the(ABORT).causes(), [(12, b"enough".to_vec())], "§3.3.10.12");
    assert_eq!(peer.closed(), Some(&ClosedReason::AbortedLocally));
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s9_1_a_received_abort_ends_the_association_and_its_reason_is_told() {
    let mut peer = Peer::established();
    peer.give(&[chunk(ABORT, 0, &tlv(12, b"leaving"))]);
    peer.nothing_sent();
    assert_eq!(peer.closed(), Some(&ClosedReason::AbortedByPeer { code: 12, info: "leaving".into() }));
    assert_eq!(peer.state(), AssociationState::Closed);
}

#[test]
fn s9_1_an_abort_ends_the_association_in_every_state() {
    let states = [
        Peer::cookie_echoed(config(), &init_ack()),
        shutdown_sent(),
        shutdown_received(),
        Peer::facing_shutdown_ack_sent(),
    ];
    for mut peer in states {
        peer.take();
        peer.give(&[chunk(ABORT, 0, b"")]);
        peer.nothing_sent();
        assert!(peer.closed().is_some());
    }
}

#[test]
fn s9_2_shutdown_waits_until_everything_sent_is_acknowledged() {
    let mut peer = Peer::established();
    peer.send_full(6);
    peer.take();
    peer.shutdown();
    peer.nothing_sent();
    assert_eq!(peer.state(), AssociationState::ShutdownPending);
    peer.ack(4);
    assert_eq!(peer.take_tsns(), [[5], [6]], "queued messages are still sent");
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[5]], "and sent again if necessary");
    peer.ack(6);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![SHUTDOWN], PEER_TAG));
    assert_eq!(peer.state(), AssociationState::ShutdownSent);
}

#[test]
fn s9_2_shutdown_names_the_last_sequential_tsn() {
    let mut peer = Peer::established();
    peer.give(&[data(1), data(2)]);
    peer.give(&[data(4)]);
    peer.take();
    peer.shutdown();
    assert_eq!(cumulative(&peer.take_one()), 2);
}

#[test]
fn s9_2_no_new_messages_are_taken_once_a_shutdown_has_begun() {
    let mut pending = Peer::established();
    pending.send("x");
    pending.shutdown();
    for mut peer in [pending, shutdown_sent(), shutdown_received(), Peer::facing_shutdown_ack_sent()] {
        let now = peer.now;
        let refused = peer.association().send(now, Message::new("too late"));
        assert!(
            matches!(refused, Err(SendError { kind: SendErrorKind::Closed, .. })),
            "{:?}: {refused:?}",
            peer.state()
        );
    }
}

#[test]
fn s9_2_t2_repeats_the_shutdown_with_the_tsn_of_now() {
    let mut settings = config();
    settings.timers.shutdown_guard = Some(Duration::from_secs(10_000));
    let mut peer = Peer::serving(settings, &init_ack());
    peer.shutdown();
    peer.take();
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1));
    assert_eq!(cumulative(&peer.take_one()), 0);
    peer.give(&[data(1)]);
    peer.take();
    for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60] {
        assert_eq!(peer.wait_for_packet(), Duration::from_secs(pause), "§6.3.3 E2");
        assert_eq!(cumulative(&peer.take_one()), 1);
    }
    peer.wait_for_packet();
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable), "after Association.Max.Retrans");
}

#[test]
fn s9_2_the_guard_timer_aborts_after_five_times_rto_max() {
    let mut peer = shutdown_sent();
    let start = peer.now;
    while peer.closed().is_none() {
        peer.take();
        peer.wait_for_packet();
    }
    assert_eq!(peer.now - start, Duration::from_secs(300));
    assert_eq!(peer.take_one().kinds(), [ABORT]);
    assert_eq!(peer.closed(), Some(&ClosedReason::ShutdownTimeout));
}

#[test]
fn s9_2_the_guard_timer_bounds_a_peer_that_always_has_more_data() {
    let mut peer = shutdown_sent();
    let start = peer.now;
    let mut tsn = 0;
    while peer.closed().is_none() {
        tsn += 1;
        peer.give(&[data(tsn)]);
        peer.wait(ms(700));
    }
    assert_eq!(peer.closed(), Some(&ClosedReason::ShutdownTimeout));
    assert!(peer.now - start <= Duration::from_secs(301));
}

#[test]
fn s9_2_a_peer_that_restarts_again_and_again_does_not_prolong_the_guard_timer() {
    let mut peer = Peer::client(config(), &offer());
    peer.shutdown();
    let start = peer.now;
    for tag in 100.. {
        peer.take();
        peer.wait(Duration::from_secs(50));
        if peer.closed().is_some() {
            break;
        }
        peer.take();
        let cookie = peer.begin(&Init { tag, ..offer() });
        peer.give(&[cookie_echo(&cookie)]);
    }
    assert_eq!(peer.closed(), Some(&ClosedReason::ShutdownTimeout));
    assert_eq!(peer.now - start, Duration::from_secs(300));
}

/// Lets a peer that keeps its window closed answer everything at once, and acknowledge what `acked` says at that time, until the
/// association is over or SHUTDOWN or SHUTDOWN ACK leaves. How long it took.
fn drained_by(peer: &mut Peer, acked: impl Fn(Duration) -> u32) -> Duration {
    let start = peer.now;
    loop {
        let sent = peer.take();
        if peer.closed().is_some() || sent.iter().any(|sent| sent.has(SHUTDOWN) || sent.has(SHUTDOWN_ACK)) {
            return peer.now - start;
        }
        assert!(peer.now - start < Duration::from_secs(3_600), "it never ends");
        peer.ack_window(acked(peer.now - start), 0);
        peer.wait(ms(500));
    }
}

#[test]
fn s9_2_a_peer_that_keeps_its_window_closed_holds_the_end_up_for_the_stall_time_and_no_longer() {
    for peer_begins in [false, true] {
        let mut peer = Peer::established();
        peer.send_full(8);
        peer.ack_window(4, 0);
        if peer_begins {
            peer.give(&[shutdown(peer.tsn(4))]);
        } else {
            peer.shutdown();
        }
        let time = drained_by(&mut peer, |_| 4);
        assert_eq!(peer.closed(), Some(&ClosedReason::ShutdownTimeout));
        assert!(time <= ms(30_500), "{time:?}");
    }
}

#[test]
fn s9_2_a_peer_that_acknowledges_a_little_now_and_then_does_not_hold_the_end_up_for_longer() {
    let mut peer = Peer::established();
    for _ in 0..1_000 {
        peer.send("tiny");
    }
    peer.shutdown();
    let time = drained_by(&mut peer, |time| u32::try_from(time.as_secs() / 29).expect("it ends before"));
    assert_eq!(peer.closed(), Some(&ClosedReason::ShutdownTimeout));
    assert!(time <= Duration::from_secs(30), "a thousandth is no progress: {time:?}");
}

#[test]
fn s9_2_the_stall_time_begins_anew_with_each_sixteenth_that_is_acknowledged() {
    let mut peer = Peer::established();
    for _ in 0..16 {
        peer.send("tiny");
    }
    peer.shutdown();
    let time = drained_by(&mut peer, |time| u32::try_from(time.as_secs() / 29).expect("it ends before"));
    assert_eq!(peer.closed(), None);
    assert!((ms(464_000)..ms(465_000)).contains(&time), "{time:?}");
}

#[test]
fn s9_2_in_shutdown_sent_data_is_answered_at_once_by_a_shutdown() {
    let mut peer = shutdown_sent();
    peer.wait(ms(600));
    for tsn in 1..4 {
        peer.give(&[data(tsn)]);
        assert_eq!(cumulative(&peer.take_one()), tsn);
    }
    assert_eq!(peer.payloads().len(), 3, "and is delivered");
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1), "T2 was restarted");
}

#[test]
fn s9_2_in_shutdown_sent_gaps_and_duplicates_bring_a_sack_too() {
    let mut peer = shutdown_sent();
    peer.give(&[data(2)]);
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(SHUTDOWN)));
    let sacks: Vec<_> = sent.iter().filter(|sent| sent.has(SACK)).map(|sent| sent.sack().gaps).collect();
    assert_eq!(sacks, [[(2, 2)]]);
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(1)]);
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(SHUTDOWN)));
    let sacks: Vec<_> = sent.iter().filter(|sent| sent.has(SACK)).map(|sent| sent.sack().duplicates).collect();
    assert_eq!(sacks, [[1]]);
}

#[test]
fn s9_2_in_shutdown_sent_any_packet_of_the_peer_restarts_t2() {
    let mut peer = shutdown_sent();
    peer.wait(ms(800));
    peer.give(&[heartbeat(HEARTBEAT, b"alive")]);
    peer.take();
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1));
}

#[test]
fn s9_2_a_received_shutdown_is_acknowledged_when_nothing_is_outstanding() {
    let mut peer = Peer::facing_shutdown_ack_sent();
    assert_eq!(peer.state(), AssociationState::ShutdownAckSent);
    assert!(peer.events.contains(&Event::PeerShutdown));
    for pause in [1, 2, 4] {
        assert_eq!(peer.wait_for_packet(), Duration::from_secs(pause), "T2");
        assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
    }
}

#[test]
fn s9_2_shutdown_ack_is_repeated_association_max_retrans_times() {
    let mut peer = Peer::established();
    let start = peer.now;
    peer.give(&[shutdown(peer.tsn(0))]);
    peer.take();
    let mut count = 0;
    while peer.closed().is_none() {
        peer.wait_for_packet();
        count += peer.take().iter().filter(|sent| sent.has(SHUTDOWN_ACK)).count();
        assert!(count <= 10);
    }
    assert_eq!(count, 10);
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
    assert_eq!(peer.now - start, Duration::from_secs(363), "T5 guards SHUTDOWN alone");
}

#[test]
fn s9_2_a_received_shutdown_acknowledges_data() {
    let mut peer = Peer::established();
    peer.send("a");
    peer.send("b");
    peer.take();
    peer.give(&[shutdown(peer.tsn(1))]);
    peer.nothing_sent();
    assert_eq!(peer.state(), AssociationState::ShutdownReceived);
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[2]]);
    peer.give(&[shutdown(peer.tsn(2))]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK], "a further SHUTDOWN is still processed");
}

#[test]
fn s9_2_in_shutdown_received_queued_data_is_sent_and_acknowledged_first() {
    let mut peer = Peer::established();
    peer.send_full(6);
    peer.take();
    peer.give(&[shutdown(peer.tsn(0))]);
    peer.nothing_sent();
    peer.ack(4);
    assert_eq!(peer.take_tsns(), [[5], [6]]);
    peer.ack(6);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
}

#[test]
fn s9_2_in_shutdown_received_the_users_shutdown_is_ignored() {
    let mut peer = shutdown_received();
    peer.shutdown();
    peer.nothing_sent();
    assert_eq!(peer.state(), AssociationState::ShutdownReceived);
    peer.ack(1);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
}

#[test]
fn s6_in_shutdown_pending_and_shutdown_sent_data_is_still_delivered() {
    let mut pending = Peer::established();
    pending.send("outstanding");
    pending.shutdown();
    for mut peer in [pending, shutdown_sent()] {
        peer.give(&[data(1)]);
        assert_eq!(peer.payloads(), [b"d"]);
    }
}

#[test]
fn s6_in_shutdown_received_and_shutdown_ack_sent_data_is_discarded() {
    for mut peer in [shutdown_received(), Peer::facing_shutdown_ack_sent()] {
        let state = peer.state();
        peer.give(&[data(1)]);
        assert!(peer.payloads().is_empty());
        assert_eq!(peer.state(), state);
    }
}

#[test]
fn s9_2_a_shutdown_ack_is_answered_by_shutdown_complete_and_the_association_is_over() {
    let mut peer = shutdown_sent();
    peer.give(&[chunk(SHUTDOWN_ACK, 0, b"")]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_COMPLETE]);
    assert_eq!(peer.closed(), Some(&ClosedReason::Shutdown));
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s9_2_a_shutdown_complete_ends_shutdown_ack_sent() {
    let mut peer = Peer::facing_shutdown_ack_sent();
    peer.give(&[chunk(SHUTDOWN_COMPLETE, 0, b"")]);
    assert_eq!(peer.closed(), Some(&ClosedReason::Shutdown));
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s9_2_two_shutdowns_that_cross_are_both_acknowledged() {
    let mut peer = shutdown_sent();
    peer.wait(ms(700));
    peer.give(&[shutdown(peer.tsn(0))]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
    assert_eq!(peer.state(), AssociationState::ShutdownAckSent);
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1), "T2 was restarted");
    peer.take();
    peer.give(&[chunk(SHUTDOWN_ACK, 0, b"")]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_COMPLETE]);
    assert_eq!(peer.closed(), Some(&ClosedReason::Shutdown));
}

#[test]
fn s9_2_a_repeated_shutdown_is_acknowledged_again() {
    let mut peer = Peer::facing_shutdown_ack_sent();
    peer.give(&[shutdown(peer.tsn(0))]);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
}

#[test]
fn s9_2_an_init_in_shutdown_ack_sent_is_discarded_and_the_shutdown_ack_repeated() {
    let mut peer = Peer::facing_shutdown_ack_sent();
    peer.give_tagged(0, &[Init { tag: 99, ..offer() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![SHUTDOWN_ACK], PEER_TAG));
    assert_eq!(peer.state(), AssociationState::ShutdownAckSent);
}

#[test]
fn s9_2_a_shutdown_during_the_handshake_is_dropped_silently() {
    for mut peer in [Peer::connecting(config()), Peer::cookie_echoed(config(), &init_ack())] {
        peer.take();
        let state = peer.state();
        peer.tag = peer.association().local_tag();
        peer.give(&[shutdown(peer.tsn(0))]);
        peer.nothing_sent();
        assert_eq!(peer.state(), state);
    }
}

#[test]
fn s9_2_a_shutdown_ack_in_established_does_not_lead_to_data_loss() {
    let mut peer = Peer::established();
    peer.send("x");
    peer.take();
    peer.give(&[chunk(SHUTDOWN_ACK, 0, b"")]);
    assert!(peer.take().iter().all(|sent| !sent.has(SHUTDOWN_COMPLETE) && !sent.has(DATA)));
    assert_ne!(peer.closed(), Some(&ClosedReason::Shutdown));
}

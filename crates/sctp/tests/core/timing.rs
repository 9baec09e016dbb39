//! Timers and limits of one association that change while it lasts.

use festina_sctp::{ClosedReason, Config};
use festina_units::Duration;

use crate::rfc9260::packet::{HEARTBEAT, data};
use crate::rfc9260::peer::{Peer, config, ms};

/// Changes the settings of an established association.
fn established_with(change: impl FnOnce(&mut Config)) -> Peer {
    let (mut peer, mut changed) = (Peer::established(), config());
    change(&mut changed);
    let now = peer.now;
    peer.association().set_timing(now, &changed).unwrap();
    peer.take();
    peer
}

#[test]
fn acknowledgements_are_delayed_as_asked() {
    let mut peer = established_with(|config| config.sack.delay = ms(50));
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(2)]);
    peer.nothing_sent();
    assert_eq!(peer.wait_for_packet(), ms(50));
    let mut peer = established_with(|config| config.sack.every_packets = 1);
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(2)]);
    assert_eq!(peer.take_one().sack().cumulative, 2);
}

#[test]
fn heartbeats_start_and_stop() {
    let mut peer = established_with(|config| config.timers.heartbeat_interval = Some(Duration::from_secs(5)));
    assert!((ms(5_000)..ms(7_000)).contains(&peer.wait_for_packet()));
    assert!(peer.take_one().has(HEARTBEAT));
    let mut peer = established_with(|config| config.timers.heartbeat_interval = None);
    peer.wait(Duration::from_secs(3_600));
    peer.nothing_sent();
}

#[test]
fn the_timeout_has_other_bounds() {
    let pauses = |mut peer: Peer| {
        peer.send("lost");
        peer.take();
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pauses.push(peer.wait_for_packet().as_millis());
            peer.take();
        }
        pauses
    };
    assert_eq!(pauses(established_with(|_| {})), [1_000, 2_000, 4_000, 8_000]);
    assert_eq!(pauses(established_with(|config| config.timers.rto_max = ms(2_500))), [1_000, 2_000, 2_500, 2_500]);
    let lower = established_with(|config| config.mechanisms.normal.rto_min = ms(300));
    assert_eq!(pauses(lower), [300, 600, 1_200, 2_400]);
}

#[test]
fn a_peer_is_given_up_sooner() {
    let mut peer = established_with(|config| {
        config.peer_timeout = None;
        (config.retries.association_max, config.retries.unreachable_after_min) = (2, Duration::ZERO);
    });
    peer.send("lost");
    peer.wait(ms(6_999));
    assert_eq!(peer.closed(), None);
    peer.wait(ms(1));
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
}

#[test]
fn settings_out_of_range_change_nothing() {
    let (mut peer, mut wrong) = (Peer::established(), config());
    (wrong.sack.delay, wrong.sack.every_packets) = (ms(501), 1);
    let now = peer.now;
    let error = peer.association().set_timing(now, &wrong).unwrap_err();
    assert!(error.to_string().contains("sack.delay"), "{error}");
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(2)]);
    assert_eq!(peer.wait_for_packet(), ms(200));
}

//! CUBIC in the sender: its window, pacing with its deadline, and the packets that are never paced.

use super::*;
use crate::congestion::CongestionSign;

const RTT: Duration = Duration::from_millis(100);

/// A transfer of full packets over a path that loses nothing, until the window has this many packets.
fn bulk(packets: u64) -> Rig {
    let mut rig = Rig::cubic().measured(RTT);
    (0..2_000).for_each(|_| {
        rig.send_bytes(FULL);
    });
    while rig.stats().path.cwnd_bytes < packets * CHUNKS_BYTES as u64 {
        round(&mut rig);
    }
    rig
}

/// Sends for a round trip what pacing lets leave; then all that left is acknowledged. The times at which packets left, and how many.
fn round(rig: &mut Rig) -> Vec<(Instant, usize)> {
    let ends_at = rig.now + RTT;
    let mut departures = Vec::new();
    loop {
        let packets = rig.packets().len();
        if packets > 0 {
            departures.push((rig.now, packets));
        }
        match rig.deadline() {
            Some(deadline) if deadline < ends_at => {
                assert!(deadline > rig.now, "all that may leave has left, and the deadline lies ahead");
                rig.expire();
            }
            _ => break,
        }
    }
    rig.now = ends_at;
    let acked = last_tsn(rig);
    rig.sack(acked, &[]);
    departures
}

fn last_tsn(rig: &Rig) -> u32 {
    u32::try_from(rig.sender.flight.ledger.next_tsn() - 1 - (1 << 32)).expect("small")
}

#[test]
fn ten_packets_leave_right_after_the_handshake_rfc_6928() {
    let mut rig = Rig::cubic();
    assert_eq!(rig.flight(20, FULL).len(), 10);
    let mut measured = Rig::cubic().measured(RTT);
    assert_eq!(measured.flight(20, FULL).len(), 10);
    assert_eq!(measured.stats().path.cwnd_bytes, 10 * CHUNKS_BYTES as u64);
}

#[test]
fn a_window_leaves_spread_over_the_round_trip_at_the_deadlines_of_the_pacer() {
    let mut rig = bulk(40);
    let cwnd_packets = rig.path.limits.congestion.cwnd() / CHUNKS_BYTES;
    let departures = round(&mut rig);
    let (first_at, first) = departures[0];
    assert_eq!(first, 10, "the burst");
    assert!(departures[1..].iter().all(|&(_, packets)| packets == 1), "{departures:?}");
    // Slow start has two windows per round trip.
    let gap = RTT / u32::try_from(2 * cwnd_packets).unwrap();
    for (number, (at, _)) in (0..).zip(&departures[1..]) {
        let expected = first_at + gap * (number + 1);
        assert!(
            expected.saturating_duration_since(*at) < ms(1) && *at - expected < ms(1),
            "{at:?} and not {expected:?}"
        );
    }
    let sent: usize = departures.iter().map(|(_, packets)| packets).sum();
    assert!(sent >= cwnd_packets, "pacing does not limit more than the window: {sent} of {cwnd_packets}");
}

#[test]
fn a_window_that_survived_a_pause_does_not_leave_as_a_burst() {
    let mut rig = bulk(40);
    while !rig.sender.flight.is_drained() {
        round(&mut rig);
    }
    let cwnd = rig.stats().path.cwnd_bytes;
    rig.wait(20_000);
    let burst = rig.flight(2_000, FULL).len();
    // Two windows per round trip of 100 ms, for two milliseconds.
    let two_ms = rig.path.limits.congestion.cwnd() / CHUNKS_BYTES * 2 * 2 / 100;
    assert!((two_ms..=two_ms + 2).contains(&burst), "{burst} and not {two_ms}");
    assert_eq!(rig.stats().path.cwnd_bytes, cwnd);
    assert!(round(&mut rig).len() > 25);
}

#[test]
fn a_lone_message_never_waits() {
    let mut rig = bulk(40);
    while !rig.sender.flight.is_drained() {
        round(&mut rig);
    }
    assert_eq!(rig.flight(1, 100).len(), 1, "right after a transfer");
    rig.sack(last_tsn(&rig), &[]);
    for _ in 0..100 {
        rig.wait(1);
        assert_eq!(rig.flight(1, 100).len(), 1);
    }
}

#[test]
fn the_packet_that_a_loss_calls_for_leaves_at_once_and_the_others_are_paced() {
    let mut rig = bulk(40);
    let (cwnd, cumulative) = (rig.stats().path.cwnd_bytes, last_tsn(&rig));
    assert_eq!(rig.packets().len(), 10);
    rig.wait(100);
    rig.sack(cumulative, &[(10, 10)]);
    while rig.stats().sent.chunks_lost == 0 {
        rig.packets();
        rig.expire();
    }
    let again = rig.packets();
    assert_eq!(again[0][0].tsn, cumulative + 1, "at once");
    assert!(rig.stats().path.cwnd_bytes < cwnd);
}

#[test]
fn the_standard_s_congestion_control_is_not_paced_and_keeps_its_limit_on_bursts_section_6_1_d() {
    let mut rig = Rig::new(Profile::Festina).measured(RTT);
    (0..200).for_each(|_| {
        rig.send_bytes(FULL);
    });
    for _ in 0..10 {
        assert!(rig.packets().len() <= 4);
        let deadline = rig.deadline().expect("a timer runs");
        assert!(deadline >= rig.now + RTT, "nothing but the loss timers");
        rig.wait(100);
        rig.sack(last_tsn(&rig), &[]);
    }
}

#[test]
fn a_sender_that_cwnd_or_the_peer_s_window_blocks_does_not_wake_up_for_pacing() {
    let mut rig = bulk(40);
    let ends_at = rig.now + RTT;
    rig.packets();
    let mut wakeups = 0;
    while let Some(deadline) = rig.deadline().filter(|&deadline| deadline < ends_at) {
        assert!(deadline > rig.now);
        rig.expire();
        assert!(!rig.packets().is_empty(), "each deadline lets something leave");
        wakeups += 1;
    }
    assert!(wakeups > 25 && rig.stats().path.in_flight_bytes >= rig.stats().path.cwnd_bytes);
}

#[test]
fn a_thin_stream_whose_packets_are_filled_with_copies_is_never_delayed() {
    let mut rig = Rig::cubic().measured(ms(400));
    let mechanisms = Mechanisms { redundancy: Redundancy::BUNDLED, ..Profile::Festina.mechanisms() };
    rig.sender.set_mechanisms(rig.now, &mut rig.path, &mechanisms);
    rig.path.limits.congestion.on_congestion(CongestionSign::Loss);
    for message in 1..=200_u32 {
        rig.wait(20);
        let sent = rig.flight(1, 100);
        assert!(sent.iter().flatten().any(|&tsn| tsn == message), "message {message} waits: {sent:?}");
        if message > 20 {
            rig.sack(message - 20, &[]);
        }
    }
    assert!(rig.path.repair.is_thin());
    let again = rig.stats().sent.retransmitted.total();
    assert!(again > 100, "{again} copies");
}

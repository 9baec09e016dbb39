//! Tail losses: the last one to four segments of a burst are lost.

use super::pipe::{Pipe, at, ms};
use crate::tcp::{Cause, DelayedAck, RtoConfig, Switches, TailProbe, TcpConfig, TcpEvent};

/// Data segments that give the sender a steady SRTT of 100 ms first.
const WARM_UP: u64 = 60;
/// When the burst begins.
const BURST_MILLIS: u64 = 20_000;
const SEGMENTS: u64 = 5;

/// Five full segments, 10 ms apart; the last `lost` are lost. Milliseconds until all are delivered, and
/// the pipe.
fn tail_loss(switches: Switches, lost: u64) -> (u64, Pipe) {
    let config = TcpConfig {
        switches,
        initial_window_segments: 10,
        delayed_ack: DelayedAck::OFF,
        rto: RtoConfig { min: ms(1000), ..RtoConfig::default() },
        ..TcpConfig::sack()
    };
    let ordinals: Vec<_> = (WARM_UP + SEGMENTS - lost..WARM_UP + SEGMENTS).collect();
    let mut pipe = Pipe::losing(config, 50, &ordinals);
    for write in 0..WARM_UP {
        pipe.write_at(1000 + write * 300, 1460);
    }
    for segment in 0..SEGMENTS {
        pipe.write_at(BURST_MILLIS + segment * 10, 1460);
    }
    pipe.run_until(at(60_000));
    (pipe.delivered_at((WARM_UP + SEGMENTS) * 1460) - BURST_MILLIS, pipe)
}

fn standard() -> Switches {
    Switches { early_retransmit: true, fack: true, ..Switches::default() }
}

fn rto_restart() -> Switches {
    Switches { rto_restart: true, ..standard() }
}

fn probe(tail_probe: TailProbe) -> Switches {
    Switches { tail_probe, ..standard() }
}

fn tlpr() -> Switches {
    Switches { tail_probe_restart: true, ..probe(TailProbe::Draft) }
}

#[test]
fn r15_3_4_one_lost_segment_costs_the_rto_from_the_last_ack_and_each_mechanism_saves_its_share() {
    // Sent at 40 ms; the last ACK comes at 130 ms. RTO 1 s; then 50 ms to the receiver.
    assert_eq!(tail_loss(standard(), 1).0, 130 + 1000 + 50);
    assert_eq!(tail_loss(rto_restart(), 1).0, 40 + 1000 + 50, "RFC 7765: one RTT less the spacing");
    // Eq. 1 with one segment outstanding: 1.5 SRTT + 200 ms.
    assert_eq!(tail_loss(probe(TailProbe::Draft), 1).0, 130 + 350 + 50);
    assert_eq!(tail_loss(tlpr(), 1).0, 40 + 350 + 50);
    // RFC 8985 §7.2 with one segment outstanding: 2 SRTT + 200 ms.
    assert_eq!(tail_loss(probe(TailProbe::Rfc8985), 1).0, 130 + 400 + 50);
}

#[test]
fn r15_3_4_of_two_lost_segments_the_probe_repairs_the_last_and_its_sack_the_other() {
    let (delivered, pipe) = tail_loss(probe(TailProbe::Draft), 2);
    // The last ACK comes at 120 ms; 2 SRTT later the probe is sent, and its SACK arrives after an RTT.
    assert_eq!(delivered, 120 + 200 + 100 + 50);
    let causes: Vec<_> = pipe.retransmissions().into_iter().map(|(_, cause)| cause).collect();
    assert_eq!(causes, [Cause::Probe, Cause::Fast]);
    assert_eq!(tail_loss(tlpr(), 2).0, 30 + 200 + 100 + 50);
    assert_eq!(
        tail_loss(rto_restart(), 2).1.retransmissions().first(),
        Some(&(BURST_MILLIS + 30 + 1000, Cause::Timeout))
    );
}

#[test]
fn r15_3_4_for_one_to_four_lost_segments_every_mechanism_is_faster_than_the_standard() {
    for lost in 1..=4 {
        let [standard, rtor, tlp, tlpr] =
            [standard(), rto_restart(), probe(TailProbe::Draft), tlpr()].map(|switches| tail_loss(switches, lost).0);
        assert!(tlp < standard, "{lost} lost: TLP {tlp}, standard {standard}");
        assert!(tlpr <= tlp && tlpr < rtor, "{lost} lost: TLPR {tlpr}, TLP {tlp}, RTO restart {rtor}");
        if lost < 4 {
            assert!(rtor < standard, "{lost} lost: RTO restart {rtor}, standard {standard}");
        } else {
            assert_eq!(rtor, standard, "RFC 7765 §4: four outstanding keep the full RTO");
        }
    }
}

#[test]
fn rfc_8985_7_4_2_a_probe_that_repaired_a_loss_reduces_cwnd_and_a_needless_one_does_not() {
    let (_, mut pipe) = tail_loss(probe(TailProbe::Draft), 1);
    assert_eq!((pipe.client.counters().timeouts, pipe.client.ssthresh_segments()), (0, None));
    // The episode ends with the first ACK above the probe.
    pipe.write_at(61_000, 1460);
    pipe.run_until(at(62_000));
    assert_eq!(pipe.client.ssthresh_segments(), Some(2));

    // A delayed ACK that takes longer than the probe timer: the probe was spurious.
    let config = TcpConfig {
        switches: probe(TailProbe::Rfc8985),
        delayed_ack: DelayedAck { delay: ms(400), quick_acks: 4, ..DelayedAck::default() },
        rto: RtoConfig { min: ms(1000), ..RtoConfig::default() },
        ..TcpConfig::sack()
    };
    let mut needless = Pipe::new(config, 50, Default::default());
    [1000, 1300, 1600, 1900].into_iter().for_each(|millis| {
        needless.write_at(millis, 1460);
    });
    needless.write_at(3000, 1460);
    needless.write_at(6000, 1460);
    needless.run_until(at(9000));
    assert!(needless.client.counters().retransmitted_probe > 0);
    assert!(needless.server_events.iter().any(|(_, event)| matches!(event, TcpEvent::DuplicateReceived { .. })));
    assert_eq!(needless.client.ssthresh_segments(), None);
}

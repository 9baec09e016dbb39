//! Linux's loss recovery on scripted losses. `validation/` has measurements of the real kernel.

use super::pipe::{Faults, Pipe, at, ms};
use crate::tcp::{Cause, DelayedAck, LossRecovery, RtoConfig, Switches, TailProbe, TcpConfig, TcpEvent, TimerClock};

/// Linux with exact timers, so that times are predictable.
fn exact() -> TcpConfig {
    let linux = TcpConfig::linux();
    TcpConfig { rto: RtoConfig { clock: TimerClock::Exact, ..linux.rto }, ..linux }
}

/// 100 bytes every 250 ms from 1 s on, over a path of 100 ms that loses these transmissions.
fn thin(config: TcpConfig, lost: &[u64]) -> Pipe {
    let mut pipe = Pipe::losing(config, 50, lost);
    for message in 0..40 {
        pipe.write_at(1000 + message * 250, 100);
    }
    pipe.run_until(at(30_000));
    assert_eq!(pipe.server.bytes_delivered(), 4000);
    pipe
}

/// Delays of the messages from `first` on.
fn delays<const COUNT: usize>(pipe: &Pipe, first: u64) -> [u64; COUNT] {
    core::array::from_fn(|offset| {
        let message = first + offset as u64;
        pipe.delivered_at((message + 1) * 100) - (1000 + message * 250)
    })
}

/// `segments` full ones at 1 s, and then a small one every 100 ms.
fn burst(config: TcpConfig, segments: u64, lost: &[u64]) -> Pipe {
    let mut pipe = Pipe::losing(config, 50, lost);
    pipe.write_at(1000, segments * 1448);
    for step in 1..20 {
        pipe.write_at(1000 + step * 100, 100);
    }
    pipe.run_until(at(20_000));
    assert_eq!(pipe.server.bytes_delivered(), segments * 1448 + 1900);
    pipe
}

#[test]
fn a_lone_loss_on_a_thin_stream_takes_600_ms_as_its_probe_blinds_rack() {
    let pipe = thin(exact(), &[10]);
    // Message 10 is sent at 3500. The probe at its RTO repeats message 11, and the SACK of the original arrives too
    // early to be the probe's, so RACK detects no loss before message 12 is SACKed.
    assert_eq!(pipe.retransmissions(), [(3800, Cause::Probe), (4100, Cause::Fast)]);
    assert_eq!(delays(&pipe, 9), [50, 650, 400, 150, 50]);
}

#[test]
fn without_a_probe_the_first_sack_repairs_it() {
    let switches = Switches { tail_probe: TailProbe::Off, ..exact().switches };
    let rto = RtoConfig { min: ms(400), ..exact().rto };
    let pipe = thin(TcpConfig { switches, rto, ..exact() }, &[10]);
    assert_eq!(pipe.retransmissions(), [(3850, Cause::Fast)]);
    assert_eq!(delays(&pipe, 10), [400, 150, 50]);
}

#[test]
fn rfc_8985_7_2_a_lone_segment_is_probed_after_two_srtt_and_the_minimum_rto_or_the_rto() {
    for (rto_min, expected) in [(200, 300), (50, 150)] {
        let mut pipe =
            Pipe::losing(TcpConfig { rto: RtoConfig { min: ms(rto_min), ..exact().rto }, ..exact() }, 50, &[59]);
        // Long enough that the first estimate of the variance no longer counts.
        for message in 0..60 {
            pipe.write_at(1000 + message * 500, 100);
        }
        pipe.run_until(at(40_000));
        let retransmissions = pipe.retransmissions();
        assert_eq!(retransmissions, [(30_500 + expected, Cause::Probe)], "minimum {rto_min} ms");
        assert_eq!(pipe.client.counters().timeouts, 0);
    }
}

#[test]
fn rfc_8985_6_2_a_hole_is_given_up_after_a_quarter_of_the_smallest_rtt_or_three_sacks() {
    // Two SACKs at 1100: the path might reorder, so RACK waits for 25 ms and 2 ms more.
    assert_eq!(burst(exact(), 3, &[0]).retransmissions(), [(1127, Cause::Fast)]);
    assert_eq!(burst(exact(), 4, &[0]).retransmissions(), [(1100, Cause::Fast)]);
}

#[test]
fn rfc_8985_6_a_lost_retransmission_is_found_without_a_timeout() {
    let pipe = burst(exact(), 10, &[0, 10]);
    let causes: Vec<_> = pipe.retransmissions().into_iter().map(|(_, cause)| cause).collect();
    assert_eq!(causes, [Cause::Fast, Cause::Fast]);
    assert_eq!(pipe.client.counters().timeouts, 0);
    let standard = burst(TcpConfig { recovery: LossRecovery::Standard, ..exact() }, 10, &[0, 10]);
    assert!(standard.client.counters().timeouts > 0);
}

#[test]
fn rfc_6937_cwnd_is_ssthresh_after_a_recovery_and_nothing_leaves_in_a_burst() {
    let mut pipe = Pipe::losing(exact(), 50, &[0]);
    pipe.write_at(1000, 200 * 1448);
    pipe.run_until(at(1199));
    let most = (1101..1199).map(|millis| pipe.sent_between(millis, millis + 1)).max();
    assert!(most <= Some(2), "{most:?}");
    pipe.run_until(at(1205));
    assert_eq!(pipe.client.ssthresh_segments(), Some(7), "seven tenths of ten");
    assert!((7..=8).contains(&pipe.client.cwnd_segments()), "{}", pipe.client.cwnd_segments());
}

#[test]
fn rfc_5682_a_delay_that_looked_like_a_loss_leaves_cwnd_as_it_was() {
    for timestamps in [true, false] {
        let mut pipe = Pipe::new(TcpConfig { timestamps, ..exact() }, 50, Faults::default());
        pipe.write_at(1000, 1448);
        pipe.run_until(at(2000));
        pipe.one_way = ms(600);
        pipe.write_at(2000, 5 * 1448);
        pipe.run_until(at(2590));
        pipe.one_way = ms(50);
        pipe.write_at(2595, 1448);
        pipe.run_until(at(9000));
        let counters = pipe.client.counters();
        assert!(counters.timeouts > 0 && counters.retransmitted_timeout > 0);
        assert_eq!(pipe.client.ssthresh_segments(), None, "timestamps {timestamps}: undone");
        assert!(pipe.client.cwnd_segments() >= 10);
        assert_eq!(pipe.server.bytes_delivered(), 7 * 1448);
    }
}

#[test]
fn a_true_timeout_reduces_cwnd_and_what_was_lost_follows_the_acknowledgements() {
    let mut pipe = Pipe::losing(exact(), 50, &(10..22).collect::<Vec<_>>());
    pipe.write_at(1000, 10 * 1448);
    pipe.run_until(at(2000));
    pipe.write_at(3000, 10 * 1448);
    pipe.run_until(at(30_000));
    assert_eq!(pipe.server.bytes_delivered(), 20 * 1448);
    let causes: Vec<_> = pipe.retransmissions().into_iter().map(|(_, cause)| cause).collect();
    assert!(causes.contains(&Cause::Timeout) && causes.contains(&Cause::AfterTimeout), "{causes:?}");
    assert!(pipe.client.ssthresh_segments().is_some());
}

#[test]
fn thin_linear_timeouts_keep_their_distance() {
    let switches = Switches { thin_linear_timeouts: true, ..exact().switches };
    let lost: Vec<_> = (10..16).collect();
    let gaps = |config| {
        let mut pipe = Pipe::losing(config, 50, &lost);
        for message in 0..11 {
            pipe.write_at(1000 + message * 500, 100);
        }
        pipe.run_until(at(60_000));
        let times: Vec<_> = pipe.sent.iter().skip(11).map(|(time, _)| time.as_nanos() / 1_000_000).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    assert_eq!(gaps(TcpConfig { switches, ..exact() }), [300; 5]);
    assert_eq!(gaps(exact()), [300, 600, 1200, 2400, 4800]);
}

#[test]
fn a_reader_that_does_not_answer_acknowledges_small_segments_at_once_and_one_that_does_waits() {
    let acknowledged_after = |answers: bool| {
        let delayed_ack = DelayedAck { quick_acks: 1, ..exact().delayed_ack };
        let mut pipe = Pipe::new(TcpConfig { delayed_ack, ..exact() }, 50, Faults::default());
        for message in 0..5 {
            pipe.write_at(1000 + message * 500, 100);
            pipe.run_until(at(1050 + message * 500));
            if answers && message < 4 {
                pipe.server.write(10);
                pipe.drain();
            }
        }
        pipe.run_until(at(9000));
        pipe.client_events
            .iter()
            .find_map(|(time, event)| match event {
                TcpEvent::Acknowledged { through: 500 } => Some(time.as_nanos() / 1_000_000 - 3000),
                _ => None,
            })
            .expect("all is acknowledged")
    };
    assert_eq!(acknowledged_after(false), 100);
    assert_eq!(acknowledged_after(true), 140);
}

#[test]
fn a_connection_that_gets_no_answer_is_given_up_after_925_seconds_however_its_timeouts_are_spaced() {
    for thin_linear_timeouts in [false, true] {
        let switches = Switches { thin_linear_timeouts, ..exact().switches };
        let mut pipe = Pipe::losing(TcpConfig { switches, ..exact() }, 50, &(1..100).collect::<Vec<_>>());
        pipe.write_at(1000, 100);
        pipe.write_at(2000, 100);
        pipe.run_until(at(2_000_000));
        let failed = pipe.client_events.iter().find(|(_, event)| *event == TcpEvent::Failed).expect("it failed").0;
        let seconds = failed.as_nanos() / 1_000_000_000;
        assert!((926..1_060).contains(&seconds), "{seconds} s");
    }
}

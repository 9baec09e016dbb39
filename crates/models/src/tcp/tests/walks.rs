//! Long runs: closed forms, MIN_BUF, and random faults.

use festina_units::Duration;

use super::pipe::{Faults, Pipe, at, ms};
use crate::tcp::{
    CongestionControl, DelayedAck, Growth, MinBuf, SendBufferLimit, Switches, TailProbe, TcpConfig, TcpEvent,
};

/// Segments that a greedy sender delivers in each round trip of 100 ms over 20 minutes at a loss of
/// `loss_ppm`.
fn segments_per_round_trip(config: TcpConfig, loss_ppm: u64) -> f64 {
    let mut pipe = Pipe::new(config, 50, Faults { loss_ppm, seed: 11, ..Faults::default() });
    pipe.greedy = true;
    pipe.run_until(at(1_200_000));
    pipe.server.bytes_delivered() as f64 / f64::from(config.mss_bytes) / 12_000.0
}

#[test]
fn mathis_1997_throughput_at_one_percent_loss_is_within_20_percent_of_the_square_root_law() {
    let law = (3.0_f64 / 2.0).sqrt() / 0.01_f64.sqrt();
    let every_ack = TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::sack() };
    let measured = segments_per_round_trip(every_ack, 10_000);
    assert!((measured / law - 1.0).abs() < 0.2, "{measured:.2} against {law:.2}");

    let delayed_law = (3.0_f64 / 4.0).sqrt() / 0.01_f64.sqrt();
    let delayed = TcpConfig { growth: Growth::PerAck, ..TcpConfig::sack() };
    let measured = segments_per_round_trip(delayed, 10_000);
    assert!((measured / delayed_law - 1.0).abs() < 0.2, "delayed ACKs: {measured:.2} against {delayed_law:.2}");
}

#[test]
fn rfc_9438_5_cubic_on_a_long_path_at_one_in_ten_thousand_is_faster_than_reno() {
    let base = TcpConfig { delayed_ack: DelayedAck::OFF, receive_buffer_bytes: 1 << 30, ..TcpConfig::sack() };
    let base = TcpConfig { send_buffer: SendBufferLimit::Bytes(1 << 30), growth: Growth::PerSegment, ..base };
    let reno = segments_per_round_trip(base, 100);
    let cubic = segments_per_round_trip(TcpConfig { congestion: CongestionControl::Cubic, ..base }, 100);
    // RFC 9438 §5 tabulates the averages for this RTT, this loss rate and C = 0.4: 120 and 187 segments.
    assert!((reno / 120.0 - 1.0).abs() < 0.2, "{reno:.1}");
    assert!((cubic / 187.0 - 1.0).abs() < 0.25, "{cubic:.1}");
}

#[test]
fn g02_2_min_buf_keeps_the_buffered_bytes_within_its_formula_and_a_full_window_in_flight() {
    for (windows, extra_packets) in [(1, 0), (1, 3), (2, 0)] {
        let min_buf = MinBuf { windows, extra_packets };
        let config = TcpConfig { send_buffer: SendBufferLimit::MinBuf(min_buf), ..TcpConfig::sack() };
        let mut pipe = Pipe::new(config, 50, Faults { loss_ppm: 10_000, seed: 3, ..Faults::default() });
        pipe.run_until(at(200));
        let mut refused = 0;
        for step in 0..60_000 {
            let taken = pipe.client.write(1_000_000);
            let (cwnd, sacked) = (pipe.client.cwnd_segments(), pipe.client.sacked_segments());
            let packets = windows * cwnd + extra_packets.min(cwnd) + sacked;
            if taken > 0 {
                assert!(pipe.client.buffered_bytes() <= u64::from(packets) * 1460, "at step {step}");
            }
            refused += u64::from(taken == 0);
            pipe.drain();
            pipe.run_until(at(201 + step));
        }
        assert!(refused > 1000);
        assert!(pipe.server.bytes_delivered() > 3_000_000);
    }
}

#[test]
fn g02_2_2_a_min_buf_writer_is_woken_for_every_packet() {
    let config = TcpConfig { send_buffer: SendBufferLimit::MinBuf(MinBuf::default()), ..TcpConfig::sack() };
    let mut pipe = Pipe::new(config, 50, Faults::default());
    assert_eq!(pipe.write_at(1000, 10_000), 3 * 1460);
    pipe.run_until(at(1100));
    assert!(pipe.client_events.contains(&(at(1100), TcpEvent::Writable)));
}

#[test]
fn g02_6_with_a_target_data_waits_no_longer_than_it_says_but_for_a_twentieth_of_the_packets() {
    for budget_ms in [30, 50, 150] {
        let budget = Duration::from_millis(budget_ms);
        let config = TcpConfig { send_buffer: SendBufferLimit::Target(budget), ..TcpConfig::sack() };
        let mut pipe = Pipe::new(config, 50, Faults { loss_ppm: 5_000, seed: 3, ..Faults::default() });
        pipe.run_until(at(200));
        // The stream up to `end` was written at `since`.
        let (mut written, mut waits_ms) = (std::collections::VecDeque::new(), Vec::new());
        for step in 0..60_000 {
            let now_ms = 201 + step;
            if pipe.client.write(1_000_000) > 0 {
                written.push_back((pipe.client.bytes_written(), now_ms));
            }
            pipe.drain();
            pipe.run_until(at(now_ms));
            while let Some(&(end, since_ms)) = written.front().filter(|&&(end, _)| end <= pipe.client.bytes_sent()) {
                written.pop_front();
                waits_ms.push((end, now_ms - since_ms));
            }
        }
        let late = waits_ms.iter().filter(|&&(_, wait_ms)| wait_ms > budget_ms + 1).count();
        assert!(late <= waits_ms.len() / 20 + 48, "{late} of {} at {budget_ms} ms", waits_ms.len());
        let unlimited = goodput(TcpConfig { send_buffer: SendBufferLimit::Bytes(1 << 20), ..config });
        // Losses at random hold up whole windows, and without a bottleneck these stay together.
        let share_percent = goodput(config) * 100 / unlimited;
        assert!(share_percent >= 67, "{share_percent}% at {budget_ms} ms");
    }
}

/// Bytes that arrive within a minute on the same pipe.
fn goodput(config: TcpConfig) -> u64 {
    let mut pipe = Pipe::new(config, 50, Faults { loss_ppm: 5_000, seed: 3, ..Faults::default() });
    for step in 0..60_000 {
        pipe.client.write(1_000_000);
        pipe.drain();
        pipe.run_until(at(201 + step));
    }
    pipe.server.bytes_delivered()
}

fn every_switch() -> Switches {
    Switches {
        nagle: true,
        fack: true,
        collapses_retransmissions: true,
        early_retransmit: true,
        rto_restart: true,
        tail_probe: TailProbe::Draft,
        tail_probe_restart: true,
        thin_linear_timeouts: true,
        ..Switches::default()
    }
}

fn configs() -> Vec<TcpConfig> {
    let every_switch = every_switch();
    let min_buf = SendBufferLimit::MinBuf(MinBuf { windows: 1, extra_packets: 3 });
    vec![
        TcpConfig::new_reno(),
        TcpConfig::sack(),
        TcpConfig { ecn: true, ..TcpConfig::linux() },
        TcpConfig { switches: every_switch, timestamps: true, ..TcpConfig::sack() },
        TcpConfig { switches: every_switch, ..TcpConfig::new_reno() },
        TcpConfig { switches: every_switch, send_buffer: min_buf, ..TcpConfig::linux() },
        TcpConfig { receive_buffer_bytes: 6_000, ..TcpConfig::sack() },
    ]
}

#[test]
fn through_loss_reordering_and_duplication_every_byte_arrives_in_order_and_both_ends_close() {
    for (number, config) in configs().into_iter().enumerate() {
        for seed in 1..=40 {
            let faults = Faults {
                loss_ppm: 20_000 * (seed % 6),
                ack_loss_ppm: 10_000 * (seed % 5),
                duplication_ppm: 10_000 * (seed % 3),
                jitter: ms(5 * (seed % 7)),
                seed: seed * 7 + number as u64,
                ..Faults::default()
            };
            let mut pipe = Pipe::new(config, 20, faults);
            let mut now = 0;
            while pipe.client.bytes_written() < 400_000 {
                now += pipe.draw() % 300;
                let bytes = if pipe.draw().is_multiple_of(3) { pipe.draw() % 30_000 } else { pipe.draw() % 300 };
                pipe.write_at(now, bytes + 1);
            }
            let written = pipe.client.bytes_written();
            pipe.client.close();
            pipe.server.close();
            pipe.drain();
            pipe.run_until(at(now + 900_000));
            assert_eq!(pipe.server.bytes_delivered(), written, "configuration {number}, seed {seed}");
            assert!(pipe.client.is_closed() && pipe.server.is_closed(), "configuration {number}, seed {seed}");
            let mut delivered = 0;
            for (_, event) in &pipe.server_events {
                if let TcpEvent::Delivered { through } = event {
                    assert!(*through >= delivered);
                    delivered = *through;
                }
            }
            assert_eq!(delivered, written);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_segments() {
    let run = || {
        let faults = Faults { loss_ppm: 30_000, jitter: ms(20), seed: 5, ..Faults::default() };
        let mut pipe = Pipe::new(TcpConfig::linux(), 40, faults);
        pipe.greedy = true;
        pipe.run_until(at(30_000));
        pipe.sent
    };
    assert!(run() == run());
}

//! Handshake and end, windows, acknowledgements, Nagle's algorithm, slow start.

use super::pipe::{Faults, Pipe, at, ms};
use crate::tcp::{DelayedAck, Growth, SendBufferLimit, Switches, TcpConfig, TcpEvent};

fn without_delayed_acks() -> TcpConfig {
    TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::sack() }
}

#[test]
fn rfc_9293_3_5_the_handshake_takes_one_round_trip_and_the_data_follows_its_ack() {
    let mut pipe = Pipe::new(TcpConfig::sack(), 50, Faults::default());
    pipe.client.write(100);
    pipe.run_until(at(1000));
    assert_eq!(pipe.client_events.first(), Some(&(at(100), TcpEvent::Connected)));
    assert_eq!(pipe.delivered_at(100), 150);
    assert_eq!(pipe.client.srtt(), Some(ms(100)).map(|handshake| handshake + ms(200) / 8), "the ACK was delayed");
}

#[test]
fn rfc_6298_5_a_lost_syn_is_repeated_after_one_second_and_then_after_two() {
    let mut pipe = Pipe::new(TcpConfig::sack(), 50, Faults { syns_lost: 2, ..Faults::default() });
    pipe.client.write(100);
    pipe.run_until(at(5000));
    assert_eq!(pipe.client_events.first(), Some(&(at(3100), TcpEvent::Connected)));
    assert_eq!(pipe.server.bytes_delivered(), 100);
}

#[test]
fn a_peer_that_never_answers_fails_the_connection() {
    let mut pipe = Pipe::new(TcpConfig::sack(), 50, Faults { syns_lost: u64::MAX, ..Faults::default() });
    pipe.run_until(at(600_000));
    assert_eq!(pipe.client_events, [(at(127_000), TcpEvent::Failed)]);
    assert!(pipe.client.is_closed());
}

#[test]
fn rfc_9293_3_6_both_ends_close_when_both_fins_are_acknowledged() {
    let mut pipe = Pipe::losing(TcpConfig::sack(), 50, &[0]);
    pipe.client.write(3000);
    pipe.client.close();
    assert_eq!(pipe.client.write(1), 0);
    pipe.server.close();
    pipe.run_until(at(10_000));
    assert_eq!(pipe.server.bytes_delivered(), 3000);
    assert!(pipe.client.is_closed() && pipe.server.is_closed());
    let told = |events: &[_], wanted| events.iter().filter(|(_, event)| *event == wanted).count();
    assert_eq!(told(&pipe.server_events, TcpEvent::PeerFinished), 1);
    assert_eq!(told(&pipe.client_events, TcpEvent::Closed), 1);
    assert_eq!(pipe.client.poll_deadline(), None, "nothing is left to wait for");
}

#[test]
fn rfc_5681_3_1_slow_start_doubles_the_window_each_round_if_every_segment_is_acknowledged() {
    let mut pipe = Pipe::new(without_delayed_acks(), 50, Faults::default());
    pipe.greedy = true;
    pipe.run_until(at(690));
    let rounds: Vec<_> = (1..=5).map(|round| pipe.sent_between(round * 100, round * 100 + 100)).collect();
    assert_eq!(rounds, [3, 6, 12, 24, 48]);
}

#[test]
fn rfc_5681_3_1_slow_start_with_delayed_acks_grows_by_half_each_round_if_acks_are_counted() {
    let config = TcpConfig { initial_window_segments: 4, ..TcpConfig::sack() };
    let mut pipe = Pipe::new(config, 50, Faults::default());
    pipe.greedy = true;
    pipe.run_until(at(490));
    let rounds: Vec<_> = (1..=4).map(|round| pipe.sent_between(round * 100, round * 100 + 100)).collect();
    // cwnd is 13 in the fourth round; the ninth segment of the third waits for its delayed ACK.
    assert_eq!(rounds, [4, 6, 9, 12]);
    let mut counted = Pipe::new(TcpConfig { growth: Growth::PerSegment, ..config }, 50, Faults::default());
    counted.greedy = true;
    counted.run_until(at(290));
    assert_eq!(counted.sent_between(200, 300), 8);
}

#[test]
fn rfc_6928_the_initial_window_may_be_ten_segments() {
    let mut pipe = Pipe::new(TcpConfig::linux(), 50, Faults::default());
    pipe.greedy = true;
    pipe.run_until(at(190));
    assert_eq!(pipe.sent.len(), 10);
}

#[test]
fn rfc_1122_4_2_3_2_a_single_segment_is_acknowledged_after_the_delay_and_a_second_one_at_once() {
    let config = TcpConfig {
        delayed_ack: DelayedAck { delay: ms(40), quick_acks: 1, ..DelayedAck::default() },
        ..TcpConfig::sack()
    };
    let mut pipe = Pipe::new(config, 50, Faults::default());
    pipe.write_at(1000, 100);
    pipe.write_at(2000, 100);
    pipe.write_at(3000, 100);
    pipe.write_at(3010, 100);
    pipe.run_until(at(4000));
    let answers: Vec<_> =
        pipe.answers.iter().map(|(time, segment)| (time.as_nanos() / 1_000_000, segment.ack)).collect();
    assert_eq!(answers, [(1050, 100), (2090, 200), (3060, 400)], "the first by quickack");
}

fn small_writes(switches: Switches) -> Vec<(u64, u32)> {
    let mut pipe = Pipe::new(TcpConfig { switches, ..without_delayed_acks() }, 50, Faults::default());
    for millis in [1000, 1010, 1020] {
        pipe.write_at(millis, 100);
    }
    pipe.run_until(at(3000));
    assert_eq!(pipe.server.bytes_delivered(), 300);
    pipe.sent.iter().map(|(time, segment)| (time.as_nanos() / 1_000_000, segment.length_bytes)).collect()
}

#[test]
fn rfc_1122_4_2_3_4_nagle_holds_small_segments_while_something_is_outstanding() {
    assert_eq!(small_writes(Switches::default()), [(1000, 100), (1010, 100), (1020, 100)]);
    let nagle = Switches { nagle: true, ..Switches::default() };
    assert_eq!(small_writes(nagle), [(1000, 100), (1100, 200)]);
}

#[test]
fn rfc_5681_4_1_cwnd_falls_back_after_an_idle_rto() {
    let mut pipe = Pipe::new(without_delayed_acks(), 50, Faults::default());
    pipe.write_at(1000, 40 * 1460);
    pipe.write_at(5000, 40 * 1460);
    pipe.run_until(at(9000));
    assert_eq!(pipe.sent_between(5000, 5001), 3);
}

#[test]
fn a_refused_writer_is_woken_when_a_third_of_the_buffer_is_free() {
    let config = TcpConfig { send_buffer: SendBufferLimit::Bytes(30_000), ..without_delayed_acks() };
    let mut pipe = Pipe::new(config, 50, Faults::default());
    assert_eq!(pipe.write_at(1000, 40_000), 30_000);
    pipe.run_until(at(1250));
    // 3 + 6 segments of 1460 bytes come acknowledged at 1100 and 1200.
    let woken = pipe.client_events.iter().find(|(_, event)| *event == TcpEvent::Writable).map(|&(time, _)| time);
    assert_eq!(woken, Some(at(1200)));
    assert!(pipe.client.writable_bytes() >= 10_000);
}

#[test]
fn rfc_9293_3_8_6_a_closed_window_stops_the_sender_until_the_application_reads() {
    let config = TcpConfig { receive_buffer_bytes: 5_000, reads_at_once: false, ..without_delayed_acks() };
    let mut pipe = Pipe::new(config, 50, Faults { ack_loss_ppm: 300_000, seed: 7, ..Faults::default() });
    pipe.write_at(1000, 20_000);
    pipe.run_until(at(20_000));
    assert_eq!((pipe.server.bytes_delivered(), pipe.server.readable_bytes()), (5_000, 5_000));
    for round in 0..100 {
        pipe.server.read(1_000);
        pipe.drain();
        pipe.run_until(at(25_000 + round * 5_000));
    }
    assert_eq!(pipe.server.bytes_delivered(), 20_000, "lost window updates are asked for");
}

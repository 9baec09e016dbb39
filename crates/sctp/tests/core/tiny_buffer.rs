//! Tiny messages into a tiny receive buffer: the peer counts payload, and memory holds a twentieth of that.

use festina_netsim::{LinkConfig, LossModel};
use festina_sctp::{Config, Expiry, Message, Profile, StreamScheduler};
use festina_units::{Duration, Instant};

use crate::pair::Pair;

/// How long 434 messages of 5 bytes take, half of them sent up to twice, over a path of 40 ms without loss into a buffer of this size.
fn drained_after(profile: Profile, buffer_bytes: usize) -> Duration {
    let mut config = Config::published(profile);
    config.limits.receive_buffer_bytes = buffer_bytes;
    config.limits.message_bytes_max = buffer_bytes;
    config.limits.packet_bytes_max = 527;
    config.scheduler = StreamScheduler::RoundRobin;
    config.timers.heartbeat_interval = None;
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut pair = Pair::new([config.clone(), config], [link.clone(), link], 7);
    pair.connect(0, 1);
    let begin = pair.now;
    for number in 0..434 {
        let message = Message::new(vec![7; 5]);
        let message = if number < 217 { message } else { message.on_stream(4).with_max_retransmissions(1) };
        let now = pair.now;
        pair.hosts[0].association().send(now, message).unwrap();
    }
    pair.drain(0);
    let is_drained =
        |pair: &Pair| pair.hosts[0].association.as_ref().is_some_and(|it| it.stats().path.messages_pending == 0);
    assert!(pair.run_until_or(Duration::from_secs(3_600), is_drained), "{profile}: an hour is not enough");
    pair.now - begin
}

#[test]
fn a_window_that_promises_more_than_memory_holds_is_soon_a_smaller_one() {
    for profile in Profile::all() {
        for buffer_bytes in [2_000, 3_000, 6_000] {
            let time = drained_after(*profile, buffer_bytes);
            assert!(time < Duration::from_secs(60), "{profile}, {buffer_bytes} bytes: {time:?}");
        }
    }
}

#[test]
fn a_buffer_full_of_what_waits_takes_more_than_one_message_of_a_packet() {
    for profile in Profile::all() {
        for buffer_bytes in [1_500, 1_600] {
            let time = drained_after(*profile, buffer_bytes);
            assert!(time < Duration::from_secs(20), "{profile}, {buffer_bytes} bytes: {time:?}");
        }
    }
}

/// Time until `messages` of a byte are settled, and packets sent. All are lost, and only one in `reliable_every` may be retransmitted. Each has a stream of its own.
fn settled_after(
    messages: u16,
    reliable_every: u16,
    (buffer_bytes, packet_bytes): (usize, usize),
    config: &Config,
) -> (Duration, u64) {
    let mut config = config.clone();
    config.limits.receive_buffer_bytes = buffer_bytes;
    config.limits.message_bytes_max = buffer_bytes;
    config.limits.packet_bytes_max = packet_bytes;
    config.limits.outbound_streams = messages;
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let (begin, end) = (Instant::from_secs(1), Instant::from_secs(2));
    let outage = LinkConfig { loss: LossModel::Outages([begin..end].into()), ..link.clone() };
    let mut pair = Pair::new([config.clone(), config], [outage, link], 7);
    pair.connect(0, 1);
    pair.run_until(|pair| pair.now >= begin);
    for number in 0..messages {
        let message = Message::new(vec![7]).on_stream(number);
        let is_reliable = number % reliable_every == reliable_every - 1;
        let message = if is_reliable { message } else { message.with_max_retransmissions(0) };
        pair.hosts[0].association().send(begin, message).unwrap();
    }
    pair.drain(0);
    let is_settled =
        |pair: &Pair| pair.hosts[0].association.as_ref().is_some_and(|it| it.stats().path.messages_pending == 0);
    assert!(pair.run_until_or(Duration::from_secs(3_600), is_settled), "{buffer_bytes}: an hour is not enough");
    (pair.now - begin, pair.hosts[0].packets_sent)
}

#[test]
fn a_list_of_abandoned_messages_that_a_small_buffer_has_no_room_for_is_repeated_in_parts() {
    for interleaving in [false, true] {
        for (is_enhanced, reliable_every) in [(false, u16::MAX), (true, 4)] {
            let mut config = Config { interleaving, ..Config::published(Profile::Rfc9260) };
            config.partial_reliability.expiry = Expiry::BeforeRetransmission;
            config.partial_reliability.enhanced_forward_tsn = is_enhanced;
            for sizes in [(1_500, 1_200), (1_600, 9_000), (4_000, 9_000), (8_000, 30_000)] {
                let (time, packets) = settled_after(3_000, reliable_every, sizes, &config);
                let case = format!("{sizes:?}, {interleaving}, {is_enhanced}: {time:?}, {packets} packets");
                assert!(time < Duration::from_secs(60) && packets < 1_500, "{case}");
            }
        }
    }
}

/// The same list again and again took 309 packets instead of 13, and 46 instead of 20.
#[test]
fn a_list_that_finds_no_room_costs_few_packets() {
    let mut config = Config { interleaving: true, ..Config::published(Profile::Rfc9260) };
    config.partial_reliability.expiry = Expiry::BeforeRetransmission;
    let (time, packets) = settled_after(1_000, 4, (2_000, 3_000), &config);
    assert!(packets < 30 && time < Duration::from_secs(2), "FORWARD-TSN: {packets} packets, {time:?}");
    config.partial_reliability.enhanced_forward_tsn = true;
    for interleaving in [false, true] {
        config.interleaving = interleaving;
        let (time, packets) = settled_after(1_000, 2, (8_000, 9_000), &config);
        assert!(packets < 30 && time < Duration::from_secs(6), "E-FORWARD-TSN: {packets} packets, {time:?}");
    }
}

//! Tiny messages into a tiny receive buffer: the peer counts payload, and memory holds a twentieth of that.

use festina_sctp::{Config, Message, Profile, StreamScheduler};
use festina_units::Duration;

use crate::pair::Pair;

/// How long 434 messages of 5 bytes take, half of them sent up to twice, over a path of 40 ms without loss into a buffer of this size.
fn drained_after(profile: Profile, buffer_bytes: usize) -> Duration {
    let mut config = Config::published(profile);
    config.limits.receive_buffer_bytes = buffer_bytes;
    config.limits.message_bytes_max = buffer_bytes;
    config.limits.packet_bytes_max = 527;
    config.scheduler = StreamScheduler::RoundRobin;
    config.timers.heartbeat_interval = None;
    let link = festina_netsim::LinkConfig { delay: Duration::from_millis(20), ..festina_netsim::LinkConfig::default() };
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

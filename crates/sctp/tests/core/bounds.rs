//! Across the bounds that both sides of an association keep to.

use festina_netsim::{Link, LinkConfig, LossModel};
use festina_sctp::{Config, Event, Message};
use festina_units::{Duration, Probability};

use crate::pair::Pair;

fn link(loss: Probability) -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(100), loss: LossModel::Independent(loss), ..LinkConfig::default() }
}

/// Two ends with a congestion window and buffers for 60,000 messages under way.
fn wide(interleaving: bool) -> Pair {
    let mut config = Config { interleaving, ..Config::default() };
    config.limits.send_buffer_bytes = 256 << 20;
    config.limits.receive_buffer_bytes = 64 << 20;
    let mut pair = Pair::new([config.clone(), config], [link(Probability::ZERO), link(Probability::ZERO)], 1);
    pair.connect(0, 1);
    pair.run_for(Duration::from_secs(1));
    send(&mut pair, 60_000, &Message::new(vec![7; 1_000]).on_stream(1));
    pair.run_for(Duration::from_secs(10));
    pair
}

fn send(pair: &mut Pair, count: usize, message: &Message) {
    for _ in 0..count {
        let now = pair.now;
        pair.hosts[0].association().send(now, message.clone()).unwrap();
    }
    pair.drain(0);
}

#[test]
fn messages_behind_those_that_expire_on_their_way_arrive_if_they_are_reported_as_delivered_however_many_expire() {
    for interleaving in [false, true] {
        for expiring in [32_766, 32_767, 32_768, 32_769, 50_000] {
            let mut pair = wide(interleaving);
            pair.links[0] = Link::new(link(Probability::ONE), 2, "cut");
            send(&mut pair, expiring, &Message::new("x").with_lifetime(Duration::from_secs(2)));
            pair.run_for(Duration::from_secs(4));
            pair.links[0] = Link::new(link(Probability::ZERO), 2, "whole");
            pair.run_for(Duration::from_secs(20));
            pair.hosts[1].received.clear();
            send(&mut pair, 10, &Message::new("reliable").with_confirmation(true));
            pair.run_for(Duration::from_secs(10));
            let is_delivery = |event: &&Event| matches!(event, Event::MessageDelivered { .. });
            let delivered = pair.hosts[0].events.iter().filter(is_delivery).count();
            let arrived = pair.hosts[1].received.len();
            assert_eq!((delivered, arrived), (10, 10), "behind {expiring}, interleaving: {interleaving}");
        }
    }
}

#[test]
fn nothing_leaves_that_lies_beyond_the_reach_of_the_receiver() {
    let mut pair = wide(false);
    // All but the first of the packets in flight arrive: the cumulative TSN stands still.
    pair.links[0] = Link::new(link(Probability::ONE), 2, "cut");
    send(&mut pair, 1, &Message::new("first"));
    pair.links[0] = Link::new(link(Probability::ZERO), 2, "whole");
    send(&mut pair, 50_000, &Message::new("x").on_stream(1));
    pair.run_until(|pair| pair.hosts[1].received.len() == 60_000 + 50_001);
    let stats = pair.hosts[1].association().stats();
    assert_eq!(stats.received.chunks_dropped, 0);
}

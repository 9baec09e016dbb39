//! Use of path knowledge when a sender speaks again after a long silence, or for the first time.

use festina_netsim::{Link, LinkConfig, LossModel, Reordering};
use festina_sctp::{Config, Message, PathKnowledge};
use festina_units::Duration;

use crate::pair::Pair;
use crate::random_walk::percent;

fn link(rtt_ms: u64, lost: &[u64]) -> LinkConfig {
    let delay = Duration::from_millis(rtt_ms) / 2;
    LinkConfig { delay, loss: LossModel::Exact(lost.to_vec()), ..LinkConfig::default() }
}

fn config() -> Config {
    let mut config = Config { peer_timeout: None, ..Config::default() };
    config.timers.heartbeat_interval = None;
    config
}

fn send(pair: &mut Pair, bytes: usize) {
    let now = pair.now;
    pair.hosts[0].association().send(now, Message::new(vec![1; bytes])).unwrap();
    pair.drain(0);
}

/// A pair whose client has sent twenty messages at a round trip of 20 ms and was silent for this time since.
fn silent_for(silence: Duration) -> Pair {
    let mut pair = Pair::new([config(), config()], [link(20, &[]), link(20, &[])], 1);
    pair.connect(0, 1);
    for _ in 0..20 {
        send(&mut pair, 100);
        pair.run_for(Duration::from_millis(100));
    }
    // The SACK for the last one may be delayed.
    pair.run_for(Duration::from_millis(400));
    pair.run_for(silence);
    pair
}

/// How long the next message takes, and how many chunks are retransmitted, over a path with this round trip that loses its first packets.
fn next_message(pair: &mut Pair, bytes: usize, rtt_ms: u64, lost: &[u64]) -> (u128, u64) {
    pair.links = [Link::new(link(rtt_ms, lost), 1, "there"), Link::new(link(rtt_ms, &[]), 1, "back")];
    let (start, received, resent) = (pair.now, pair.hosts[1].received.len(), resent(pair));
    send(pair, bytes);
    pair.run_until(|pair| pair.hosts[1].received.len() > received);
    let took = (pair.now - start).as_millis();
    pair.run_for(Duration::from_secs(5));
    (took, self::resent(pair) - resent)
}

fn resent(pair: &mut Pair) -> u64 {
    let counted = pair.hosts[0].association().stats().sent.retransmitted;
    counted.timeout + counted.fast + counted.reported_bundled + counted.bundled + counted.probe + counted.copies
}

const SILENCES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

#[test]
fn a_message_that_is_refused_changes_nothing() {
    let mut pair = silent_for(Duration::from_secs(60));
    let now = pair.now;
    let association = pair.hosts[0].association();
    let before = (association.stats(), association.poll_deadline());
    let long = Message::new(vec![1; (1 << 20) + 1]);
    for message in [Message::new(Vec::new()), long, Message::new(vec![1]).on_stream(u16::MAX)] {
        association.send(now, message).unwrap_err();
        assert_eq!((association.stats(), association.poll_deadline()), before);
    }
}

#[test]
fn a_round_trip_that_grew_tenfold_during_the_silence_draws_at_most_three_needless_copies_of_a_message() {
    for silence in SILENCES {
        let mut pair = silent_for(silence);
        let (took, resent) = next_message(&mut pair, 100, 200, &[]);
        assert_eq!(took, 100);
        assert!(resent <= 3, "{resent} after {silence:?}");
        let (_, resent) = next_message(&mut pair, 100, 200, &[]);
        assert!(resent <= 1, "{resent} for the next message");
        assert_eq!(next_message(&mut pair, 100, 200, &[]).1, 0, "the new round trip is known");
    }
}

#[test]
fn a_round_trip_that_stayed_lets_a_loss_after_the_silence_be_repaired_as_after_one_measurement_at_the_latest() {
    for (silence, most_ms) in SILENCES.into_iter().zip([36, 61]) {
        let (took, resent) = next_message(&mut silent_for(silence), 100, 20, &[0]);
        assert!(took <= most_ms, "{took} ms after {silence:?}");
        assert_eq!(resent, 1);
    }
}

#[test]
fn a_burst_after_the_silence_is_repaired_and_no_storm_answers_a_grown_round_trip() {
    for silence in SILENCES {
        let (took, resent) = next_message(&mut silent_for(silence), 12_000, 20, &[3]);
        assert!(took <= 100 && resent <= 2, "{took} ms, {resent} after {silence:?}");
        let (took, resent) = next_message(&mut silent_for(silence), 12_000, 200, &[]);
        assert!(took <= 500 && resent <= 12, "{took} ms, {resent} after {silence:?}");
    }
}

fn knowledge(rtt_ms: u64) -> PathKnowledge {
    let mut pair = Pair::new([config(), config()], [link(rtt_ms, &[]), link(rtt_ms, &[])], 1);
    pair.connect(0, 1);
    for _ in 0..20 {
        send(&mut pair, 100);
        pair.run_for(Duration::from_millis(500));
    }
    let now = pair.now;
    pair.hosts[0].association().path_knowledge(now).unwrap()
}

/// When the first message arrives at a destination with this knowledge, and the packets of both sides.
fn first_message(known: Option<PathKnowledge>, rtt_ms: u64, there: &[u64]) -> (u128, u64) {
    let mut pair = Pair::new([config(), config()], [link(rtt_ms, there), link(rtt_ms, &[])], 1);
    let start = pair.now;
    pair.connect_knowing(0, 1, known);
    send(&mut pair, 100);
    pair.run_until(|pair| !pair.hosts[1].received.is_empty());
    let took = (pair.now - start).as_millis();
    pair.run_for(Duration::from_secs(5));
    (took, pair.hosts[0].packets_sent + pair.hosts[1].packets_sent)
}

#[test]
fn what_is_known_of_a_destination_repairs_its_first_packets_within_little_more_than_a_round_trip() {
    let known = knowledge(100);
    for (lost, new, known_ms) in [(vec![], 150, 150), (vec![0], 360, 265), (vec![1], 275, 265), (vec![0, 1], 570, 380)]
    {
        assert_eq!(first_message(None, 100, &lost).0, new, "{lost:?}");
        let took = first_message(Some(known), 100, &lost).0;
        assert!((known_ms - 15..=known_ms).contains(&took), "{took} ms with {lost:?} lost");
    }
}

#[test]
fn what_is_known_of_a_destination_and_is_no_longer_true_costs_a_few_packets_and_gives_way() {
    for (known_ms, rtt_ms, packets) in [(20, 200, 14), (200, 20, 4), (100, 110, 4)] {
        let (took, sent) = first_message(Some(knowledge(known_ms)), rtt_ms, &[]);
        assert_eq!(took, u128::from(rtt_ms * 3 / 2), "known {known_ms} ms");
        assert!(sent <= packets, "{sent} packets with {known_ms} ms known and {rtt_ms} ms true");
    }
}

#[test]
fn what_is_known_widens_with_its_age() {
    let known = knowledge(100);
    assert_eq!(known.srtt(), Duration::from_millis(100));
    let took = |age: u64| first_message(Some(known.aged(Duration::from_secs(age))), 100, &[0]).0;
    assert!(took(0) <= 262 && took(0) < took(600), "{} and {} ms", took(0), took(600));
    assert_eq!(took(600), 275, "as after one measurement");
}

#[test]
fn an_association_that_did_not_come_about_knows_nothing_and_the_published_profiles_take_nothing_for_granted() {
    let mut pair = Pair::new([config(), config()], [link(100, &[1, 2, 3, 4, 5, 6]), link(100, &[])], 1);
    pair.connect(0, 1);
    pair.run_for(Duration::from_millis(200));
    let now = pair.now;
    assert_eq!(pair.hosts[0].association().path_knowledge(now), None, "COOKIE ACK has not come");
    let standard = Config::published(festina_sctp::Profile::Rfc9260);
    let mut pair = Pair::new([standard.clone(), standard], [link(100, &[]), link(100, &[])], 1);
    pair.connect_knowing(0, 1, Some(knowledge(100)));
    assert_eq!(pair.hosts[0].association().stats().path.srtt, None);
}

/// How long each of `messages` messages takes, one every 20 ms, from now on over these links.
fn delays(pair: &mut Pair, messages: usize, there: LinkConfig) -> Vec<u128> {
    pair.links = [Link::new(there, 1, "there"), Link::new(link(100, &[]), 1, "back")];
    let (start, before) = (pair.now, pair.hosts[1].received.len());
    let mut delays = Vec::new();
    for ms in 0..20 * messages as u64 + 2_000 {
        if ms % 20 == 0 && ms / 20 < messages as u64 {
            send(pair, 100);
        }
        pair.run_for(Duration::from_millis(1));
        while delays.len() < pair.hosts[1].received.len() - before {
            delays.push((pair.now - start).as_millis() - 20 * delays.len() as u128);
        }
    }
    delays
}

/// A pair that has learned that its path loses one packet in twenty.
fn pair_that_knows_the_loss(config: &Config) -> Pair {
    let mut pair = Pair::new([config.clone(), config.clone()], [link(100, &[]), link(100, &[])], 1);
    pair.connect(0, 1);
    let lost: Vec<u64> = (0..2_000).step_by(20).collect();
    delays(&mut pair, 500, link(100, &lost));
    pair
}

/// The longest delay of the first ten messages of an association that knows this, if the packet of the fourth is lost.
fn longest_with_a_loss(known: Option<PathKnowledge>) -> u128 {
    let mut pair = Pair::new([config(), config()], [link(100, &[]), link(100, &[])], 1);
    pair.connect_knowing(0, 1, known);
    pair.run_for(Duration::from_millis(500));
    delays(&mut pair, 10, link(100, &[3])).into_iter().max().unwrap()
}

#[test]
fn what_is_known_of_the_loss_lets_the_first_messages_of_the_next_association_arrive_by_the_packet_behind_them() {
    let mut pair = pair_that_knows_the_loss(&config());
    let now = pair.now;
    let known = pair.hosts[0].association().path_knowledge(now).unwrap();
    assert_eq!(longest_with_a_loss(Some(known)), 70, "the next packet, 20 ms later, carries a copy");
    assert_eq!(longest_with_a_loss(Some(known.aged(Duration::from_secs(600)))), 70, "ten minutes later, too");
    assert!(longest_with_a_loss(None) > 150, "a repair takes a round trip");
    assert!(longest_with_a_loss(Some(knowledge(100))) > 150, "no loss is known");
}

#[test]
fn what_is_known_of_the_loss_outlives_a_rest_in_which_memory_is_given_back() {
    let heartbeats = Config { peer_timeout: None, ..Config::default() };
    let mut pair = pair_that_knows_the_loss(&heartbeats);
    pair.run_for(Duration::from_secs(300));
    let longest = delays(&mut pair, 10, link(100, &[3])).into_iter().max().unwrap();
    assert_eq!(longest, 70);
}

/// Spurious retransmissions among forty messages of an association with this knowledge, if every tenth packet is overtaken.
fn resent_for_nothing(known: Option<PathKnowledge>) -> u64 {
    let mut pair = pair_on_overtaking_path(known);
    resent(&mut pair)
}

/// A pair that has sent forty messages over a path on which packets come up to 30 ms late.
fn pair_on_overtaking_path(known: Option<PathKnowledge>) -> Pair {
    let mut pair = Pair::new([config(), config()], [link(100, &[]), link(100, &[])], 1);
    pair.connect_knowing(0, 1, known);
    pair.run_for(Duration::from_millis(500));
    let reordering = Reordering { probability: percent(15), hold_back: Duration::from_millis(30) };
    delays(&mut pair, 40, LinkConfig { reordering, ..link(100, &[]) });
    pair
}

#[test]
fn what_is_known_of_reordering_spares_the_next_association_needless_retransmissions() {
    let mut pair = pair_on_overtaking_path(None);
    let now = pair.now;
    let known = pair.hosts[0].association().path_knowledge(now).unwrap();
    let without = resent_for_nothing(None);
    assert!(without > 0, "packets are overtaken");
    assert_eq!(resent_for_nothing(Some(known)), 0);
    assert_eq!(
        resent_for_nothing(Some(known.aged(Duration::from_secs(61)))),
        without,
        "it is forgotten after a minute"
    );
}

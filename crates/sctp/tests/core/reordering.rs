//! The cost of a path that reorders packets and loses none.

use festina_netsim::{Jitter, JitterShape, LinkConfig, RandomStream, Reordering};
use festina_sctp::{Config, Message};
use festina_units::{Duration, Probability};

use crate::pair::Pair;
use crate::seeds;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path whose packets take from `delay` to `delay + 2 * range`, each by itself.
fn jittery(delay: Duration, range: Duration) -> LinkConfig {
    let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: false };
    LinkConfig { delay: delay + range, jitter, ..LinkConfig::default() }
}

/// A path that holds one packet in ten back.
fn holding_back(delay: Duration, hold_back: Duration) -> LinkConfig {
    let reordering = Reordering { probability: Probability::from_percent(10), hold_back };
    LinkConfig { delay, reordering, ..LinkConfig::default() }
}

/// The cost of a thousand messages.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: u64,
    /// Copies of chunks that were not taken for lost.
    copies: u64,
}

/// The cost of messages of 100 bytes every `interval`, from five seconds on for a minute.
fn cost(link: &LinkConfig, interval: Duration, seed: u64) -> Cost {
    let mut pair = Pair::new([Config::default(), Config::default()], [link.clone(), link.clone()], seed);
    pair.connect(0, 1);
    pair.run_for(ms(1_000));
    let mut send_for = |time: Duration| {
        let count = |pair: &mut Pair| {
            let sent = pair.hosts[0].association().stats().sent.retransmitted;
            (pair.links[0].counters().offered_bytes.bytes(), sent.bundled + sent.reported_bundled + sent.copies)
        };
        let (before, end, mut messages) = (count(&mut pair), pair.now + time, 0);
        while pair.now < end {
            let now = pair.now;
            pair.hosts[0].association().send(now, Message::new(vec![1; 100])).unwrap();
            pair.drain(0);
            pair.run_for(interval);
            messages += 1;
        }
        let after = count(&mut pair);
        let per_thousand = |after: u64, before: u64| (after - before) * 1_000 / messages;
        Cost { bytes: per_thousand(after.0, before.0), copies: per_thousand(after.1, before.1) }
    };
    send_for(ms(5_000));
    send_for(ms(60_000))
}

#[test]
fn a_path_that_reorders_and_loses_nothing_costs_at_most_a_tenth_more_than_one_that_keeps_the_order() {
    for interval in [5, 20, 100].map(ms) {
        let in_order = cost(&jittery(ms(50), ms(0)), interval, 5);
        for range in [5, 15, 50].map(ms) {
            let reordered = cost(&jittery(ms(50), range), interval, 5);
            let are_few = reordered.bytes * 10 <= in_order.bytes * 11;
            assert!(are_few, "{interval:?}, {range:?}: {reordered:?}, {in_order:?} in order");
        }
    }
}

#[test]
fn packets_that_are_held_back_for_thirty_milliseconds_cause_probes_but_no_copies() {
    let (reordered, in_order) =
        (cost(&holding_back(ms(50), ms(30)), ms(20), 5), cost(&holding_back(ms(50), ms(0)), ms(20), 5));
    assert!(reordered.copies <= 20, "{reordered:?}");
    assert!(reordered.bytes * 5 <= in_order.bytes * 6, "{reordered:?}, {in_order:?} in order");
}

#[test]
fn without_loss_copies_stay_few_on_any_path_that_reorders() {
    for seed in seeds::extent(0..12, 0..300) {
        let mut random = RandomStream::new(seed, "paths that reorder");
        let mut within = |first: u64, end: u64| ms(first + random.below(end - first));
        let (delay, late, interval) = (within(5, 100), within(1, 100), within(3, 150));
        let link = if seed.is_multiple_of(2) { jittery(delay, late / 2) } else { holding_back(delay, late) };
        let Cost { copies, .. } = cost(&link, interval, seed);
        assert!(copies <= 50, "seed {seed}: {copies} copies of a thousand messages every {interval:?} over {link:?}");
    }
}

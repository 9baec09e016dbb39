//! What waits for its first transmission when the send buffer follows the window or keeps a delay (Goel et al. 2002).

use std::collections::BTreeMap;

use festina_netsim::{LinkConfig, LossModel, QueueLimit};
use festina_sctp::{Config, Event, Message, ProtocolEvent, SendBufferPolicy};
use festina_units::{Bandwidth, Duration, Instant, Probability};

use crate::pair::Pair;

const MESSAGE_BYTES: usize = 1_000;

/// The results of an application that writes whenever it may.
struct Greedy {
    /// From the writing of a message to when it left, in order.
    waits: Vec<Duration>,
    received: usize,
}

impl Greedy {
    fn run(policy: SendBufferPolicy, link: &LinkConfig, seconds: u64) -> Self {
        let mut config = Config { message_events: true, ..Config::default() };
        config.limits.send_buffer = policy;
        let back = LinkConfig { delay: link.delay, ..LinkConfig::default() };
        let mut pair = Pair::new([config.clone(), config], [link.clone(), back], 1);
        pair.connect(0, 1);
        pair.run_for(Duration::from_secs(1));
        let end = pair.now + Duration::from_secs(seconds);
        let (mut written, mut waits, mut received) = (BTreeMap::<_, Instant>::new(), Vec::new(), 0);
        let mut may_write = true;
        while pair.now < end {
            let now = pair.now;
            while may_write {
                match pair.hosts[0].association().send(now, Message::new(vec![7; MESSAGE_BYTES])) {
                    Ok(id) => drop(written.insert(id, now)),
                    Err(_) => may_write = false,
                }
                // As a driver does, so that packets that may be sent at once are.
                pair.drain(0);
            }
            assert!(pair.step(end) || pair.now >= end, "the application is not notified that it may write again");
            for event in pair.hosts[0].events.drain(..) {
                match event {
                    Event::Protocol(ProtocolEvent::MessageSent { id, at, .. }) => {
                        waits.extend(written.remove(&id).map(|wrote| at - wrote));
                    }
                    Event::Writable => may_write = true,
                    _ => {}
                }
            }
            received += pair.hosts[1].received.drain(..).len();
        }
        waits.sort_unstable();
        Self { waits, received }
    }

    fn quantile(&self, percent: usize) -> Duration {
        self.waits[self.waits.len() * percent / 100]
    }
}

fn link(megabits: u64, rtt_ms: u64, loss_percent: u32) -> LinkConfig {
    LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(megabits * 1_000_000)),
        delay: Duration::from_millis(rtt_ms / 2),
        queue: QueueLimit::packets(50),
        loss: LossModel::Independent(Probability::from_ppb(loss_percent * 10_000_000)),
        ..LinkConfig::default()
    }
}

#[test]
fn g02_the_less_may_wait_the_less_does_and_a_small_excess_costs_no_throughput() {
    let link = link(10, 40, 0);
    let [fixed, double, excess, single] = [
        SendBufferPolicy::Fixed,
        SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 0 },
        SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 3 },
        SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 0 },
    ]
    .map(|policy| Greedy::run(policy, &link, 20));
    let waits = [&fixed, &double, &excess, &single].map(|run| run.quantile(50));
    println!("{waits:?}, {:?}", [&fixed, &double, &excess, &single].map(|run| run.received));
    assert!(waits.is_sorted_by(|more, less| more > less), "{waits:?}");
    assert!(waits[0] > Duration::from_secs(1) && waits[2] < Duration::from_millis(10), "{waits:?}");
    assert!(excess.received * 100 >= fixed.received * 95, "{} and {}", excess.received, fixed.received);
    assert!(double.received * 100 >= fixed.received * 97, "{} and {}", double.received, fixed.received);
}

#[test]
fn a_target_is_kept_by_nine_messages_in_ten_and_costs_no_throughput() {
    for (megabits, rtt_ms, loss_percent) in [(10, 40, 0), (10, 100, 0), (30, 50, 0), (10, 40, 1)] {
        let link = link(megabits, rtt_ms, loss_percent);
        let fixed = Greedy::run(SendBufferPolicy::Fixed, &link, 20);
        let target = Duration::from_millis(50);
        let kept = Greedy::run(SendBufferPolicy::Target(target), &link, 20);
        let wait = kept.quantile(90);
        println!("{megabits} Mbit/s, {rtt_ms} ms, {loss_percent}%: {wait:?}, {} of {}", kept.received, fixed.received);
        assert!(wait <= target, "{megabits} Mbit/s, {rtt_ms} ms, {loss_percent}%: {wait:?}");
        assert!(kept.received * 100 >= fixed.received * 95, "{} of {}", kept.received, fixed.received);
    }
}

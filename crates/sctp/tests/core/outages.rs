//! Outages that are shorter than the peer timeout: random walks in which none ends an association, and everything arrives afterwards.

use festina_netsim::{Link, LinkConfig, LossModel, RandomStream};
use festina_sctp::{ClosedReason, Config, CongestionControl, Message, Profile, StreamId};
use festina_units::{Duration, Probability};

use crate::pair::Pair;
use crate::random_walk::pick;

/// The traffic when the outage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Business {
    /// Messages all the time.
    Busy,
    /// A message right before it and none while it lasts.
    Paused,
    /// Nothing.
    Idle,
    /// An orderly end begins in its midst, with as much left as the buffer takes.
    Ending,
    /// A stream is reset in its midst.
    Resetting,
}

const BUSINESSES: [Business; 5] =
    [Business::Busy, Business::Paused, Business::Idle, Business::Ending, Business::Resetting];

/// Which ways are cut.
const CUTS: [[bool; 2]; 3] = [[true, false], [false, true], [true, true]];

struct Walk {
    pair: Pair,
    link: LinkConfig,
    business: Business,
    cut: [bool; 2],
    outage: Duration,
    sent: usize,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "outages");
        let delay = Duration::from_millis(1 + random.below(100));
        let link = LinkConfig { delay, ..LinkConfig::default() };
        let timeout = Duration::from_millis(2_000 + random.below(58_000));
        let profile = pick(&mut random, &[Profile::Festina, Profile::Rfc9260, Profile::Rack]);
        let mut config = Config { peer_timeout: Some(timeout), ..Config::published(profile) };
        config.congestion = pick(&mut random, CongestionControl::all());
        config.timers.heartbeat_interval = pick(&mut random, &[None, Some(Duration::from_secs(30))]);
        let business = pick(&mut random, &BUSINESSES);
        let cut = pick(&mut random, &CUTS);
        // Questions asked just before and not answered yet count from then on.
        let shorter = timeout - 4 * delay - Duration::from_millis(1);
        let outage = pick(&mut random, &[shorter, shorter * 3 / 4, shorter / 2, shorter / 5]);
        let pair = Pair::new([config.clone(), config], [link.clone(), link.clone()], seed);
        Self { pair, link, business, cut, outage, sent: 0 }
    }

    fn send(&mut self) {
        let now = self.pair.now;
        let message = Message::new(vec![7; 100]).on_stream(1);
        self.sent += usize::from(self.pair.hosts[0].association().send(now, message).is_ok());
        self.pair.drain(0);
    }

    fn go_on(&mut self, time: Duration, is_busy: bool) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            if is_busy {
                self.send();
            }
            self.pair.run_for(Duration::from_millis(20).min(end - self.pair.now));
        }
    }

    fn set_links(&mut self, cut: [bool; 2]) {
        for (index, is_cut) in cut.into_iter().enumerate() {
            let loss = LossModel::Independent(if is_cut { Probability::ONE } else { Probability::ZERO });
            self.pair.links[index] = Link::new(LinkConfig { loss, ..self.link.clone() }, 1, "link");
        }
    }

    fn run(mut self) {
        let is_busy = self.business == Business::Busy;
        self.pair.connect(0, 1);
        self.go_on(Duration::from_secs(3), true);
        if !is_busy {
            self.pair.run_for(Duration::from_secs(2));
        }
        if self.business == Business::Paused {
            self.send();
        }
        self.set_links(self.cut);
        let half = self.outage / 2;
        self.go_on(half, is_busy);
        let now = self.pair.now;
        match self.business {
            Business::Ending => {
                (0..2_000).for_each(|_| self.send());
                self.pair.hosts[0].association().shutdown(now);
            }
            Business::Resetting => self.pair.hosts[0].association().reset_streams(now, &[StreamId(1)]).unwrap(),
            Business::Busy | Business::Paused | Business::Idle => {}
        }
        self.pair.drain(0);
        self.go_on(self.outage - half, is_busy);
        self.set_links([false; 2]);
        if self.business == Business::Ending {
            self.pair.run_until(|pair| pair.hosts.iter().all(|host| host.closed().is_some()));
            assert_eq!(self.pair.hosts[0].closed(), Some(&ClosedReason::Shutdown));
        } else {
            // T3-rtx may have been backed off to a minute where heartbeats measure nothing.
            self.go_on(Duration::from_secs(130), is_busy);
            self.send();
            self.pair.run_for(Duration::from_secs(5));
            for host in &self.pair.hosts {
                assert_eq!(host.closed(), None);
            }
        }
        assert_eq!(self.pair.hosts[1].received.len(), self.sent);
    }
}

#[test]
fn an_outage_shorter_than_the_peer_timeout_ends_nothing_and_everything_arrives() {
    let mut failed = Vec::new();
    for seed in 0..300 {
        let walk = Walk::new(seed);
        let what = (seed, walk.business, walk.cut, walk.outage);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk.run())).is_err() {
            failed.push(what);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn after_an_outage_data_leaves_again_as_soon_as_a_heartbeat_is_answered() {
    let link = LinkConfig { delay: Duration::from_millis(25), ..LinkConfig::default() };
    let mut pair = Pair::new([Config::default(), Config::default()], [link.clone(), link.clone()], 1);
    let send = |pair: &mut Pair, count: usize| {
        let now = pair.now;
        (0..count).for_each(|_| {
            pair.hosts[0].association().send(now, Message::new(vec![7; 1_000])).unwrap();
        });
        pair.drain(0);
    };
    pair.connect(0, 1);
    pair.run_for(Duration::from_secs(1));
    let dead = LinkConfig { loss: LossModel::Independent(Probability::ONE), ..link.clone() };
    pair.links[0] = Link::new(dead, 1, "there");
    send(&mut pair, 100);
    pair.run_for(Duration::from_secs(45));
    pair.links[0] = Link::new(link, 1, "there");
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.hosts[1].received.len(), 100);
}

/// An hour without a message: packets and bytes of both sides together, over UDP and IPv4, and the time until an idle side notices that its peer
/// is gone.
fn idle_hour(timeout: Duration) -> (u64, u64, Duration) {
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let config = Config { peer_timeout: Some(timeout), ..Config::default() };
    let mut pair = Pair::new([config.clone(), config], [link.clone(), link.clone()], 1);
    pair.connect(0, 1);
    pair.run_for(Duration::from_secs(10));
    let sent = |pair: &mut Pair| {
        let stats = [0, 1].map(|index| pair.hosts[index].association().stats().sent);
        let packets: u64 = stats.iter().map(|sent| sent.packets).sum();
        (packets, stats.iter().map(|sent| sent.bytes).sum::<u64>() + 28 * packets)
    };
    let before = sent(&mut pair);
    pair.run_for(Duration::from_secs(3_600));
    let after = sent(&mut pair);
    let dead = LinkConfig { loss: LossModel::Independent(Probability::ONE), ..link };
    pair.links = [Link::new(dead.clone(), 1, "dead"), Link::new(dead, 1, "dead")];
    let from = pair.now;
    pair.run_until(|pair| pair.hosts[0].closed().is_some());
    (after.0 - before.0, after.1 - before.1, pair.now - from)
}

#[test]
fn the_cost_of_noticing_a_dead_peer_is_what_the_guide_says() {
    let milliseconds = Duration::from_millis;
    let measured = [60, 20, 7].map(|timeout| idle_hour(Duration::from_secs(timeout)));
    let documented = [
        (480, 26_880, milliseconds(77_380)),
        (1_436, 80_416, milliseconds(26_940)),
        (4_068, 227_808, milliseconds(8_715)),
    ];
    assert_eq!(measured, documented);
}

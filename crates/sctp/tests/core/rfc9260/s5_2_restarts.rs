//! §5.2: two cores open towards each other and lose their memory in between, while the network loses, duplicates and reorders.

use std::collections::BTreeMap;

use festina_netsim::{Jitter, JitterShape, Link, LinkConfig, LossModel, RandomStream, Reordering};
use festina_sctp::{AssociationState, ClosedReason, Config, Event, Message, PathId, Profile};
use festina_units::{Duration, EcnCodepoint, Probability};

use super::packet::{COOKIE_ECHO, ERROR, INIT, INIT_ACK, Sent};
use crate::pair::{CLIENT_PORT, Datagram, Host, Pair, SERVER_PORT};

/// The host that restarts in the scripted tests, and the one that stays.
const RESTARTS: usize = 0;
const STAYS: usize = 1;

/// Two hosts and a network in which packets wait until they are taken.
fn scripted() -> Pair {
    let config = || Config::published(Profile::Rfc9260);
    Pair::new([config(), config()], [LinkConfig::default(), LinkConfig::default()], 1)
}

/// The only packet that a host has sent since the last look; it consists of one chunk of this kind.
fn take(pair: &mut Pair, from: usize, kind: u8) -> Vec<u8> {
    let Datagram(packet, _) = pair.links[from].poll_delivery(pair.now).expect("a packet was sent");
    assert_eq!(Sent::read(pair.hosts[1 - from].address, &packet).kinds(), [kind]);
    assert!(pair.links[from].poll_delivery(pair.now).is_none(), "no other packet was sent");
    packet
}

fn give(pair: &mut Pair, to: usize, packet: &[u8]) {
    let from = pair.hosts[1 - to].address;
    pair.deliver(to, from, EcnCodepoint::NotCapable, packet.to_vec());
}

/// Makes the first host connect with another tag than before, until its COOKIE ECHO is under way.
fn cookie_echo_of_a_new_life(pair: &mut Pair, nonce: u64) -> Vec<u8> {
    pair.hosts[RESTARTS].association = None;
    pair.connect(RESTARTS, nonce);
    let init = take(pair, RESTARTS, INIT);
    give(pair, STAYS, &init);
    let init_ack = take(pair, STAYS, INIT_ACK);
    give(pair, RESTARTS, &init_ack);
    pair.now += Duration::from_millis(1);
    take(pair, RESTARTS, COOKIE_ECHO)
}

/// Both sides opened at once, and one of them twice: the COOKIE ECHOs of both of its lives are under way.
fn two_lives_of_one_side() -> (Pair, [Vec<u8>; 2]) {
    let mut pair = scripted();
    pair.connect(STAYS, 1);
    take(&mut pair, STAYS, INIT);
    let echoes = [1, 2].map(|nonce| cookie_echo_of_a_new_life(&mut pair, nonce));
    (pair, echoes)
}

/// Asserts that messages get through both ways, and that neither side reported an error by an abort.
fn both_talk(pair: &mut Pair) {
    pair.run_for(Duration::from_secs(10));
    for index in [RESTARTS, STAYS] {
        pair.hosts[index].received.clear();
        let now = pair.now;
        pair.hosts[index].association().send(now, Message::new("hello")).unwrap();
        pair.drain(index);
    }
    pair.run_for(Duration::from_secs(60));
    for host in &pair.hosts {
        assert_eq!(host.closed(), None);
        assert_eq!(host.received.len(), 1, "{host:#?}");
    }
}

fn restarts_told(pair: &Pair) -> usize {
    pair.hosts[STAYS].events.iter().filter(|event| **event == Event::PeerRestarted).count()
}

#[test]
fn s5_2_4_a_peer_that_restarts_while_its_cookie_echo_is_under_way_gets_tsns_of_its_own() {
    let (mut pair, [first, second]) = two_lives_of_one_side();
    give(&mut pair, STAYS, &first);
    assert_eq!(pair.hosts[STAYS].association().state(), AssociationState::Established);
    give(&mut pair, STAYS, &second);
    both_talk(&mut pair);
    assert_eq!(restarts_told(&pair), 1, "the application hears that it speaks with another");
}

#[test]
fn s5_2_4_a_late_cookie_echo_of_an_earlier_life_does_not_disturb_the_later_one() {
    let (mut pair, [first, second]) = two_lives_of_one_side();
    give(&mut pair, STAYS, &second);
    give(&mut pair, STAYS, &first);
    both_talk(&mut pair);
    assert_eq!(restarts_told(&pair), 0);
}

#[test]
fn s5_2_4_in_cookie_echoed_a_late_cookie_echo_of_an_earlier_life_does_not_replace_the_later_one() {
    let mut pair = scripted();
    pair.connect(STAYS, 1);
    let init = take(&mut pair, STAYS, INIT);
    let late = cookie_echo_of_a_new_life(&mut pair, 1);
    pair.hosts[RESTARTS].association = None;
    give(&mut pair, RESTARTS, &init);
    let init_ack = take(&mut pair, RESTARTS, INIT_ACK);
    give(&mut pair, STAYS, &init_ack);
    let echo = take(&mut pair, STAYS, COOKIE_ECHO);
    give(&mut pair, STAYS, &late);
    let refusal = take(&mut pair, STAYS, ERROR);
    assert_eq!(pair.hosts[STAYS].association().state(), AssociationState::CookieEchoed);
    give(&mut pair, RESTARTS, &refusal);
    give(&mut pair, RESTARTS, &echo);
    both_talk(&mut pair);
}

#[test]
fn s5_2_4_a_side_that_answered_as_a_listener_and_then_opened_is_believed_even_if_its_init_overtook_the_answer() {
    let mut pair = scripted();
    pair.connect(STAYS, 1);
    let init = take(&mut pair, STAYS, INIT);
    give(&mut pair, RESTARTS, &init);
    let answer_of_the_listener = take(&mut pair, RESTARTS, INIT_ACK);
    let echo = cookie_echo_of_a_new_life(&mut pair, 1);
    give(&mut pair, STAYS, &answer_of_the_listener);
    take(&mut pair, STAYS, COOKIE_ECHO);
    give(&mut pair, STAYS, &echo);
    both_talk(&mut pair);
}

#[test]
fn s5_2_4_a_peer_that_restarts_while_the_listener_has_its_cookie_echo_gets_through() {
    let mut pair = scripted();
    let [first, second] = [1, 2].map(|nonce| cookie_echo_of_a_new_life(&mut pair, nonce));
    give(&mut pair, STAYS, &first);
    give(&mut pair, STAYS, &second);
    both_talk(&mut pair);
    assert_eq!(restarts_told(&pair), 1);
}

#[test]
fn s8_2_a_peer_that_restarts_makes_its_path_active_again() {
    let mut pair = scripted();
    pair.connect(RESTARTS, 1);
    pair.run_for(Duration::from_secs(1));
    pair.hosts[RESTARTS].association = None;
    let now = pair.now;
    pair.hosts[STAYS].association().send(now, Message::new("lost")).unwrap();
    pair.drain(STAYS);
    let reachable = |reachable| Event::PathReachable { path: PathId::PRIMARY, reachable };
    while !pair.hosts[STAYS].events.contains(&reachable(false)) {
        pair.now = pair.hosts[STAYS].association().poll_deadline().expect("it is retransmitted");
        let now = pair.now;
        pair.hosts[STAYS].association().handle_timeout(now);
        pair.drain(STAYS);
        while pair.links[STAYS].poll_delivery(now).is_some() {}
    }
    pair.connect(RESTARTS, 2);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(restarts_told(&pair), 1);
    assert!(pair.hosts[STAYS].events.contains(&reachable(true)), "{:?}", pair.hosts[STAYS].events);
}

#[test]
fn s5_2_6_a_second_stale_cookie_error_for_the_same_attempt_is_dropped() {
    let (mut pair, [first, second]) = two_lives_of_one_side();
    give(&mut pair, STAYS, &first);
    while pair.links[STAYS].poll_delivery(pair.now).is_some() {}
    let refusals = [0, 1].map(|_| {
        give(&mut pair, STAYS, &second);
        take(&mut pair, STAYS, ERROR)
    });
    give(&mut pair, RESTARTS, &refusals[0]);
    let init = take(&mut pair, RESTARTS, INIT);
    give(&mut pair, STAYS, &init);
    let init_ack = take(&mut pair, STAYS, INIT_ACK);
    give(&mut pair, RESTARTS, &init_ack);
    assert_eq!(pair.hosts[RESTARTS].association().state(), AssociationState::CookieEchoed);
    give(&mut pair, RESTARTS, &refusals[1]);
    assert_eq!(pair.hosts[RESTARTS].association().state(), AssociationState::CookieEchoed);
    both_talk(&mut pair);
}

#[test]
fn s5_2_1_a_cookie_of_an_association_that_was_given_up_makes_no_other() {
    let mut pair = scripted();
    pair.connect(STAYS, 1);
    take(&mut pair, STAYS, INIT);
    let echo = cookie_echo_of_a_new_life(&mut pair, 1);
    pair.hosts[STAYS].association().abort(b"out of patience");
    pair.drain(STAYS);
    pair.hosts[STAYS].events.clear();
    give(&mut pair, STAYS, &echo);
    assert!(pair.hosts[STAYS].association().is_closed());
    both_talk(&mut pair);
}

/// What happened in the walks, so that the test can say that each case was really met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    opened_from_both_sides: u32,
    restarts: u32,
    given_up: u32,
    restarts_told: u32,
    ended_established: u32,
    ended_closed: u32,
}

/// Two hosts that open, crash and talk in the order that the seed determines.
struct Walk {
    seed: u64,
    random: RandomStream,
    pair: Pair,
    /// Number of restarts of each host, and the number of its next message.
    lives: [u64; 2],
    numbers: [u64; 2],
    nonce: u64,
    met: Met,
}

fn percent(percent: u64) -> Probability {
    Probability::from_ppb(u32::try_from(percent * 10_000_000).unwrap())
}

fn bad_link(random: &mut RandomStream) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(1 + random.below(100)),
        jitter: Jitter {
            shape: JitterShape::Uniform { range: Duration::from_millis(1 + random.below(200)) },
            keeps_order: false,
        },
        loss: LossModel::Independent(percent(random.below(30))),
        reordering: Reordering {
            probability: percent(random.below(30)),
            hold_back: Duration::from_millis(random.below(2_000)),
        },
        duplication: percent(random.below(30)),
        ..LinkConfig::default()
    }
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "restarts");
        let mut config = Config::published(Profile::Rfc9260);
        // A half of an association whose other half is gone ends soon.
        config.retries.association_max = 4;
        config.retries.unreachable_after_min = Duration::ZERO;
        config.timers.heartbeat_interval = Some(Duration::from_secs(5));
        let links = [bad_link(&mut random), bad_link(&mut random)];
        let pair = Pair::new([config.clone(), config], links, seed);
        Self { seed, random, pair, lives: [0; 2], numbers: [0; 2], nonce: 0, met: Met::default() }
    }

    fn run(mut self) -> Met {
        for _ in 0..20 + self.random.below(30) {
            let index = usize::try_from(self.random.below(2)).unwrap();
            match self.random.below(10) {
                0..=1 => self.open(index),
                2 => self.crash(index),
                3 => self.give_up(index),
                4..=5 => self.send(index),
                _ => {
                    let time = Duration::from_micros(self.random.below(400_000));
                    self.pair.run_for(time);
                }
            }
        }
        self.settle();
        self.check();
        self.met.restarts_told += u32::try_from(restarts_told(&self.pair)).unwrap();
        self.met
    }

    /// Opens an association, in place of the one that there may be.
    fn open(&mut self, index: usize) {
        if self.is_open(index) {
            self.crash(index);
        }
        self.nonce += 1;
        self.pair.connect(index, self.nonce);
        let opening = |host: &Host| {
            host.association.as_ref().is_some_and(|association| association.state() == AssociationState::CookieWait)
        };
        self.met.opened_from_both_sides += u32::from(self.pair.hosts.iter().all(opening));
    }

    /// The host forgets everything, its secret included, but for its address and ports.
    fn crash(&mut self, index: usize) {
        self.met.restarts += u32::from(self.is_open(index));
        self.begin_life(index);
        let host = &mut self.pair.hosts[index];
        let secret = u8::try_from(2 + 2 * self.lives[index]).unwrap() + u8::try_from(index).unwrap();
        let Host { context, mut listener, .. } = Host::new(secret, host.context.config().clone());
        listener.listen([CLIENT_PORT, SERVER_PORT][index]);
        (host.context, host.listener) = (context, listener);
    }

    /// The application loses patience with a handshake.
    fn give_up(&mut self, index: usize) {
        let Some(association) = &mut self.pair.hosts[index].association else { return };
        if matches!(association.state(), AssociationState::CookieWait | AssociationState::CookieEchoed) {
            association.abort(b"");
            self.pair.drain(index);
            self.begin_life(index);
            self.met.given_up += 1;
        }
    }

    fn begin_life(&mut self, index: usize) {
        self.lives[index] += 1;
        self.numbers[index] = 0;
        let host = &mut self.pair.hosts[index];
        host.association = None;
        host.received.clear();
    }

    fn is_open(&self, index: usize) -> bool {
        self.pair.hosts[index].association.as_ref().is_some_and(|association| !association.is_closed())
    }

    /// Sends a message that says which life it comes from, if there is an association.
    fn send(&mut self, index: usize) {
        let (now, life, number) = (self.pair.now, self.lives[index], self.numbers[index]);
        if let Some(association) = &mut self.pair.hosts[index].association {
            let payload = [life.to_be_bytes(), number.to_be_bytes()].concat();
            self.numbers[index] += u64::from(association.send(now, Message::new(payload)).is_ok());
            self.pair.drain(index);
        }
    }

    /// The network is good from now on, and neither host crashes again: both ends agree in the end.
    fn settle(&mut self) {
        self.pair.run_for(Duration::from_secs(3));
        let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
        self.pair.links = [Link::new(link.clone(), self.seed, "there"), Link::new(link, self.seed, "back")];
        for _ in 0..200 {
            if !self.is_open(0) && !self.is_open(1) {
                self.met.ended_closed += 1;
                return;
            }
            let before = self.pair.hosts.each_ref().map(|host| host.received.len());
            (0..2).for_each(|index| self.send(index));
            self.pair.run_for(Duration::from_secs(5));
            let talks = |index: usize| self.is_open(index) && self.pair.hosts[index].received.len() > before[index];
            if talks(0) && talks(1) {
                self.met.ended_established += 1;
                return;
            }
        }
        panic!("seed {}: the ends do not agree: {:#?}", self.seed, self.pair.hosts);
    }

    fn check(&self) {
        for host in &self.pair.hosts {
            for event in &host.events {
                let violated = matches!(
                    event,
                    Event::Closed(ClosedReason::ProtocolViolation(_) | ClosedReason::AbortedByPeer { code: 13, .. })
                );
                assert!(!violated, "seed {}: {event:?}", self.seed);
            }
            let mut latest = BTreeMap::new();
            for message in &host.received {
                let (life, number) = message.payload().split_at(8);
                let before = latest.insert(life.to_vec(), number.to_vec());
                // A late COOKIE ECHO may bring the first data of an earlier life again, in an association of its own.
                let begins = number.iter().all(|&byte| byte == 0);
                let in_order = begins || before.is_none_or(|before| *before < *number);
                assert!(in_order, "seed {}: message {number:?} of life {life:?} came late or twice", self.seed);
            }
        }
    }
}

#[test]
fn s5_2_cores_that_open_at_once_and_restart_never_abort_each_other_and_agree_in_the_end() {
    let mut met = Met::default();
    for seed in 0..2_000 {
        let walk = Walk::new(seed).run();
        met.opened_from_both_sides += walk.opened_from_both_sides;
        met.restarts += walk.restarts;
        met.given_up += walk.given_up;
        met.restarts_told += walk.restarts_told;
        met.ended_established += walk.ended_established;
        met.ended_closed += walk.ended_closed;
    }
    let Met { opened_from_both_sides, restarts, given_up, restarts_told, ended_established, ended_closed } = met;
    for count in [opened_from_both_sides, restarts, given_up, restarts_told, ended_established, ended_closed] {
        assert!(count > 20, "{met:?}");
    }
}

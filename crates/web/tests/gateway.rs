//! The gateway against native clients that speak as browsers do, in virtual time.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[expect(dead_code, reason = "the other test uses the rest")]
mod browser;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use browser::Browser;
use bytes::BytesMut;
use festina_endpoint::endpoint::{AssociationId, EndpointEvent, Setup};
use festina_endpoint::{Datagram, Endpoint, Protocols};
use festina_sctp::{Config, Context, Message};
use festina_units::{Duration, EcnCodepoint, Instant};
use festina_web::gateway::{Gateway, GatewayEvent, GatewayLimits, PeerId, SILENCE_MAX};

const DELAY: Duration = Duration::from_millis(50);

fn server() -> SocketAddr {
    ([192, 0, 2, 1], 9_899).into()
}

fn home(number: u16) -> SocketAddr {
    ([198, 51, 100, 7], 40_000 + number).into()
}

/// The origin of DTLS's clock.
#[expect(clippy::disallowed_methods, reason = "DTLS takes the standard library's instants; only differences count")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// A gateway with an SCTP endpoint behind it, browsers before it, and a network between them.
struct World {
    now: Instant,
    clock: std::time::Instant,
    gateway: Gateway,
    endpoint: Endpoint,
    accepted: Vec<AssociationId>,
    events: Vec<GatewayEvent>,
    browsers: BTreeMap<SocketAddr, Browser>,
    /// Datagrams on their way: when, from, to.
    network: BTreeMap<(Instant, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    carried: u64,
    /// Whether the datagram with this number arrives.
    arrives: fn(u64) -> bool,
    /// Bytes by sender and receiver.
    bytes: BTreeMap<(SocketAddr, SocketAddr), usize>,
}

impl World {
    fn new(limits: GatewayLimits) -> Self {
        let (now, clock) = (Instant::from_secs(10), clock());
        let context = Context::new(Config::default(), [1; 16]).unwrap();
        let setup = Setup {
            context,
            protocols: Protocols::Plain,
            listener: None,
            secret: [1; 16],
            cpu_time: || Duration::ZERO,
        };
        let mut endpoint = Endpoint::new(setup);
        endpoint.listen(5_000).unwrap();
        Self {
            now,
            clock,
            gateway: Gateway::new(now, clock, vec![server()], limits).unwrap(),
            endpoint,
            accepted: Vec::new(),
            events: Vec::new(),
            browsers: BTreeMap::new(),
            network: BTreeMap::new(),
            carried: 0,
            arrives: |_| true,
            bytes: BTreeMap::new(),
        }
    }

    /// Adds a browser whose offer was answered.
    fn add(&mut self, number: u16) -> PeerId {
        let mut browser = Browser::new(self.now, self.clock, number.into());
        let (id, answer) = self.gateway.answer(self.now, &browser.offer()).unwrap();
        assert_eq!(browser.take_answer(&answer), server());
        self.browsers.insert(home(number), browser);
        id
    }

    fn carry(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.carried += 1;
        *self.bytes.entry((from, to)).or_default() += bytes.len();
        if (self.arrives)(self.carried) {
            self.network.insert((self.now + DELAY, self.carried), (from, to, bytes));
        }
    }

    /// Moves packets and datagrams between gateway, endpoint, browsers and network until none waits.
    fn flush(&mut self) {
        loop {
            let before = self.carried;
            while let Some((id, packet)) = self.gateway.poll_packet() {
                let packet = BytesMut::from(&packet[..]);
                self.endpoint.handle_datagram(
                    self.now,
                    Datagram { from: id.label(), source: None, ecn: EcnCodepoint::NotCapable, packet },
                );
            }
            let mut packet = Vec::new();
            while let Some((transmit, _)) = self.endpoint.poll_transmit(self.now, &mut packet) {
                let id = PeerId::from_label(transmit.destination).expect("a label");
                self.gateway.send(self.now, id, &std::mem::take(&mut packet));
            }
            while let Some(datagram) = self.gateway.poll_datagram() {
                self.carry(server(), datagram.remote, datagram.bytes);
            }
            while let Some(event) = self.gateway.poll_event() {
                self.events.push(event);
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let EndpointEvent::Accepted(id) = event {
                    self.accepted.push(id);
                }
            }
            let outgoing: Vec<_> =
                self.browsers.iter_mut().map(|(home, browser)| (*home, browser.poll_datagrams(self.now))).collect();
            for (home, datagrams) in outgoing {
                datagrams.into_iter().for_each(|bytes| self.carry(home, server(), bytes));
            }
            if before == self.carried {
                return;
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.flush();
            let arrival = self.network.keys().next().map(|(at, _)| *at);
            let browsers = self.browsers.values().filter_map(|browser| browser.poll_deadline(self.now)).min();
            let next = Instant::earliest([
                arrival,
                browsers,
                self.gateway.poll_deadline(),
                self.endpoint.poll_deadline(self.now),
            ]);
            let Some(next) = next.filter(|next| *next < end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.network.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, bytes) = entry.remove();
                if to == server() {
                    self.gateway.handle_datagram(self.now, from, None, &bytes);
                } else if let Some(browser) = self.browsers.get_mut(&to) {
                    browser.handle_datagram(self.now, &bytes);
                }
                self.flush();
            }
            self.gateway.handle_timeout(self.now);
            self.endpoint.handle_timeout(self.now);
            self.browsers.values_mut().for_each(|browser| browser.handle_timeout(self.now));
        }
        self.now = end;
    }

    fn browser(&mut self, number: u16) -> &mut Browser {
        self.browsers.get_mut(&home(number)).expect("it is there")
    }

    /// A message of a browser reaches the server, and an answer the browser.
    fn exchange(&mut self, number: u16, association: AssociationId) {
        let now = self.now;
        self.browser(number).send(now, Message::new("up"));
        self.run(Duration::from_secs(3));
        assert_eq!(self.endpoint.poll_message(association).expect("a message").payload(), "up");
        let now = self.now;
        self.endpoint.change(association, |association| association.send(now, Message::new("down"))).unwrap().unwrap();
        self.run(Duration::from_secs(3));
        assert_eq!(self.browser(number).recv().expect("a message").payload(), "down");
    }
}

#[test]
fn a_browser_connects_within_five_round_trips() {
    let mut world = World::new(GatewayLimits::default());
    let id = world.add(1);
    // ICE and DTLS 1.3 take a round trip each, SCTP two. The last packet goes one way.
    world.run(9 * DELAY);
    assert_eq!(world.events, [GatewayEvent::Connected(id)]);
    let [association] = world.accepted[..] else { panic!("one association: {:?}", world.accepted) };
    world.exchange(1, association);
}

#[test]
fn one_datagram_of_eight_may_be_lost() {
    let mut world = World::new(GatewayLimits::default());
    // By a hash: a regular pattern can meet the same datagram of each repeated flight.
    world.arrives = |number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 != 0;
    world.add(1);
    world.run(Duration::from_secs(15));
    let [association] = world.accepted[..] else { panic!("one association: {:?}", world.accepted) };
    world.exchange(1, association);
}

#[test]
fn a_certificate_that_the_offer_did_not_announce_ends_the_connection() {
    let mut world = World::new(GatewayLimits::default());
    let (honest, mut other) = (Browser::new(world.now, world.clock, 1), Browser::new(world.now, world.clock, 1));
    let (id, answer) = world.gateway.answer(world.now, &honest.offer()).unwrap();
    other.take_answer(&answer);
    world.browsers.insert(home(1), other);
    world.run(Duration::from_secs(1));
    assert!(matches!(world.events[..], [GatewayEvent::Gone(gone, _)] if gone == id), "{:?}", world.events);
    assert!(world.accepted.is_empty());
}

#[test]
fn nothing_is_sent_to_an_address_that_has_not_asked_with_the_password() {
    let mut world = World::new(GatewayLimits::default());
    world.add(1);
    world.run(Duration::from_secs(1));
    let stranger = home(99);
    let mut hello = vec![22, 254, 253];
    hello.resize(200, 0);
    let guess = browser::request(7, "aaaaaaaa:u0000001", "aaaaaaaaaaaaaaaaaaaaaaaa");
    for bytes in [&hello[..], &guess, &[200; 50], &[], &[0], &[1, 1, 0, 0]] {
        world.gateway.handle_datagram(world.now, stranger, None, bytes);
        assert_eq!(world.gateway.poll_datagram(), None);
    }
    assert!(world.gateway.stats().strays >= 5);
}

/// A hello whose sender's address is a victim's: the certificate is larger than the hello, and is sent again and again.
#[test]
fn a_hello_without_anything_more_is_answered_with_at_most_three_times_its_bytes() {
    let (mut now, clock) = (Instant::from_secs(10), clock());
    let mut gateway = Gateway::new(now, clock, vec![server()], GatewayLimits::default()).unwrap();
    let mut browser = Browser::new(now, clock, 1);
    let (_, answer) = gateway.answer(now, &browser.offer()).unwrap();
    browser.take_answer(&answer);
    let request = browser.ask();
    let (mut received, mut sent) = (request.len(), 0);
    gateway.handle_datagram(now, home(1), None, &request);
    while let Some(datagram) = gateway.poll_datagram() {
        sent += datagram.bytes.len();
        browser.handle_datagram(now, &datagram.bytes);
    }
    for hello in browser.poll_datagrams(now) {
        received += hello.len();
        gateway.handle_datagram(now, home(1), None, &hello);
    }
    while let Some(deadline) = gateway.poll_deadline() {
        now = deadline;
        gateway.handle_timeout(now);
        sent += std::iter::from_fn(|| gateway.poll_datagram()).map(|datagram| datagram.bytes.len()).sum::<usize>();
    }
    assert!(sent > received, "{sent} bytes for {received}: the flight was not sent");
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
    assert!(gateway.stats().withheld > 0, "{sent} bytes for {received}: the limit was not reached");
}

#[test]
fn a_move_to_another_address_is_followed_and_a_replay_is_not() {
    let mut world = World::new(GatewayLimits::default());
    let id = world.add(1);
    world.run(Duration::from_secs(2));
    let [association] = world.accepted[..] else { panic!("one association") };
    let first = world.browser(1).ask();
    world.gateway.handle_datagram(world.now, home(1), None, &first);
    world.gateway.handle_datagram(world.now, home(66), None, &first);
    assert_eq!(world.gateway.remote_addr(id), Some(home(1)), "who replays a request moves nothing");
    // The browser is at another address from now on, and asks from there.
    let mut browser = world.browsers.remove(&home(1)).unwrap();
    let request = browser.ask();
    world.browsers.insert(home(2), browser);
    world.gateway.handle_datagram(world.now, home(2), None, &request);
    assert_eq!(world.gateway.remote_addr(id), Some(home(2)));
    world.exchange(2, association);
}

#[test]
fn credentials_of_ones_own_do_not_take_the_address_of_another() {
    let mut world = World::new(GatewayLimits::default());
    let victim = world.add(1);
    world.run(Duration::from_secs(2));
    let [association] = world.accepted[..] else { panic!("one association") };
    let mut attacker = Browser::new(world.now, world.clock, 2);
    let (_, answer) = world.gateway.answer(world.now, &attacker.offer()).unwrap();
    attacker.take_answer(&answer);
    let request = attacker.ask();
    // From the address of the victim, which is easily written into a packet.
    world.gateway.handle_datagram(world.now, home(1), None, &request);
    assert_eq!(world.gateway.remote_addr(victim), Some(home(1)));
    world.exchange(1, association);
}

#[test]
fn a_restart_of_ice_keeps_the_association_and_needs_the_same_certificate() {
    let mut world = World::new(GatewayLimits::default());
    let id = world.add(1);
    world.run(Duration::from_secs(2));
    let [association] = world.accepted[..] else { panic!("one association") };
    let stranger = Browser::new(world.now, world.clock, 1).offer();
    assert!(world.gateway.restart(id.number(), &stranger).is_err());
    let offer = world.browser(1).offer();
    let answer = world.gateway.restart(id.number(), &offer).unwrap();
    let mut browser = world.browsers.remove(&home(1)).unwrap();
    browser.take_answer(&answer);
    let request = browser.ask();
    world.browsers.insert(home(3), browser);
    world.gateway.handle_datagram(world.now, home(3), None, &request);
    world.exchange(3, association);
}

#[test]
fn those_who_do_not_come_and_those_who_fall_silent_are_forgotten() {
    let mut world = World::new(GatewayLimits::default());
    let stays_away = Browser::new(world.now, world.clock, 1);
    let (away, _) = world.gateway.answer(world.now, &stays_away.offer()).unwrap();
    world.run(Duration::from_secs(21));
    assert!(matches!(world.events[..], [GatewayEvent::Gone(gone, _)] if gone == away), "{:?}", world.events);
    let id = world.add(2);
    world.run(Duration::from_secs(2));
    world.browsers.clear();
    world.run(SILENCE_MAX + Duration::from_secs(2));
    assert!(
        matches!(world.events[1..], [GatewayEvent::Connected(_), GatewayEvent::Gone(gone, _)] if gone == id),
        "{:?}",
        world.events
    );
    assert_eq!(world.gateway.peers(), 0);
}

#[test]
fn offers_that_nobody_follows_make_room_for_later_ones() {
    let mut limits = GatewayLimits::default();
    limits.peers_max = 3;
    let mut world = World::new(limits);
    world.add(1);
    world.run(Duration::from_secs(2));
    for number in 2..100 {
        let browser = Browser::new(world.now, world.clock, number);
        world.gateway.answer(world.now, &browser.offer()).unwrap();
        assert!(world.gateway.peers() <= 3);
    }
    let [association] = world.accepted[..] else { panic!("one association") };
    world.exchange(1, association);
    assert_eq!(world.gateway.stats().displaced, 96);
}

/// Records that somebody else makes up, of each kind: plaintext and protected ones, alerts, parts of handshake messages, whole and cut.
fn forged(number: u64) -> Vec<u8> {
    let mut state = number;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let body: Vec<u8> = (0..byte() % 64).map(|_| byte()).collect();
    let length = [0, u8::try_from(body.len()).unwrap()];
    match number % 4 {
        // A fatal alert: handshake failure.
        0 => [&[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, byte(), 0, 2, 2, 40][..]].concat(),
        // A record of DTLS 1.2 and a piece of a handshake message in one.
        1 => [&[20 + byte() % 7, 254, 253, 0, byte() % 3, 0, 0, 0, 0, 0, byte()], &length[..], &body].concat(),
        2 => {
            let header = [byte() % 25, 0, 0, byte(), 0, byte() % 4, 0, 0, byte() % 8, 0, 0, length[1]];
            [&[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, byte(), 0, 12 + length[1]], &header[..], &body].concat()
        }
        // A protected one of DTLS 1.3 with a length.
        _ => [&[0x2C | (byte() % 4), byte(), byte()], &length[..], &body].concat(),
    }
}

/// Forged pieces of handshake messages can spoil a handshake, since nothing protects them (RFC 9147 §11.1); afterwards they cannot.
#[test]
fn forged_records_from_the_address_of_a_browser_do_not_disconnect_it() {
    for start in 0..16 {
        let mut world = World::new(GatewayLimits::default());
        world.add(1);
        for number in 0..100 {
            world.run(Duration::from_millis(20));
            let is_connected = !world.events.is_empty();
            let number = if is_connected { start * 100 + number } else { 3 * (number % 2) + 4 * start };
            let (now, record) = (world.now, forged(number));
            world.gateway.handle_datagram(now, home(1), None, &record);
            assert_eq!(world.gateway.peers(), 1, "series {start}: {record:?}, {:?}", world.events);
        }
        world.run(Duration::from_secs(10));
        let [association] = world.accepted[..] else { panic!("series {start}: {:?}", world.events) };
        world.exchange(1, association);
    }
}

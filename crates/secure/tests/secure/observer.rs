//! An observer on the path that copies, delays and injects packets, from and to any address, but drops none: it ends no association and silences none.

use std::net::{IpAddr, SocketAddr};

use festina_netsim::RandomStream;
use festina_sctp::{AssociationState, Config, Event, Message};
use festina_units::{Duration, Instant};

use crate::handshake::link;
use crate::middlebox::Fault;
use crate::world::{Setup, World, address, tls_of_constant_length};

const PERIOD: Duration = Duration::from_millis(100);
/// A message may wait for two round trips, and for one more that validates an address.
const SILENCE_MAX: Duration = Duration::from_millis(50 + 3 * 100);
const COUNT: u32 = 200;
/// Two round trips, one that was lost with the old port, and a repetition.
const CONNECT_MAX: Duration = Duration::from_millis(3 * 100 + 1_000);

/// A copy of a datagram on its way to one side.
struct Copy {
    at: Instant,
    side: usize,
    from: SocketAddr,
    /// The server's address that the copy of a client's datagram is sent to.
    local: IpAddr,
    datagram: Vec<u8>,
}

struct Observer {
    random: RandomStream,
    world: World,
    copies: Vec<Copy>,
    /// Datagrams of each side that the observer has looked at.
    seen: [usize; 2],
    /// Percent of the client's and of the server's datagrams that are copied.
    copied: [u64; 2],
    /// Copies arrive this much after the original was sent at most.
    delay_max: Duration,
    addresses: Vec<SocketAddr>,
}

/// The settings of an application, with heartbeats.
fn default_config() -> Config {
    let mut config = Config::default();
    config.limits.packet_bytes_max -= festina_secure::OVERHEAD_BYTES;
    config
}

impl Observer {
    /// An observer of an association.
    fn new(seed: u64) -> Self {
        let mut world = Self::world(seed);
        world.send(b"hello");
        world.run_for(Duration::from_secs(2));
        assert!(world.established().is_some());
        Self::of(world, seed)
    }

    fn world(seed: u64) -> World {
        let tls = tls_of_constant_length();
        World::new(Setup { config: default_config(), ..Setup::new(&tls, link(&[]), seed) })
    }

    fn of(world: World, seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "observer");
        let seen = [0, 1].map(|side| world.sent[side].len());
        let share = |random: &mut RandomStream| [5, 50, 100][usize::try_from(random.below(3)).unwrap()];
        let copied = [share(&mut random), share(&mut random)];
        let delay_max = Duration::from_millis([1, 45, 400][usize::try_from(random.below(3)).unwrap()]);
        let taps = 1 + random.below(3);
        let addresses =
            (0..taps).map(|tap| SocketAddr::from(([198, 51, 100, u8::try_from(tap).unwrap()], 9))).collect();
        Self { random, world, copies: Vec::new(), seen, copied, delay_max, addresses }
    }

    /// Copies some of the datagrams that were sent since the last call.
    fn look(&mut self) {
        for side in 0..2 {
            while let Some(datagram) = self.world.sent[side].get(self.seen[side]).cloned() {
                self.seen[side] += 1;
                if self.random.below(100) < self.copied[side] {
                    let at = self.world.now
                        + Duration::from_micros(self.random.below(u64::try_from(self.delay_max.as_micros()).unwrap()));
                    let from = self.pretended(side);
                    let own = u8::try_from(2 + self.random.below(2) * 100).unwrap();
                    let local = IpAddr::from([192, 0, 2, own]);
                    self.copies.push(Copy { at, side: 1 - side, from, local, datagram });
                }
            }
        }
    }

    /// The address that a copy seems to come from.
    fn pretended(&mut self, side: usize) -> SocketAddr {
        let at = usize::try_from(self.random.below(self.addresses.len() as u64 + 1)).unwrap();
        match self.addresses.get(at) {
            // The client follows no address, so that copies of the server's datagrams come from there too.
            Some(tap) if side == 0 => *tap,
            Some(_) => address(1),
            None => [self.world.client_address, self.addresses[0]][side],
        }
    }

    /// Runs up to `limit`, and delivers the copies that are due.
    fn run_to(&mut self, limit: Instant, each: &mut dyn FnMut(&World)) {
        loop {
            self.look();
            let next = self.copies.iter().map(|copy| copy.at).min().filter(|&at| at <= limit);
            while self.world.step(next.unwrap_or(limit)) {
                each(&self.world);
                self.look();
            }
            let now = self.world.now;
            let (due, later) = self.copies.drain(..).partition(|copy| copy.at <= now);
            self.copies = later;
            let due: Vec<Copy> = due;
            if due.is_empty() && next.is_none() {
                return;
            }
            for Copy { side, from, local, datagram, .. } in due {
                self.world.deliver_on((from, local), side, &datagram);
                each(&self.world);
            }
        }
    }

    /// The server sends a message each 100 ms, and the client as well if `answers`. It may move, and may know that it does. Returns the longest delay of the
    /// server's messages.
    fn stream(&mut self, answers: bool, moves: Option<bool>) -> Duration {
        let begin = self.world.now;
        let (mut longest, mut received) = (Duration::ZERO, self.world.client_received.len());
        for number in 0..COUNT + 10 {
            self.run_to(begin + PERIOD * number, &mut |world| {
                for message in &world.client_received[received..] {
                    let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap());
                    longest = longest.max(world.now - (begin + PERIOD * number));
                }
                received = world.client_received.len();
            });
            if let Some(is_known) = moves.filter(|_| number == COUNT / 2) {
                self.addresses.push(self.world.client_address);
                self.world.client_address = "203.0.113.5:55".parse().unwrap();
                if is_known {
                    self.world.client.rebind(self.world.now, |_| Some(true));
                }
            }
            let message = || Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
            if number < COUNT {
                self.world.served[0].association.send(self.world.now, message()).unwrap();
                if answers {
                    self.world.client.send(self.world.now, message()).unwrap();
                }
            }
        }
        longest
    }
}

#[test]
fn an_observer_that_copies_delays_and_injects_but_drops_nothing_ends_and_silences_no_association() {
    for seed in 0..120 {
        let mut observer = Observer::new(seed);
        let (answers, moves) = (seed % 2 == 1, (seed % 4 == 3).then_some(seed % 8 == 7));
        let longest = observer.stream(answers, moves);
        let Observer { world, copied, delay_max, addresses, .. } = &observer;
        let scene = format!("seed {seed}: {copied:?} % copied, delayed by up to {delay_max:?}, from {addresses:?}");
        let closed = |events: &[Event]| events.iter().any(|event| matches!(event, Event::Closed(_)));
        assert!(!closed(&world.server_events) && !closed(&world.client_events), "{scene}");
        assert_eq!(world.client_received.len(), COUNT as usize, "{scene}: not every message has arrived once");
        // A client that moves shows its new address with its next message.
        let limit = if moves.is_some() { SILENCE_MAX + PERIOD } else { SILENCE_MAX };
        assert!(longest <= limit, "{scene}: a message took {longest:?}");
        assert!(
            world.server_events.iter().filter(|event| matches!(event, Event::PeerMoved { .. })).count() <= 8,
            "{scene}"
        );
    }
}

#[test]
fn an_observer_of_the_handshake_keeps_no_client_out_and_silences_none_whose_port_changes_or_does_not() {
    for seed in 0..120 {
        let mut observer = Observer::of(Observer::world(seed), seed);
        let (answers, rebound) = (seed % 2 == 1, observer.random.below(6));
        let world = &mut observer.world;
        world.middlebox.faults = vec![(0, usize::try_from(rebound).unwrap(), Fault::Rebound)];
        if seed % 3 == 0 {
            world.send(b"hello");
        }
        let begin = world.now;
        let mut up_at = None;
        observer.run_to(begin + CONNECT_MAX, &mut |world| {
            if world.core().state() == AssociationState::Established {
                up_at.get_or_insert(world.now);
            }
        });
        let Observer { world, copied, delay_max, addresses, .. } = &mut observer;
        let scene = format!(
            "seed {seed}: {copied:?} % copied, delayed by up to {delay_max:?}, from {addresses:?}, new port at {rebound}"
        );
        assert!(up_at.is_some(), "{scene}: not connected");
        // Copies of the hello may have begun further handshakes.
        let at = world.served.iter().position(|served| served.association.is_established()).unwrap();
        world.served.swap(0, at);
        let longest = observer.stream(answers, None);
        let world = &observer.world;
        let closed = |events: &[Event]| events.iter().any(|event| matches!(event, Event::Closed(_)));
        assert!(!closed(&world.server_events) && !closed(&world.client_events), "{scene}");
        assert_eq!(world.client_received.len(), COUNT as usize, "{scene}: not every message has arrived once");
        assert!(longest <= SILENCE_MAX + PERIOD, "{scene}: a message took {longest:?}");
    }
}

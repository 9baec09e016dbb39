//! What a reliable message of 64 bytes costs both ends together, from `send` to the last acknowledgement.
//!
//! `cargo run --release -p festina-sctp --example message_cost` prints nanoseconds per message where 1, 20 and 200 leave at a time. With a
//! number as its argument it takes that case only, and `valgrind --tool=callgrind --toggle-collect='*exchange*'` counts its instructions.
#![expect(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

const PORTS: Ports = Ports { local: 5_001, peer: 5_000 };
const PAYLOAD: &[u8] = &[7; 64];
const MESSAGES: u32 = 20_000;
/// One way.
const DELAY: Duration = Duration::from_millis(10);
/// Between two bursts.
const PAUSE: Duration = Duration::from_millis(20);
/// The maximum that RFC 9260 §6.2 allows.
const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// Two associations with one another.
struct Pair {
    now: Instant,
    ends: [Association; 2],
    addresses: [SocketAddr; 2],
}

impl Pair {
    fn new() -> Self {
        let mut config = Config::default();
        config.timers.heartbeat_interval = None;
        let context = |secret| Context::new(config.clone(), [secret; 16]).unwrap();
        let addresses = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 9_899)));
        let now = Instant::from_secs(1);
        let mut listener = Listener::new(&context(1));
        listener.listen(PORTS.peer);
        let mut client = Association::connect(now, &context(2), addresses[1], PORTS, 7);
        let mut packet = Vec::new();
        client.poll_transmit(now, &mut packet).unwrap();
        let server = loop {
            let mut reply = Vec::new();
            match listener.handle_packet(now, addresses[0], &packet.into(), &|_| false, &mut reply) {
                Incoming::Accepted(server) => break *server,
                Incoming::Reply => {
                    client.handle_packet(now, addresses[1], EcnCodepoint::NotCapable, &reply.into()).unwrap();
                    packet = Vec::new();
                    client.poll_transmit(now, &mut packet).unwrap();
                }
                other => panic!("{other:?}"),
            }
        };
        let mut pair = Self { now, ends: [client, server], addresses };
        while pair.pass(1) + pair.pass(0) > 0 {}
        pair
    }

    /// Takes what `from` has to send to the other end, and all that this has to tell; the number of packets.
    fn pass(&mut self, from: usize) -> usize {
        let mut packets = Vec::new();
        loop {
            let mut packet = Vec::with_capacity(1_500);
            if self.ends[from].poll_transmit(self.now, &mut packet).is_none() {
                break;
            }
            packets.push(Bytes::from(packet));
        }
        for packet in &packets {
            let end = &mut self.ends[1 - from];
            end.handle_packet(self.now, self.addresses[from], EcnCodepoint::NotCapable, packet).unwrap();
            while end.poll_event().is_some() {}
            while end.poll_message().is_some() {}
        }
        packets.len()
    }

    /// Lets timers come.
    fn wait(&mut self, time: Duration) {
        self.now += time;
        for end in &mut self.ends {
            if end.poll_deadline().is_some_and(|deadline| deadline <= self.now) {
                end.handle_timeout(self.now);
            }
        }
    }
}

#[inline(never)]
fn exchange(pair: &mut Pair, burst: u32) {
    for _ in 0..burst {
        pair.ends[0].send(pair.now, Message::new(PAYLOAD)).unwrap();
    }
    for _ in 0..50 {
        let there = pair.pass(0);
        pair.wait(DELAY);
        let back = pair.pass(1);
        pair.wait(DELAY);
        if there + back == 0 {
            return;
        }
    }
}

/// Nanoseconds per message.
fn measure(burst: u32) -> f64 {
    let mut pair = Pair::new();
    #[expect(clippy::disallowed_methods, reason = "an example may look at the clock")]
    let begun = std::time::Instant::now();
    for _ in 0..MESSAGES / burst {
        exchange(&mut pair, burst);
        pair.wait(PAUSE);
    }
    let spent = begun.elapsed();
    // The last SACK may be delayed.
    pair.wait(SACK_DELAY_MAX);
    pair.pass(1);
    assert_eq!(pair.ends[0].stats().sent.messages_acked, u64::from(MESSAGES / burst * burst));
    spent.as_secs_f64() * 1e9 / f64::from(MESSAGES)
}

fn main() {
    let argument: Option<u32> = std::env::args().nth(1).map(|argument| argument.parse().unwrap());
    for burst in [1, 20, 200].into_iter().filter(|burst| argument.is_none_or(|chosen| chosen == *burst)) {
        println!("{burst:>4} at a time: {:.0} ns a message", measure(burst));
    }
}

//! What an acknowledged chunk costs the sender, by how much is in flight.
//!
//! `cargo run --release -p festina-sctp --example ack_cost` prints nanoseconds per acknowledged chunk for flights of 10 to 10,000
//! packets, with and without a loss in every hundred. With two numbers as its arguments, a flight and 0 or 100, it takes that case
//! only, and `valgrind --tool=callgrind --toggle-collect='*take_in_sacks*'` counts its instructions.
#![expect(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::wire::{Chunk, CommonHeader, Packet, PacketBuilder, Tsn};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

const PORTS: Ports = Ports { local: 5_001, peer: 5_000 };
const FULL: &[u8] = &[7; 1_204];
const CHUNKS: u32 = 40_000;
/// Time between two SACKs.
const STEP: Duration = Duration::from_micros(100);

/// A sender, and a peer whose SACKs are made by hand.
struct Sender {
    now: Instant,
    association: Association,
    buffer: Vec<u8>,
    /// The TSN below the first that is outstanding.
    acked: u32,
}

impl Sender {
    fn new() -> Self {
        let mut config = Config::default();
        config.limits.receive_buffer_bytes = 1 << 30;
        config.limits.send_buffer_bytes = 1 << 30;
        config.limits.send_low_water_bytes = 0;
        config.limits.burst_packets_max = 1_000;
        let context = |secret| Context::new(config.clone(), [secret; 16]).unwrap();
        let (now, address) = (Instant::from_secs(1), SocketAddr::from(([192, 0, 2, 1], 9_899)));
        let mut listener = Listener::new(&context(1));
        listener.listen(PORTS.peer);
        let mut association = Association::connect(now, &context(2), address, PORTS, 7);
        let mut server = None;
        while let Some(packet) = next_packet(&mut association, now) {
            let mut reply = Vec::new();
            match listener.handle_packet(now, address, &packet, &|_| false, &mut reply) {
                Incoming::Accepted(mut accepted) => {
                    while accepted.poll_transmit(now, &mut reply).is_some() {}
                    server = Some(accepted);
                }
                Incoming::Reply => {}
                other => panic!("{other:?}"),
            }
            association.handle_packet(now, address, EcnCodepoint::NotCapable, &reply.into()).unwrap();
        }
        assert!(server.is_some(), "the handshake is complete");
        let mut sender = Self { now, association, buffer: Vec::new(), acked: 0 };
        sender.send(2);
        sender.acked = sender.association_first_tsn();
        sender.let_leave();
        sender
    }

    fn send(&mut self, messages: u32) {
        (0..messages).for_each(|_| {
            self.association.send(self.now, Message::new(FULL)).unwrap();
        });
    }

    /// The TSN below the first, read from the first packet.
    fn association_first_tsn(&mut self) -> u32 {
        let packet = next_packet(&mut self.association, self.now).unwrap();
        let packet = Packet::parse(&packet).unwrap();
        let tsns = packet.chunks().filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some(data.tsn.0),
            _ => None,
        });
        tsns.min().unwrap().wrapping_sub(1)
    }

    fn let_leave(&mut self) {
        while next_packet(&mut self.association, self.now).is_some() {}
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.association.stats().path.in_flight_bytes / 1_220).unwrap()
    }

    fn sack(&mut self, cumulative: u32, blocks: &[(u16, u16)]) -> Bytes {
        self.buffer.clear();
        let header = CommonHeader {
            source_port: PORTS.peer,
            destination_port: PORTS.local,
            verification_tag: self.association.local_tag(),
        };
        let mut packet = PacketBuilder::new(&mut self.buffer, header, 1_400);
        assert!(packet.sack(Tsn(cumulative), 1 << 29, blocks.iter().copied(), std::iter::empty()));
        packet.finish();
        Bytes::copy_from_slice(&self.buffer)
    }

    /// Acknowledges packet by packet, until that many are in flight.
    fn grow(&mut self, flight: u32) {
        while self.in_flight() < flight {
            self.send(2);
            self.acked = self.acked.wrapping_add(1);
            let sack = self.sack(self.acked, &[]);
            self.now += STEP;
            self.take_in(&[sack]);
            self.let_leave();
        }
    }

    fn take_in(&mut self, sacks: &[Bytes]) {
        for sack in sacks {
            let remote = self.association.remote();
            self.now += STEP;
            self.association.handle_packet(self.now, remote, EcnCodepoint::NotCapable, sack).unwrap();
            while self.association.poll_event().is_some() {}
        }
    }

    /// The SACKs for one flight, one for every other packet; every hundredth packet of all is missing.
    fn sacks(&mut self, flight: u32, lost_every: Option<u32>, packets_before: u32) -> Vec<Bytes> {
        let first = self.acked;
        let is_lost = |offset: u32| lost_every.is_some_and(|every| (packets_before + offset) % every == 5);
        let mut blocks: Vec<(u16, u16)> = Vec::new();
        let mut cumulative = 0;
        let mut sacks = Vec::new();
        for offset in 1..=flight {
            if !is_lost(offset) {
                if cumulative + 1 == offset {
                    cumulative = offset;
                } else {
                    let offset = u16::try_from(offset - cumulative).unwrap();
                    match blocks.last_mut() {
                        Some(last) if last.1 + 1 == offset => last.1 = offset,
                        _ => blocks.push((offset, offset)),
                    }
                }
            }
            if offset % 2 == 0 {
                sacks.push(self.sack(first.wrapping_add(cumulative), &blocks));
            }
        }
        sacks
    }
}

fn next_packet(association: &mut Association, now: Instant) -> Option<Bytes> {
    let mut packet = Vec::new();
    association.poll_transmit(now, &mut packet)?;
    Some(packet.into())
}

#[inline(never)]
fn take_in_sacks(sender: &mut Sender, sacks: &[Bytes]) {
    sender.take_in(sacks);
}

/// Nanoseconds per acknowledged chunk. Every flight is the first one of a sender that has never lost anything.
fn measure(flight: u32, lost_every: Option<u32>) -> f64 {
    let (mut chunks, mut spent) = (0, Duration::ZERO);
    while chunks < CHUNKS {
        let mut sender = Sender::new();
        sender.grow(flight);
        let sacks = sender.sacks(flight, lost_every, chunks);
        #[expect(clippy::disallowed_methods, reason = "an example may look at the clock")]
        let begun = std::time::Instant::now();
        take_in_sacks(&mut sender, &sacks);
        spent += begun.elapsed();
        chunks += flight;
    }
    spent.as_secs_f64() * 1e9 / f64::from(chunks)
}

fn main() {
    let arguments: Vec<u32> = std::env::args().skip(1).map(|argument| argument.parse().unwrap()).collect();
    if let [flight, lost_every] = arguments[..] {
        println!("{:.1} ns", measure(flight, (lost_every > 0).then_some(lost_every)));
        return;
    }
    println!("{:>8} {:>16} {:>16}", "packets", "ns, no loss", "ns, 1 % loss");
    for flight in [10, 100, 1_000, 10_000] {
        println!("{flight:>8} {:>16.1} {:>16.1}", measure(flight, None), measure(flight, Some(100)));
    }
}

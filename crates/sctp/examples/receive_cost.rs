//! What a chunk that arrives costs the receiver.
//!
//! `cargo run --release -p festina-sctp --example receive_cost` prints nanoseconds per chunk for whole messages in order, for messages in
//! four fragments, and for pairs of packets that change places. With a number as its argument, 0 to 2, it takes that case only, and
//! `valgrind --tool=callgrind --toggle-collect='*take_in_packets*'` counts its instructions.
#![expect(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use festina_sctp::wire::{Chunk, CommonHeader, DataHeader, Packet, PacketBuilder, Ssn, StreamId, Tsn};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Ports};
use festina_units::{EcnCodepoint, Instant};

const PORTS: Ports = Ports { local: 5_000, peer: 5_001 };
const CHUNKS: u32 = 40_000;
const CASES: [&str; 3] = ["whole messages in order", "messages in four fragments", "pairs that change places"];

/// A receiver, and the TSN that its peer begins with.
fn receiver(now: Instant, address: SocketAddr) -> (Association, u32) {
    // All packets are received at one instant: with this setting one SACK answers up to 16 of them.
    let mut config = Config::default();
    config.sack.peer_batches = true;
    let context = |secret| Context::new(config.clone(), [secret; 16]).unwrap();
    let mut listener = Listener::new(&context(1));
    listener.listen(PORTS.local);
    let ports = Ports { local: PORTS.peer, peer: PORTS.local };
    let mut client = Association::connect(now, &context(2), address, ports, 7);
    let mut first_tsn = 0;
    loop {
        let mut packet = Vec::new();
        client.poll_transmit(now, &mut packet).unwrap();
        if let Some(Ok(Chunk::Init(init))) = Packet::parse(&packet).unwrap().chunks().next() {
            first_tsn = init.initial_tsn.0;
        }
        let mut reply = Vec::new();
        match listener.handle_packet(now, address, &packet.into(), &|_| false, &mut reply) {
            Incoming::Accepted(server) => return (*server, first_tsn),
            Incoming::Reply => client.handle_packet(now, address, EcnCodepoint::NotCapable, &reply.into()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

/// The packets of a case, each with one chunk of 100 bytes.
fn packets(case: usize, tag: u32, first_tsn: u32) -> Vec<Bytes> {
    let common = CommonHeader { source_port: PORTS.peer, destination_port: PORTS.local, verification_tag: tag };
    let fragments = if case == 1 { 4 } else { 1 };
    (0..CHUNKS)
        .map(|index| {
            let index = if case == 2 { index ^ 1 } else { index };
            let header = DataHeader {
                tsn: Tsn(first_tsn.wrapping_add(index)),
                stream: StreamId(0),
                ssn: Ssn(((index / fragments) & 0xffff) as u16),
                ppid: 0,
                unordered: false,
                beginning: index % fragments == 0,
                end: index % fragments == fragments - 1,
                immediate: false,
            };
            let mut bytes = Vec::new();
            let mut packet = PacketBuilder::new(&mut bytes, common, 1_232);
            assert!(packet.data(&header, &[7; 100]));
            packet.finish();
            bytes.into()
        })
        .collect()
}

#[inline(never)]
fn take_in_packets(association: &mut Association, now: Instant, address: SocketAddr, packets: &[Bytes]) -> u32 {
    let (mut buffer, mut messages) = (Vec::with_capacity(2_048), 0);
    for packet in packets {
        association.handle_packet(now, address, EcnCodepoint::NotCapable, packet).unwrap();
        while association.poll_message().is_some() {
            messages += 1;
        }
        while association.poll_event().is_some() {}
        buffer.clear();
        while association.poll_transmit(now, &mut buffer).is_some() {}
    }
    messages
}

fn time_of(case: usize) -> Duration {
    let (now, address) = (Instant::from_secs(1), SocketAddr::from(([192, 0, 2, 1], 9_899)));
    let (mut association, first_tsn) = receiver(now, address);
    let packets = packets(case, association.local_tag(), first_tsn);
    #[expect(clippy::disallowed_methods, reason = "an example measures the time that it takes")]
    let begun = std::time::Instant::now();
    let messages = take_in_packets(&mut association, now, address, &packets);
    let time = begun.elapsed();
    assert_eq!(messages, CHUNKS / if case == 1 { 4 } else { 1 });
    time
}

fn main() {
    if let Some(case) = std::env::args().nth(1) {
        time_of(case.parse().unwrap());
        return;
    }
    for (case, name) in CASES.iter().enumerate() {
        let best = (0..9).map(|_| time_of(case)).min().unwrap();
        println!("{:5.0} ns per chunk, {name}", best.as_nanos() as f64 / f64::from(CHUNKS));
    }
}

//! An association under attack, with a peer that sends arbitrary packets.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_sctp::wire::{Chunk, CommonHeader, Packet, checksum};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::LIVE_BYTES;

const PORTS: Ports = Ports { local: 5_000, peer: 5_001 };
/// Beyond two receive buffers.
const ALLOWANCE_BYTES: usize = 64 << 10;

/// End, beginning and unordered bits of a DATA chunk.
pub(crate) const E: u8 = 1;
pub(crate) const B: u8 = 2;
pub(crate) const U: u8 = 4;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9_899))
}

/// A DATA chunk; its TSN counts from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) tsn: u32,
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
    pub(crate) bits: u8,
    pub(crate) len: usize,
}

/// An I-DATA chunk; its TSN counts from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IPiece {
    pub(crate) tsn: u32,
    pub(crate) stream: u16,
    pub(crate) mid: u32,
    pub(crate) fsn: u32,
    pub(crate) bits: u8,
    pub(crate) len: usize,
}

/// A whole ordered message of one byte.
pub(crate) fn byte(tsn: u32, stream: u16, ssn: u32) -> Piece {
    Piece { tsn, stream, ssn: (ssn & 0xffff) as u16, bits: B | E, len: 1 }
}

pub(crate) fn fragment(tsn: u32, bits: u8, len: usize) -> Piece {
    Piece { tsn, stream: 0, ssn: 0, bits, len }
}

/// An association under attack.
pub(crate) struct Victim {
    pub(crate) now: Instant,
    pub(crate) context: Arc<Context>,
    pub(crate) peer: Arc<Context>,
    pub(crate) nonce: u64,
    pub(crate) association: Association,
    pub(crate) first_tsn: u32,
    /// The cumulative TSN of the last SACK, counted from 0; -1 before the first.
    pub(crate) cumulative: i64,
    pub(crate) a_rwnd: usize,
    pub(crate) reads: bool,
    pub(crate) messages: usize,
    pub(crate) sack_bytes: usize,
    pub(crate) scratch: Vec<u8>,
    pub(crate) answers: Vec<u8>,
    pub(crate) memory: Memory,
}

/// The held memory, as allocated.
pub(crate) struct Memory {
    /// Before the attack.
    pub(crate) base_bytes: usize,
    pub(crate) peak_bytes: usize,
    pub(crate) bytes_max: usize,
}

impl Victim {
    pub(crate) fn new(buffer_bytes: usize, reads: bool) -> Self {
        Self::with(buffer_bytes, reads, false)
    }

    /// One that has agreed on interleaving with its peer.
    pub(crate) fn interleaved(buffer_bytes: usize, reads: bool) -> Self {
        Self::with(buffer_bytes, reads, true)
    }

    fn with(buffer_bytes: usize, reads: bool, interleaving: bool) -> Self {
        let mut config = Config { interleaving, ..Config::default() };
        config.limits.receive_buffer_bytes = buffer_bytes;
        config.limits.message_bytes_max = buffer_bytes;
        config.timers.heartbeat_interval = None;
        let context = Context::new(config, [1; 16]).expect("the settings are in range");
        let peer =
            Context::new(Config { interleaving, ..Config::default() }, [2; 16]).expect("the settings are in range");
        let now = Instant::from_secs(1);
        let (association, first_tsn) = accept(now, &context, &peer);
        let mut victim = Self {
            now,
            context,
            peer,
            nonce: 0,
            association,
            first_tsn,
            cumulative: -1,
            a_rwnd: buffer_bytes,
            reads,
            messages: 0,
            sack_bytes: 0,
            scratch: Vec::with_capacity(70_000),
            answers: Vec::with_capacity(4_096),
            memory: Memory { base_bytes: 0, peak_bytes: 0, bytes_max: 2 * buffer_bytes + ALLOWANCE_BYTES },
        };
        victim.drain();
        victim.memory.base_bytes = LIVE_BYTES.get();
        victim
    }

    /// One packet with these chunks, filled up to `packet_bytes` with a chunk of a type that is to be passed over.
    pub(crate) fn give(&mut self, pieces: &[Piece], packet_bytes: usize) {
        let scratch = &mut self.scratch;
        scratch.clear();
        scratch.resize(12, 0);
        for piece in pieces {
            scratch.extend([0, piece.bits]);
            scratch.extend(u16::try_from(16 + piece.len).expect("a chunk has 16 bits of length").to_be_bytes());
            scratch.extend(self.first_tsn.wrapping_add(piece.tsn).to_be_bytes());
            scratch.extend(piece.stream.to_be_bytes());
            scratch.extend(piece.ssn.to_be_bytes());
            scratch.extend([0; 4]);
            scratch.resize((scratch.len() + piece.len).next_multiple_of(4), 7);
        }
        self.fill_and_send(packet_bytes);
    }

    /// Fills the packet up with a chunk of a type that is to be passed over, and gives it to the association.
    fn fill_and_send(&mut self, packet_bytes: usize) {
        let scratch = &mut self.scratch;
        if scratch.len() + 4 <= packet_bytes {
            let junk = u16::try_from(packet_bytes - scratch.len()).expect("a chunk has 16 bits of length");
            scratch.extend([0xbf, 0]);
            scratch.extend(junk.to_be_bytes());
            scratch.resize(packet_bytes.next_multiple_of(4), 0);
        }
        seal(scratch, self.association.local_tag());
        let packet = Bytes::copy_from_slice(scratch);
        let _dropped = self.association.handle_packet(self.now, address(2), EcnCodepoint::NotCapable, &packet);
        drop(packet);
        // That was all at this instant.
        if self.association.poll_deadline().is_some_and(|at| at <= self.now) {
            self.association.handle_timeout(self.now);
        }
        self.settle();
    }

    /// One packet with these I-DATA chunks, filled up as [`give`](Self::give) does.
    pub(crate) fn give_interleaved(&mut self, pieces: &[IPiece], packet_bytes: usize) {
        let first_tsn = self.first_tsn;
        self.scratch.clear();
        self.scratch.resize(12, 0);
        for piece in pieces {
            let length = u16::try_from(20 + piece.len).expect("a chunk has 16 bits of length");
            let scratch = &mut self.scratch;
            scratch.extend([0x40, piece.bits]);
            scratch.extend(length.to_be_bytes());
            scratch.extend(first_tsn.wrapping_add(piece.tsn).to_be_bytes());
            scratch.extend(piece.stream.to_be_bytes());
            scratch.extend([0; 2]);
            scratch.extend(piece.mid.to_be_bytes());
            scratch.extend(if piece.bits & B == 0 { piece.fsn } else { 0 }.to_be_bytes());
            scratch.resize((scratch.len() + piece.len).next_multiple_of(4), 7);
        }
        self.fill_and_send(packet_bytes);
    }

    /// A FORWARD-TSN with a stream and an SSN per entry.
    pub(crate) fn forward(&mut self, new_cumulative: u32, streams: impl Iterator<Item = (u16, u16)>) {
        let entries: Vec<u8> =
            streams.flat_map(|(stream, ssn)| [stream.to_be_bytes(), ssn.to_be_bytes()].concat()).collect();
        self.give_forward(0xc0, new_cumulative, &entries);
    }

    /// An I-FORWARD-TSN with a stream, a U bit and a MID per entry.
    pub(crate) fn forward_interleaved(&mut self, new_cumulative: u32, streams: impl Iterator<Item = (u16, u16, u32)>) {
        let entry = |(stream, unordered, mid): (u16, u16, u32)| {
            [&stream.to_be_bytes()[..], &unordered.to_be_bytes(), &mid.to_be_bytes()].concat()
        };
        let entries: Vec<u8> = streams.flat_map(entry).collect();
        self.give_forward(0xc2, new_cumulative, &entries);
    }

    fn give_forward(&mut self, chunk_type: u8, new_cumulative: u32, entries: &[u8]) {
        let length = u16::try_from(8 + entries.len()).expect("a chunk has 16 bits of length");
        self.scratch.clear();
        self.scratch.resize(12, 0);
        self.scratch.extend([chunk_type, 0]);
        self.scratch.extend(length.to_be_bytes());
        self.scratch.extend(self.first_tsn.wrapping_add(new_cumulative).to_be_bytes());
        self.scratch.extend(entries);
        self.fill_and_send(0);
    }

    /// Drains the network and reads messages, as after every packet; then measures memory.
    pub(crate) fn settle(&mut self) {
        self.drain();
        if self.reads {
            self.read();
        }
        let held_bytes = LIVE_BYTES.get().saturating_sub(self.memory.base_bytes);
        self.memory.peak_bytes = self.memory.peak_bytes.max(held_bytes);
        assert!(
            held_bytes <= self.memory.bytes_max,
            "{held_bytes} bytes are held, and {} are allowed",
            self.memory.bytes_max
        );
    }

    pub(crate) fn read(&mut self) {
        while self.association.poll_message().is_some() {
            self.messages += 1;
        }
        self.drain();
    }

    fn drain(&mut self) {
        while self.association.poll_event().is_some() {}
        loop {
            self.answers.clear();
            if self.association.poll_transmit(self.now, &mut self.answers).is_none() {
                return;
            }
            let packet = Packet::parse(&self.answers).expect("the core writes packets that can be read");
            for chunk in packet.chunks() {
                let sack = match chunk {
                    Ok(Chunk::Sack(sack)) => Some((sack.cumulative_tsn, sack.a_rwnd)),
                    Ok(Chunk::NrSack(sack)) => Some((sack.cumulative_tsn, sack.a_rwnd)),
                    _ => None,
                };
                if let Some((cumulative_tsn, a_rwnd)) = sack {
                    let offset = cumulative_tsn.0.wrapping_sub(self.first_tsn);
                    self.cumulative = i64::from(offset.cast_signed());
                    self.a_rwnd = usize::try_from(a_rwnd).expect("usize has 32 bits at least");
                    self.sack_bytes += self.answers.len();
                }
            }
        }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.association.handle_timeout(self.now);
        self.settle();
    }

    /// The peer comes back with another tag and other TSNs (RFC 9260 §5.2.4.1).
    pub(crate) fn restart(&mut self) {
        self.nonce += 1;
        let ports = Ports { local: PORTS.peer, peer: PORTS.local };
        let mut client = Association::connect(self.now, &self.peer, address(1), ports, self.nonce);
        self.first_tsn = carry(self.now, &mut client, &mut self.association);
        self.cumulative = -1;
        drop(client);
        self.settle();
    }

    /// The peer behaves from now on: its next packets arrive.
    pub(crate) fn behave(&mut self, pieces: &[Piece]) {
        self.reads = true;
        self.read();
        self.wait(Duration::from_millis(500));
        let before = self.messages;
        for piece in pieces {
            let tsn = u32::try_from(self.cumulative + 1).expect("TSNs count from 0");
            self.give(&[Piece { tsn, ..*piece }], 0);
            self.wait(Duration::from_millis(500));
            assert_eq!(self.cumulative, i64::from(tsn).max(self.cumulative), "{piece:?} is refused");
        }
        assert!(self.messages > before, "nothing was delivered");
    }

    pub(crate) fn done(self, name: &str) {
        println!("{name}: {} of {} bytes", self.memory.peak_bytes, self.memory.bytes_max);
        assert!(self.memory.peak_bytes > 0);
    }
}

/// Fills in header and checksum.
fn seal(packet: &mut [u8], tag: u32) {
    let header = CommonHeader { source_port: PORTS.peer, destination_port: PORTS.local, verification_tag: tag };
    packet[..2].copy_from_slice(&header.source_port.to_be_bytes());
    packet[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    packet[4..8].copy_from_slice(&header.verification_tag.to_be_bytes());
    let (head, chunks) = packet.split_first_chunk().expect("a packet has a header");
    let sum = checksum::packet_checksum(head, chunks);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// A new association, and the first TSN of its peer.
pub(crate) fn accept(now: Instant, context: &Arc<Context>, peer: &Arc<Context>) -> (Association, u32) {
    let mut listener = Listener::new(context);
    listener.listen(PORTS.local);
    let ports = Ports { local: PORTS.peer, peer: PORTS.local };
    let mut client = Association::connect(now, peer, address(1), ports, 0);
    let mut first_tsn = 0;
    loop {
        let mut packet = Vec::new();
        client.poll_transmit(now, &mut packet).expect("the handshake continues");
        first_tsn = initial_tsn(&packet).unwrap_or(first_tsn);
        let mut reply = Vec::new();
        match listener.handle_packet(now, address(2), &packet.into(), &|_| false, &mut reply) {
            Incoming::Accepted(server) => return (*server, first_tsn),
            Incoming::Reply => client
                .handle_packet(now, address(1), EcnCodepoint::NotCapable, &reply.into())
                .expect("INIT ACK is welcome"),
            other => panic!("{other:?}"),
        }
    }
}

/// Carries packets to and fro until both have nothing to say; returns the initial TSN of the client.
fn carry(now: Instant, client: &mut Association, server: &mut Association) -> u32 {
    let mut first_tsn = 0;
    loop {
        let mut packet = Vec::new();
        if client.poll_transmit(now, &mut packet).is_none() {
            return first_tsn;
        }
        first_tsn = initial_tsn(&packet).unwrap_or(first_tsn);
        server
            .handle_packet(now, address(2), EcnCodepoint::NotCapable, &packet.into())
            .expect("the handshake is in order");
        while server.poll_event().is_some() {}
        let mut reply = Vec::new();
        while server.poll_transmit(now, &mut reply).is_some() {
            let _not_expected =
                client.handle_packet(now, address(1), EcnCodepoint::NotCapable, &std::mem::take(&mut reply).into());
        }
    }
}

fn initial_tsn(packet: &[u8]) -> Option<u32> {
    match Packet::parse(packet).ok()?.chunks().next()?.ok()? {
        Chunk::Init(init) => Some(init.initial_tsn.0),
        _ => None,
    }
}

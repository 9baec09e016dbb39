//! Holds the memory that a peer can make an association hold, whatever it sends: twice the receive buffer and 64 KiB, as
//! allocated. A test program of its own, since it brings its own global allocator.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_sctp::wire::{Chunk, CommonHeader, Packet, checksum};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Ports};
use festina_units::{Duration, Instant};

/// The system's allocator, counting the bytes that each thread holds.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // A thread that is going away counts no more.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get().wrapping_add(more).wrapping_sub(less)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PORTS: Ports = Ports { local: 5_000, peer: 5_001 };
const BUFFERS: [usize; 2] = [64 << 10, 1 << 20];
/// Beyond two receive buffers.
const ALLOWANCE_BYTES: usize = 64 << 10;
const LARGE_PACKET_BYTES: usize = 65_000;

/// End, beginning and unordered bits of a DATA chunk.
const E: u8 = 1;
const B: u8 = 2;
const U: u8 = 4;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9_899))
}

/// A DATA chunk; its TSN counts from 0.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tsn: u32,
    stream: u16,
    ssn: u16,
    bits: u8,
    len: usize,
}

/// A whole ordered message of one byte.
fn byte(tsn: u32, stream: u16, ssn: u32) -> Piece {
    Piece { tsn, stream, ssn: (ssn & 0xffff) as u16, bits: B | E, len: 1 }
}

fn fragment(tsn: u32, bits: u8, len: usize) -> Piece {
    Piece { tsn, stream: 0, ssn: 0, bits, len }
}

/// An association under attack.
struct Victim {
    now: Instant,
    context: Arc<Context>,
    peer: Arc<Context>,
    nonce: u64,
    association: Association,
    first_tsn: u32,
    /// The cumulative TSN of the last SACK, counted from 0; -1 before the first.
    cumulative: i64,
    a_rwnd: usize,
    reads: bool,
    messages: usize,
    sack_bytes: usize,
    scratch: Vec<u8>,
    answers: Vec<u8>,
    base_bytes: usize,
    peak_bytes: usize,
    bytes_max: usize,
}

impl Victim {
    fn new(buffer_bytes: usize, reads: bool) -> Self {
        let mut config = Config::default();
        config.limits.receive_buffer_bytes = buffer_bytes;
        config.limits.message_bytes_max = buffer_bytes;
        config.timers.heartbeat_interval = None;
        let context = Context::new(config, [1; 16]).expect("the settings are in range");
        let peer = Context::new(Config::default(), [2; 16]).expect("the settings are in range");
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
            base_bytes: 0,
            peak_bytes: 0,
            bytes_max: 2 * buffer_bytes + ALLOWANCE_BYTES,
        };
        victim.drain();
        victim.base_bytes = LIVE_BYTES.get();
        victim
    }

    /// One packet with these chunks, filled up to `packet_bytes` with a chunk of a type that is to be passed over.
    fn give(&mut self, pieces: &[Piece], packet_bytes: usize) {
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
        if scratch.len() + 4 <= packet_bytes {
            let junk = u16::try_from(packet_bytes - scratch.len()).expect("a chunk has 16 bits of length");
            scratch.extend([0xbf, 0]);
            scratch.extend(junk.to_be_bytes());
            scratch.resize(packet_bytes.next_multiple_of(4), 0);
        }
        seal(scratch, self.association.local_tag());
        let packet = Bytes::copy_from_slice(scratch);
        let _dropped = self.association.handle_packet(self.now, address(2), &packet);
        drop(packet);
        self.settle();
    }

    /// What follows on every packet; then memory is measured.
    fn settle(&mut self) {
        self.drain();
        if self.reads {
            self.read();
        }
        let held_bytes = LIVE_BYTES.get().saturating_sub(self.base_bytes);
        self.peak_bytes = self.peak_bytes.max(held_bytes);
        assert!(held_bytes <= self.bytes_max, "{held_bytes} bytes are held, and {} are allowed", self.bytes_max);
    }

    fn read(&mut self) {
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
                if let Ok(Chunk::Sack(sack)) = chunk {
                    let offset = sack.cumulative_tsn.0.wrapping_sub(self.first_tsn);
                    self.cumulative = i64::from(offset.cast_signed());
                    self.a_rwnd = usize::try_from(sack.a_rwnd).expect("usize has 32 bits at least");
                    self.sack_bytes += self.answers.len();
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.association.handle_timeout(self.now);
        self.settle();
    }

    /// The peer comes back with another tag and other TSNs (RFC 9260 §5.2.4.1).
    fn restart(&mut self) {
        self.nonce += 1;
        let ports = Ports { local: PORTS.peer, peer: PORTS.local };
        let mut client = Association::connect(self.now, &self.peer, address(1), ports, self.nonce);
        self.first_tsn = carry(self.now, &mut client, &mut self.association);
        self.cumulative = -1;
        drop(client);
        self.settle();
    }

    /// The peer behaves from now on: what it sends next arrives.
    fn behave(&mut self, pieces: &[Piece]) {
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

    fn done(self, name: &str) {
        println!("{name}: {} of {} bytes", self.peak_bytes, self.bytes_max);
        assert!(self.peak_bytes > 0);
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
fn accept(now: Instant, context: &Arc<Context>, peer: &Arc<Context>) -> (Association, u32) {
    let mut listener = Listener::new(context);
    listener.listen(PORTS.local);
    let ports = Ports { local: PORTS.peer, peer: PORTS.local };
    let mut client = Association::connect(now, peer, address(1), ports, 0);
    let mut first_tsn = 0;
    loop {
        let mut packet = Vec::new();
        client.poll_transmit(now, &mut packet).expect("the handshake goes on");
        first_tsn = initial_tsn(&packet).unwrap_or(first_tsn);
        let mut reply = Vec::new();
        match listener.handle_packet(now, address(2), &packet.into(), &|_| false, &mut reply) {
            Incoming::Accepted(server) => return (*server, first_tsn),
            Incoming::Reply => client.handle_packet(now, address(1), &reply.into()).expect("INIT ACK is welcome"),
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
        server.handle_packet(now, address(2), &packet.into()).expect("the handshake is in order");
        while server.poll_event().is_some() {}
        let mut reply = Vec::new();
        while server.poll_transmit(now, &mut reply).is_some() {
            let _not_expected = client.handle_packet(now, address(1), &std::mem::take(&mut reply).into());
        }
    }
}

fn initial_tsn(packet: &[u8]) -> Option<u32> {
    match Packet::parse(packet).ok()?.chunks().next()?.ok()? {
        Chunk::Init(init) => Some(init.initial_tsn.0),
        _ => None,
    }
}

#[test]
fn messages_whose_turn_never_comes_keep_no_large_packets_alive_though_everything_is_read() {
    for buffer_bytes in BUFFERS {
        let mut victim = Victim::new(buffer_bytes, true);
        for tsn in 0..3_000 {
            victim.give(&[byte(tsn, 0, tsn + 1)], LARGE_PACKET_BYTES);
        }
        victim.behave(&[byte(0, 0, 0), byte(0, 1, 0)]);
        victim.done("SSNs that never become due");
    }
}

#[test]
fn what_fills_a_gap_but_cannot_be_fetched_is_not_taken_for_ever() {
    for buffer_bytes in BUFFERS {
        let mut victim = Victim::new(buffer_bytes, true);
        victim.give(&[byte(32_000, 9, 1)], 0);
        for tsn in 0..30_000 {
            victim.give(&[Piece { len: 1_000, ..byte(tsn, 0, tsn + 1) }], 0);
        }
        victim.behave(&[byte(0, 0, 0), byte(0, 1, 0)]);
        victim.done("SSNs that never become due, behind a gap");
    }
}

#[test]
fn what_is_not_fetched_goes_on_to_count_when_the_peer_restarts() {
    for buffer_bytes in BUFFERS {
        for packet_bytes in [LARGE_PACKET_BYTES, 2_000, 0] {
            let mut victim = Victim::new(buffer_bytes, false);
            for _ in 0..100 {
                victim.restart();
                for tsn in 0..60 {
                    victim.give(&[byte(2 * tsn, 0, 2 * tsn), byte(2 * tsn + 1, 0, 2 * tsn + 1)], packet_bytes);
                }
            }
            victim.restart();
            victim.behave(&[byte(0, 0, 0)]);
            victim.done("restarts of the peer");
        }
    }
}

#[test]
fn a_message_that_never_ends_costs_about_its_bytes_however_small_its_fragments_are() {
    for buffer_bytes in BUFFERS {
        for (len, packet_bytes) in [(1, 0), (4, 1_200), (32, 0), (600, 1_200), (600, 2_000), (600, 65_000), (1_200, 0)]
        {
            let mut victim = Victim::new(buffer_bytes, true);
            let fragments = u32::try_from((buffer_bytes / len).min(60_000)).expect("few") - 1;
            for tsn in 0..fragments {
                victim.give(&[fragment(tsn, if tsn == 0 { B } else { 0 }, len)], packet_bytes);
            }
            victim.wait(Duration::from_millis(200));
            assert_eq!(victim.cumulative, i64::from(fragments) - 1, "a message below the limit is taken");
            victim.behave(&[fragment(0, E, len), byte(0, 1, 0)]);
            victim.done("a message that never ends");
        }
    }
}

#[test]
fn fragments_in_descending_order_cost_what_is_counted() {
    for buffer_bytes in BUFFERS {
        for len in [1, 500, 1_000] {
            let mut victim = Victim::new(buffer_bytes, true);
            for tsn in (1..32_000).rev() {
                victim.give(&[fragment(tsn, 0, len)], 0);
            }
            victim.done("descending fragments");
        }
    }
}

#[test]
fn no_choice_of_streams_costs_more_than_the_bound() {
    for buffer_bytes in BUFFERS {
        for step in [16_u16, 9, 8, 1] {
            for descending in [false, true] {
                let mut victim = Victim::new(buffer_bytes, true);
                let streams = if buffer_bytes < 448 << 10 { 16_000 } else { u16::MAX };
                for (tsn, stream) in (0..).zip((0..streams).step_by(step.into())) {
                    victim.give(&[byte(tsn, if descending { streams - stream - 1 } else { stream }, 0)], 0);
                }
                assert!(victim.a_rwnd >= buffer_bytes / 2, "most of the buffer stays free");
                victim.behave(&[byte(0, 7, 5), Piece { bits: B | E | U, ..byte(0, 0, 0) }]);
                // And the buffer full besides.
                victim.reads = false;
                let first = u32::try_from(victim.cumulative + 1).expect("TSNs count from 0");
                for tsn in first..first + 20_000 {
                    victim.give(&[Piece { bits: B | E | U, len: 100, ..byte(tsn, 0, 0) }], 0);
                }
                victim.done("streams");
            }
        }
    }
}

#[test]
fn bundles_of_tiny_messages_that_nobody_fetches_stay_within_the_bound() {
    for buffer_bytes in BUFFERS {
        for per_packet in [1, 60] {
            let mut victim = Victim::new(buffer_bytes, false);
            for packet in 0..60_000 / per_packet {
                let first = packet * per_packet;
                let pieces: Vec<Piece> = (first..first + per_packet).map(|tsn| byte(tsn, 0, tsn)).collect();
                victim.give(&pieces, 1_200);
            }
            victim.behave(&[Piece { bits: B | E | U, ..byte(0, 0, 0) }]);
            victim.done("bundles of tiny messages");
        }
    }
}

#[test]
fn a_queue_that_is_read_slowly_holds_no_more_than_it_counts() {
    for buffer_bytes in BUFFERS {
        let mut victim = Victim::new(buffer_bytes, false);
        for fetched in [0, 0, 10, 390, 500, 0, 0, 3_000, 90].repeat(6) {
            for _ in 0..100 {
                let first = u32::try_from(victim.cumulative + 1).expect("TSNs count from 0");
                let pieces = [0, 1, 2, 3].map(|count| byte(first + count, 0, first + count));
                victim.give(&pieces, 500);
                victim.wait(Duration::from_millis(200));
            }
            for _ in 0..fetched {
                victim.association.poll_message();
                victim.settle();
            }
        }
        victim.done("a slow reader");
    }
}

#[test]
fn many_gaps_stay_within_the_bound() {
    for buffer_bytes in BUFFERS {
        for (bits, len, packet_bytes) in [(0, 1, 0), (B | E, 1, 2_000), (B | E, 20, 40_000), (0, 700, 1_400), (B, 1, 0)]
        {
            let mut victim = Victim::new(buffer_bytes, true);
            for round in 0..4 {
                for tsn in (2 + 3 * round..32_000).step_by(13) {
                    let tsn = if round == 2 { 32_000 - tsn } else { tsn };
                    victim.give(&[Piece { bits, len, ..byte(tsn, 3, tsn) }], packet_bytes);
                }
            }
            victim.behave(&[byte(0, 0, 0)]);
            victim.done("gaps");
        }
    }
}

/// xorshift64*: the same seed gives the same packets.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((bits * u64::from(end)) >> 32).expect("below a u32")
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).expect("few")) as usize]
    }
}

/// A chunk that may break the protocol, and end the association by that.
fn any_piece(random: &mut Random, cumulative: u32) -> Piece {
    let reach = random.pick(&[1, 3, 40, 3_000, 33_000]);
    let ssns = random.pick(&[1, 2, 6, 400, 30_000]);
    Piece {
        tsn: cumulative.wrapping_add(1 + random.below(reach)),
        stream: u16::try_from(random.pick(&[1, 50, 16_000])).expect("small"),
        ssn: u16::try_from(random.below(ssns)).expect("small"),
        bits: random.pick(&[B | E, B | E, B | E | U, B, 0, E, U]),
        len: random.pick(&[1, 1, 7, 64, 300, 511, 512, 1_200, 9_000]),
    }
}

/// A chunk that breaks no rule: whole messages that may wait for ever, and above them fragments without beginning and end.
fn allowed_piece(random: &mut Random, cumulative: u32) -> Piece {
    let reach = random.pick(&[2, 40, 3_000, 15_000]);
    let len = random.pick(&[1, 1, 7, 64, 300, 511, 512, 600, 1_200, 9_000]);
    let tsn = cumulative.wrapping_add(1 + random.below(reach));
    if tsn < 12_000 {
        let bits = random.pick(&[B | E, B | E, B | E, B | E | U]);
        Piece { bits, len, ..byte(tsn, u16::try_from(random.below(3)).expect("small"), tsn + 1) }
    } else {
        fragment(14_000 + random.below(17_000), 0, len.min(1_200))
    }
}

#[test]
fn a_random_mix_stays_within_the_bound() {
    for buffer_bytes in BUFFERS {
        for seed in 1..=8 {
            let piece = if seed % 4 == 0 { any_piece } else { allowed_piece };
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
            let mut victim = Victim::new(buffer_bytes, seed % 2 == 0);
            for _ in 0..6_000 {
                let cumulative = u32::try_from(victim.cumulative.rem_euclid(1 << 32)).expect("32 bits");
                let mut pieces: Vec<Piece> = (0..=random.below(4)).map(|_| piece(&mut random, cumulative)).collect();
                pieces.sort_by_key(|piece| piece.tsn);
                let packet_bytes = random.pick(&[0, 0, 100, 1_200, 2_000, 2_100, LARGE_PACKET_BYTES]);
                victim.give(&pieces, packet_bytes);
                drop(pieces);
                if random.below(50) == 0 {
                    victim.read();
                }
                if victim.association.is_closed() {
                    let (association, first_tsn) = accept(victim.now, &victim.context, &victim.peer);
                    victim.association = association;
                    (victim.first_tsn, victim.cumulative) = (first_tsn, -1);
                    victim.settle();
                } else if random.below(3_000) == 0 {
                    victim.restart();
                }
            }
            victim.restart();
            victim.behave(&[Piece { bits: B | E | U, ..byte(0, 0, 0) }]);
            victim.done("a random mix");
        }
    }
}

#[test]
fn the_window_falls_by_what_is_held() {
    for buffer_bytes in BUFFERS {
        for (piece, packet_bytes) in [
            (byte(0, 0, 0), LARGE_PACKET_BYTES),
            (byte(0, 0, 0), 2_000),
            (byte(0, 0, 0), 0),
            (byte(0, 0, 1), 0),
            (byte(0, 0, 1), 1_400),
            (Piece { len: 1_200, ..byte(0, 0, 1) }, 1_400),
            (fragment(0, 0, 1), 0),
            (fragment(0, 0, 700), 1_400),
        ] {
            let mut victim = Victim::new(buffer_bytes, false);
            // Something to fetch, and a gap, so that nothing is granted beyond the buffer.
            victim.give(&[byte(0, 8, 0)], 0);
            for count in 0..30_000_u32 {
                let tsn = if piece.bits == 0 { 2 + count } else { 1 + count };
                let ssn = (u32::from(piece.ssn) + count) & 0xffff;
                let ssn = if piece.bits == 0 { 0 } else { u16::try_from(ssn).expect("masked") };
                victim.give(&[Piece { tsn, ssn, ..piece }], packet_bytes);
                let held_bytes = LIVE_BYTES.get().saturating_sub(victim.base_bytes);
                let told_bytes = buffer_bytes - victim.a_rwnd;
                assert!(
                    victim.a_rwnd == 0 || told_bytes + 8_000 >= held_bytes,
                    "{told_bytes} of {held_bytes} bytes are told, {piece:?}"
                );
                assert!(
                    victim.a_rwnd == 0 || told_bytes <= 400 + 6 * held_bytes,
                    "{told_bytes} for {held_bytes} bytes are told, {piece:?}"
                );
                if victim.a_rwnd == 0 {
                    break;
                }
            }
            victim.done("the window");
        }
    }
}

#[test]
fn packets_that_bring_nothing_new_draw_at_most_a_few_times_their_bytes() {
    let mut victim = Victim::new(1 << 20, true);
    for tsn in (1..600).step_by(2) {
        victim.give(&[Piece { bits: B | E | U, ..byte(tsn, 0, 0) }], 0);
    }
    let before = victim.sack_bytes;
    let mut given_bytes = 0;
    for count in 0..3_000 {
        let tsn = if count % 2 == 0 { 1 } else { 40_000 };
        victim.give(&[Piece { bits: B | E | U | 8, ..byte(tsn, 0, 0) }], 0);
        given_bytes += victim.scratch.len();
        if count % 10 == 0 {
            victim.wait(Duration::from_millis(1));
        }
    }
    let drawn_bytes = victim.sack_bytes - before;
    println!("{drawn_bytes} bytes of SACKs for {given_bytes} bytes of packets");
    assert!(drawn_bytes <= 4 * given_bytes);
}

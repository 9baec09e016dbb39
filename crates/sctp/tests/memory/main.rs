//! Checks the memory that a peer can make an association hold, with any packets: twice the receive buffer and 64 KiB, as
//! allocated; and that of messages to send. A test program of its own, since it brings its own global allocator.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

use festina_sctp::{Association, Config, Context, Message, Ports};
use festina_units::{Duration, Instant};
use victim::{B, E, IPiece, Piece, U, Victim, accept, byte, fragment};

mod victim;

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

const BUFFERS: [usize; 2] = [64 << 10, 1 << 20];
const LARGE_PACKET_BYTES: usize = 65_000;

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
                let held_bytes = LIVE_BYTES.get().saturating_sub(victim.memory.base_bytes);
                assert!(held_bytes <= buffer_bytes / 2 + (32 << 10), "most of the buffer stays free: {held_bytes}");
                assert!(victim.a_rwnd > 0);
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

/// A message that never ends, or lacks its beginning: a fragment of it.
fn open(tsn: u32, mid: u32, fsn: u32, len: usize) -> IPiece {
    IPiece { tsn, stream: 0, mid, fsn, bits: if fsn == 0 { B } else { 0 }, len }
}

#[test]
fn interleaved_messages_that_never_end_stay_within_the_bound_however_many_are_open() {
    for buffer_bytes in BUFFERS {
        for (messages, len, packet_bytes) in [
            (u32::MAX, 1, 0),
            (u32::MAX, 1, LARGE_PACKET_BYTES),
            (u32::MAX, 600, 1_200),
            (1_000, 1, LARGE_PACKET_BYTES),
            (7, 1, 0),
            (1, 1, 0),
        ] {
            for bits in [0, U] {
                let mut victim = Victim::interleaved(buffer_bytes, true);
                for tsn in 0..12_000 {
                    let piece = open(tsn, tsn % messages, tsn / messages, len);
                    victim.give_interleaved(&[IPiece { bits: piece.bits | bits, ..piece }], packet_bytes);
                }
                // All of it is abandoned, and nothing stays behind.
                victim.forward_interleaved(12_000, [(0, 0, 12_000), (0, 1, 12_000)].into_iter());
                victim.wait(Duration::from_millis(500));
                assert!(
                    victim.a_rwnd >= burst_window_bytes(buffer_bytes) && victim.cumulative == 12_000,
                    "all is dropped: {messages}, {len}, {packet_bytes}, {bits}"
                );
                victim.done("interleaved messages that never end");
            }
        }
    }
}

#[test]
fn interleaved_fragments_without_neighbours_stay_within_the_bound() {
    for buffer_bytes in BUFFERS {
        for (len, packet_bytes) in [(1, 0), (1, LARGE_PACKET_BYTES), (500, 1_200), (600, 65_000)] {
            for descending in [false, true] {
                let mut victim = Victim::interleaved(buffer_bytes, false);
                for tsn in 0..12_000_u32 {
                    let fsn = if descending { 24_002 - 2 * tsn } else { 2 * tsn + 2 };
                    victim.give_interleaved(&[open(tsn, tsn % 5, fsn, len)], packet_bytes);
                }
                victim.done("interleaved fragments without neighbours");
            }
        }
    }
}

#[test]
fn interleaved_messages_whose_turn_never_comes_and_streams_without_number_stay_within_the_bound() {
    for buffer_bytes in BUFFERS {
        for step in [1_u32, 9, 16] {
            for packet_bytes in [0, LARGE_PACKET_BYTES] {
                let mut victim = Victim::interleaved(buffer_bytes, false);
                for tsn in 0..12_000_u32 {
                    let stream = u16::try_from(tsn * step % 8_000).expect("small");
                    let piece = IPiece { stream, bits: B | E, ..open(tsn, tsn % 3, 0, 1) };
                    victim.give_interleaved(&[piece], packet_bytes);
                }
                victim.done("interleaved messages whose turn never comes");
            }
        }
    }
}

#[test]
fn no_choice_of_skipped_streams_costs_more_than_the_bound() {
    for buffer_bytes in BUFFERS {
        for step in [16_u16, 9, 8, 1] {
            for interleaved in [false, true] {
                let reads = false;
                let mut victim = if interleaved {
                    Victim::interleaved(buffer_bytes, reads)
                } else {
                    Victim::new(buffer_bytes, reads)
                };
                // The buffers are full, with a gap, so that nothing is left to grow by.
                for tsn in 1..6_000 {
                    if interleaved {
                        victim.give_interleaved(&[IPiece { bits: B | E | U, ..open(tsn, tsn, 0, 1_000) }], 0);
                    } else {
                        victim.give(&[Piece { bits: B | E | U, len: 1_000, ..byte(tsn, 0, 0) }], 0);
                    }
                }
                for tsn in 0..600_u32 {
                    let streams = (0..u16::MAX).step_by(step.into()).skip(tsn as usize * 4_000 % 30_000).take(4_000);
                    if interleaved {
                        let both = streams.flat_map(|stream| [(stream, 0, tsn), (stream, 1, tsn)]);
                        victim.forward_interleaved(tsn * 9, both);
                    } else {
                        victim.forward(tsn * 9, streams.map(|stream| (stream, (tsn & 0xffff) as u16)));
                    }
                    if tsn % 100 == 0 {
                        victim.read();
                    }
                }
                victim.done("skipped streams");
            }
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

/// The window that stays open while little is held, after any traffic.
fn burst_window_bytes(buffer_bytes: usize) -> usize {
    (buffer_bytes / 4).min(64 << 10)
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
                let held_bytes = LIVE_BYTES.get().saturating_sub(victim.memory.base_bytes);
                let told_bytes = buffer_bytes - victim.a_rwnd;
                assert!(
                    victim.a_rwnd == 0 || told_bytes + 8_000 >= held_bytes,
                    "the window shows {told_bytes} of {held_bytes} held bytes, {piece:?}"
                );
                // As much as is held for each byte of payload will be held for each that may still come.
                let payload_bytes = piece.len * (count as usize + 1);
                let expected_bytes = held_bytes + 2 * victim.a_rwnd * held_bytes.div_ceil(payload_bytes);
                assert!(
                    victim.a_rwnd == 0 || expected_bytes >= buffer_bytes / 2,
                    "{} are open though {held_bytes} are held for {payload_bytes}, {piece:?}",
                    victim.a_rwnd
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

#[test]
fn messages_to_send_take_little_more_than_the_send_buffer_however_small_they_are() {
    for buffer_bytes in BUFFERS {
        for payload_bytes in [1, 100, 1_000] {
            let mut config = Config::default();
            config.limits.send_buffer_bytes = buffer_bytes;
            config.limits.send_low_water_bytes = 0;
            let context = Context::new(config, [1; 16]).expect("the settings are in range");
            let (now, remote) = (Instant::from_secs(1), SocketAddr::from(([192, 0, 2, 1], 9_899)));
            let ports = Ports { local: 5_001, peer: 5_000 };
            let mut association = Association::connect(now, &context, remote, ports, 7);
            let before = LIVE_BYTES.get();
            let messages = (0..).take_while(|_| association.send(now, Message::new(vec![7; payload_bytes])).is_ok());
            let messages = messages.count();
            let held_bytes = LIVE_BYTES.get() - before;
            println!("{messages} messages of {payload_bytes} bytes in a buffer of {buffer_bytes}: {held_bytes} bytes");
            assert!(messages * (payload_bytes + 200) > buffer_bytes, "the buffer is used");
            assert!(held_bytes <= buffer_bytes + buffer_bytes / 4, "{held_bytes} bytes");
            association.abort(b"");
            let events = std::iter::from_fn(|| association.poll_event()).count();
            assert!(events <= 2, "{events} events");
            assert!(LIVE_BYTES.get() <= before + 1_024, "all but a short queue is given back");
        }
    }
}

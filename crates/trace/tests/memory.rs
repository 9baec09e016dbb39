//! Holds the memory that a capture of very many conversations takes. A test program of its own, since it brings its own global allocator.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use festina_trace::{Analyser, CapturedPacket, TcpSegment, encapsulate_tcp};
use festina_units::Instant;

/// The system's allocator, counting the bytes that each thread holds, and the most it has held.
struct Counting;

thread_local! {
    /// Below zero if a thread frees memory of another.
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// What the system's allocator adds to each block.
const BLOCK_BYTES: usize = 16;

fn count(more: usize, less: usize) {
    // A thread that is going away counts no more.
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get().wrapping_add_unsigned(more).wrapping_sub_unsigned(less));
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() + BLOCK_BYTES, 0);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size() + BLOCK_BYTES);
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

fn handle(analyser: &mut Analyser, number: u64, [from, to]: [SocketAddr; 2], segment: &TcpSegment<'_>) {
    let packet = encapsulate_tcp(from, to, segment).expect("short");
    let captured = CapturedPacket {
        number,
        offset: 0,
        at: Instant::from_micros(5 * number),
        link_type: 101,
        data: &packet,
        original_bytes: u32::try_from(packet.len()).expect("short"),
        secrets: &[],
    };
    analyser.handle_packet(&captured);
}

#[test]
fn a_scan_whose_every_question_is_answered_takes_less_than_a_gigabyte() {
    const CONVERSATIONS: u32 = 270_000;
    let mut analyser = Analyser::default();
    let client = SocketAddr::from(([10, 0, 0, 1], 40_000));
    for conversation in 0..CONVERSATIONS {
        let server = SocketAddr::from((Ipv4Addr::from_bits(0x0b00_0000 + conversation), 80));
        let payload = &[0; 100];
        let question = TcpSegment { sequence: 7, ack: Some(9), payload, ..TcpSegment::default() };
        let answer = TcpSegment { sequence: 9, ack: Some(107), payload, ..TcpSegment::default() };
        let number = 2 * u64::from(conversation) + 1;
        handle(&mut analyser, number, [client, server], &question);
        handle(&mut analyser, number + 1, [server, client], &answer);
        while analyser.poll_finding().is_some() {}
    }
    analyser.finish();
    let mut streams = 0;
    while analyser.poll_finding().is_some() {
        streams += 1;
    }
    assert!(streams > 100_000, "{streams} were alive in the end");
    let peak_bytes = PEAK_BYTES.get();
    assert!(peak_bytes < 1_000_000_000, "{peak_bytes}");
}

//! Holds the memory that a capture of very many conversations takes. A test program of its own, since it brings its own global allocator.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};

use festina_trace::{Analyser, CapturedPacket, ReadError, ReceiverSide, TcpSegment, analyse, encapsulate_tcp, ip};
use festina_units::{EcnCodepoint, Instant};

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

/// Returns the most bytes that `work` held at the same time.
fn peak_of<T>(work: impl FnOnce() -> T) -> isize {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    drop(work());
    PEAK_BYTES.get() - before
}

/// A pcap file of bare IP packets that is written while it is read.
struct Generated<F> {
    next: F,
    packets: u32,
    waiting: Vec<u8>,
}

impl<F: FnMut(u32) -> Vec<u8>> Generated<F> {
    fn new(packets: u32, next: F) -> Self {
        let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101];
        Self { next, packets, waiting: words.into_iter().rev().flat_map(|word| word.to_be_bytes()).collect() }
    }
}

impl<F: FnMut(u32) -> Vec<u8>> Read for Generated<F> {
    /// The bytes wait in reverse.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.waiting.is_empty() && self.packets > 0 {
            self.packets -= 1;
            let packet = (self.next)(self.packets);
            let len = u32::try_from(packet.len()).expect("short");
            self.waiting.extend(packet.iter().rev());
            self.waiting.extend([1, 0, len, len].into_iter().rev().flat_map(u32::to_be_bytes));
        }
        let len = buffer.len().min(self.waiting.len());
        for place in buffer.iter_mut().take(len) {
            *place = self.waiting.pop().expect("as many as counted");
        }
        Ok(len)
    }
}

#[test]
fn a_scan_at_the_receiver_takes_no_memory_for_connections_without_data() {
    let client = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let scan = Generated::new(300_000, |number| {
        let server = SocketAddr::from((Ipv4Addr::from_bits(0x0b00_0000 + number / 2), 80));
        let [syn, refusal] = [
            (client, server, TcpSegment { sequence: 7, syn: true, ..TcpSegment::default() }),
            (server, client, TcpSegment { ack: Some(8), ..TcpSegment::default() }),
        ];
        let (from, to, segment) = if number % 2 == 1 { syn } else { refusal };
        encapsulate_tcp(from, to, &segment).expect("short")
    });
    let peak_bytes = peak_of(|| ReceiverSide::read(scan).expect("sound"));
    assert!(peak_bytes < 20_000_000, "{peak_bytes}");
}

#[test]
fn streams_at_the_receiver_are_limited() {
    let client = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let streams = Generated::new(600_000, |number| {
        let server = SocketAddr::from((Ipv4Addr::from_bits(0x0b00_0000 + number), 80));
        let segment = TcpSegment { sequence: 1, payload: &[0], ..TcpSegment::default() };
        encapsulate_tcp(client, server, &segment).expect("short")
    });
    let mut result = Ok(());
    let peak_bytes = peak_of(|| result = ReceiverSide::read(streams).map(drop));
    assert!(matches!(result, Err(ReadError::TooMuch { .. })), "{result:?}");
    assert!(peak_bytes < 1_000_000_000, "{peak_bytes}");
}

#[test]
fn data_that_is_never_acknowledged_takes_bounded_memory_in_all_streams_together() {
    const STREAMS: u32 = 32;
    let one_way = Generated::new(2_000_000, |number| {
        let number = 1_999_999 - number;
        let client = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + number % STREAMS), 5_000));
        let segment = TcpSegment { sequence: number / STREAMS, payload: &[0], ..TcpSegment::default() };
        encapsulate_tcp(client, SocketAddr::from(([11, 0, 0, 1], 80)), &segment).expect("short")
    });
    let peak_bytes = peak_of(|| analyse(one_way, Analyser::default(), |_| {}));
    assert!(peak_bytes < 180_000_000, "{peak_bytes}");
}

#[test]
fn fragments_that_overlap_take_no_more_memory_than_their_packet() {
    let fragments = Generated::new(1_200, |number| {
        let offset = u16::try_from(1_200 - number).expect("small");
        let payload = vec![0; (65_500 - 8 * usize::from(offset)) / 8 * 8];
        let [from, to] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
        let mut packet = ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &payload).expect("short");
        packet[4..6].copy_from_slice(&[0, 7]);
        packet[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        packet
    });
    let peak_bytes = peak_of(|| analyse(fragments, Analyser::default(), |_| {}));
    assert!(peak_bytes < 2_000_000, "{peak_bytes}");
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

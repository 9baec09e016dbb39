//! Checks the allocations that the table of `docs/per-message-budget.md` grants a message. A test program of its own, since it brings its own
//! global allocator.
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use festina_sctp::wire::{Cause, ChunkOut, CommonHeader, PacketBuilder};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

/// The system's allocator, counting the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // A thread that is going away counts no more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes a call and adds its allocations to a sum.
fn counted<R>(sum: &mut u64, call: impl FnOnce() -> R) -> R {
    let before = ALLOCATIONS.get();
    let result = call();
    *sum += ALLOCATIONS.get() - before;
    result
}

/// Allocations of the core since the counters were last set to zero.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// `send`.
    send: u64,
    /// `poll_transmit` of the sender.
    transmit: u64,
    /// Taking in DATA until the application has the messages.
    receive: u64,
    /// `poll_transmit` of the receiver: SACKs.
    write_sack: u64,
    /// Taking in SACKs.
    handle_sack: u64,
}

const SERVER_PORT: u16 = 5_000;
const CLIENT_PORT: u16 = 5_001;
const ROUNDS_TO_WARM_UP: u32 = 100;
const ROUNDS: u32 = 300;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9_899))
}

/// An established association, both ends of it in this thread.
struct Pair {
    now: Instant,
    client: Association,
    server: Association,
    buffer: Vec<u8>,
    block: BytesMut,
    spent: Spent,
}

impl Pair {
    fn new() -> Self {
        let context =
            |secret| Context::new(Config::default(), [secret; 16]).expect("the default settings are in range");
        let now = Instant::from_secs(1);
        let mut listener = Listener::new(&context(1));
        listener.listen(SERVER_PORT);
        let ports = Ports { local: CLIENT_PORT, peer: SERVER_PORT };
        let mut client = Association::connect(now, &context(2), address(2), ports, 7);
        let mut packet = Vec::new();
        let server = loop {
            packet.clear();
            client.poll_transmit(now, &mut packet).expect("the handshake continues");
            let mut reply = Vec::new();
            match listener.handle_packet(now, address(1), &Bytes::from(packet.clone()), &|_| false, &mut reply) {
                Incoming::Accepted(server) => break *server,
                Incoming::Reply => client
                    .handle_packet(now, address(2), EcnCodepoint::NotCapable, &reply.into())
                    .expect("INIT ACK is welcome"),
                other => panic!("{other:?}"),
            }
        };
        let mut pair =
            Self { now, client, server, buffer: Vec::new(), block: BytesMut::new(), spent: Spent::default() };
        while pair.exchange() {}
        pair
    }

    /// Carries over what both ends have to send; whether that was anything.
    fn exchange(&mut self) -> bool {
        let Self { now, client, server, buffer, block, spent } = self;
        let mut moved = false;
        while let Some(packet) = next_packet(client, *now, buffer, block, &mut spent.transmit) {
            moved = true;
            counted(&mut spent.receive, || {
                server
                    .handle_packet(*now, address(1), EcnCodepoint::NotCapable, &packet)
                    .expect("the packet is in order");
                while server.poll_event().is_some() {}
                while server.poll_message().is_some() {}
            });
        }
        *now += Duration::from_millis(1);
        while let Some(packet) = next_packet(server, *now, buffer, block, &mut spent.write_sack) {
            moved = true;
            counted(&mut spent.handle_sack, || {
                client
                    .handle_packet(*now, address(2), EcnCodepoint::NotCapable, &packet)
                    .expect("the packet is in order");
                while client.poll_event().is_some() {}
            });
        }
        moved
    }

    /// Advances the time, and calls the endpoints that are due.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        for association in [&mut self.client, &mut self.server] {
            association.handle_timeout(self.now);
        }
    }

    fn send(&mut self, payload: &'static [u8], messages: u32) {
        for _ in 0..messages {
            let message = Message::new(payload);
            counted(&mut self.spent.send, || self.client.send(self.now, message)).expect("there is room");
        }
        while self.client.stats().path.send_buffer_bytes > 0 {
            if !self.exchange() {
                self.pass(Duration::from_millis(10));
            }
        }
        self.pass(Duration::from_millis(250));
    }
}

/// The next packet, in memory as a driver would give it: in a buffer of its own, which is used again when no reference remains.
fn next_packet(
    from: &mut Association,
    now: Instant,
    buffer: &mut Vec<u8>,
    block: &mut BytesMut,
    spent: &mut u64,
) -> Option<Bytes> {
    buffer.clear();
    counted(spent, || from.poll_transmit(now, buffer))?;
    if !block.try_reclaim(buffer.len()) {
        *block = BytesMut::with_capacity(buffer.len());
    }
    block.extend_from_slice(buffer);
    Some(block.split().freeze())
}

/// What `ROUNDS` bursts of messages cost once everything has run for a while.
fn spent(payload: &'static [u8], burst: u32) -> Spent {
    let mut pair = Pair::new();
    (0..ROUNDS_TO_WARM_UP).for_each(|_| pair.send(payload, burst));
    pair.spent = Spent::default();
    (0..ROUNDS).for_each(|_| pair.send(payload, burst));
    pair.spent
}

/// The row of the page's table for `messages`: granted allocations of a burst.
fn granted(messages: &str) -> [u64; 5] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/per-message-budget.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {messages} |")));
    let cells = row.unwrap_or_else(|| panic!("no row \"{messages}\"")).split('|');
    let cells: Vec<u64> = cells.filter_map(|cell| cell.trim().parse().ok()).collect();
    cells.try_into().expect("five numbers")
}

/// Compares allocations per round with the budget. Heartbeats, with which the queues
/// give their memory back, allow for one more in ten rounds.
fn hold(messages: &str, spent: Spent) {
    let budget = granted(messages);
    let Spent { send, transmit, receive, write_sack, handle_sack } = spent;
    let rounds = u64::from(ROUNDS);
    for (sum, granted) in [send, transmit, receive, write_sack, handle_sack].into_iter().zip(budget) {
        assert!(sum <= granted * rounds + rounds / 10, "{spent:?} in {rounds} rounds, granted {budget:?} in each");
    }
}

#[test]
fn a_thin_message_costs_no_allocation() {
    hold("1 of 100 bytes", spent(&[7; 100], 1));
}

#[test]
fn two_messages_at_once_cost_no_more_than_one() {
    hold("2 of 100 bytes", spent(&[7; 100], 2));
}

#[test]
fn a_burst_of_twenty_messages_costs_the_receivers_queue() {
    hold("20 of 100 bytes", spent(&[7; 100], 20));
}

#[test]
fn a_message_in_three_packets_is_put_together_in_four_allocations() {
    hold("1 of 3,600 bytes", spent(&[7; 3_600], 1));
}

#[test]
fn an_error_report_that_finds_no_room_costs_no_allocation() {
    let Pair { now, mut client, .. } = Pair::new();
    let header =
        CommonHeader { source_port: SERVER_PORT, destination_port: CLIENT_PORT, verification_tag: client.local_tag() };
    let mut bytes = Vec::new();
    let mut builder = PacketBuilder::new(&mut bytes, header, 1_200);
    assert!(builder.chunk(&ChunkOut::Error { causes: &[Cause::ProtocolViolation(&[b'x'; 60]); 16] }));
    builder.finish();
    let packet = Bytes::from(bytes);
    let mut give =
        || client.handle_packet(now, address(2), EcnCodepoint::NotCapable, &packet).expect("the packet is in order");
    give();
    let mut sum = 0;
    counted(&mut sum, give);
    assert_eq!(sum, 0, "16 wait already");
}

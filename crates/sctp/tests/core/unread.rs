//! Unread streams, and streams that go on in spite of them.

use festina_sctp::{Config, Event, StreamId};

use crate::rfc9260::packet::{Data, SACK};
use crate::rfc9260::peer::{Peer, config, init_ack};

const BUFFER: usize = 64 << 10;
const UNREAD: u16 = 1;
const READ: u16 = 2;

fn message(tsn: u32, stream: u16, ssn: u16, bytes: usize) -> Vec<u8> {
    Data::new(tsn, ssn, &vec![b'm'; bytes]).stream(stream).chunk()
}

fn peer_with(change: impl FnOnce(&mut Config)) -> Peer {
    let mut config = config();
    config.limits.receive_buffer_bytes = BUFFER;
    config.sack.every_packets = 1;
    change(&mut config);
    let mut peer = Peer::serving(config, &init_ack());
    peer.reads = false;
    peer
}

/// The window in the latest SACK.
fn window(peer: &mut Peer) -> u32 {
    peer.take().iter().rev().find(|sent| sent.has(SACK)).expect("a SACK was sent").sack().a_rwnd
}

/// Sends messages of 1,000 bytes on a stream until the window is closed. Returns how many.
fn fill(peer: &mut Peer) -> u16 {
    for number in 0..200_u16 {
        peer.give(&[message(u32::from(number) + 1, UNREAD, number, 1_000)]);
        if window(peer) == 0 {
            return number + 1;
        }
    }
    panic!("the window stays open");
}

#[test]
fn a_stream_that_is_discarded_gives_its_room_to_the_others_and_can_be_resumed() {
    let mut peer = peer_with(|_| {});
    let filled = fill(&mut peer);
    assert_eq!(peer.association().discard_stream(StreamId(UNREAD)), usize::from(filled));
    assert!(peer.association().acknowledges_now(), "the peer must learn of the new window");
    let mut tsn = u32::from(filled);
    for ssn in 0..100_u16 {
        peer.give(&[message(tsn + 1, UNREAD, filled + ssn, 1_000), message(tsn + 2, READ, ssn, 10)]);
        tsn += 2;
        let sack = peer.take().pop().expect("a packet with two messages is acknowledged").sack();
        assert_eq!(sack.cumulative, tsn, "dropped messages are acknowledged");
        assert!(sack.a_rwnd as usize > BUFFER / 2);
        let read = peer.read_one().expect("the other stream continues");
        assert_eq!((read.stream(), read.payload().len()), (StreamId(READ), 10));
        assert!(peer.read_one().is_none());
        peer.take();
    }
    peer.association().resume_stream(StreamId(UNREAD));
    peer.give(&[message(tsn + 1, UNREAD, filled + 100, 7)]);
    assert_eq!(peer.read_one().map(|message| message.payload().len()), Some(7), "its order has gone on");
}

#[test]
fn a_stream_that_reaches_its_limit_is_discarded_from_there_on_and_the_others_go_on() {
    let mut peer = peer_with(|config| config.limits.stream_unread_bytes_max = Some(4 * (1_000 + 64)));
    let mut tsn = 0;
    for number in 0..200_u16 {
        peer.give(&[message(tsn + 1, UNREAD, number, 1_000), message(tsn + 2, READ, number, 100)]);
        tsn += 2;
        assert!(window(&mut peer) > 0);
        if number >= 4 {
            while peer.read_one().is_some_and(|read| read.stream() == StreamId(UNREAD)) {}
        }
    }
    let discarded = Event::StreamDiscarded { stream: StreamId(UNREAD) };
    assert_eq!(peer.events.iter().filter(|event| **event == discarded).count(), 1, "{:?}", peer.events);
    while peer.read_one().is_some() {}
    peer.association().resume_stream(StreamId(UNREAD));
    peer.give(&[message(tsn + 1, UNREAD, 200, 5)]);
    assert_eq!(peer.read_one().map(|message| message.payload().len()), Some(5));
}

#[test]
fn a_stream_at_its_limit_keeps_exactly_the_messages_up_to_it_and_a_large_one_alone() {
    let mut peer = peer_with(|config| config.limits.stream_unread_bytes_max = Some(2 * (1_000 + 64)));
    for number in 0..4_u16 {
        peer.give(&[message(u32::from(number) + 1, UNREAD, number, 1_000)]);
    }
    let lengths: Vec<_> = std::iter::from_fn(|| peer.read_one()).map(|message| message.payload().len()).collect();
    assert_eq!(lengths, [1_000, 1_000]);
    let mut peer = peer_with(|config| config.limits.stream_unread_bytes_max = Some(100));
    peer.give(&[message(1, UNREAD, 0, 1_000)]);
    assert_eq!(peer.read_one().map(|message| message.payload().len()), Some(1_000), "the first one is always kept");
}

/// The window after ten packets that two streams share, once nothing of them is held any more: one stream is read, and the other is read or
/// discarded.
fn window_after_shared_packets(discards: bool) -> u32 {
    let mut peer = peer_with(|_| {});
    let mut tsn = 0;
    for ssn in 0..10_u16 {
        let chunks: Vec<_> = (0..4_u16)
            .map(|place| {
                tsn += 1;
                message(tsn, if (place + ssn) % 2 == 0 { UNREAD } else { READ }, 2 * ssn + place / 2, 250)
            })
            .collect();
        peer.give(&chunks);
    }
    if discards {
        assert_eq!(peer.association().discard_stream(StreamId(UNREAD)), 20);
    }
    let read = std::iter::from_fn(|| peer.read_one()).count();
    assert_eq!(read, if discards { 20 } else { 40 });
    peer.take();
    peer.give(&[message(tsn + 1, 3, 0, 1)]);
    window(&mut peer)
}

#[test]
fn the_room_of_packets_that_several_streams_share_is_given_back_when_one_is_discarded() {
    assert_eq!(window_after_shared_packets(true), window_after_shared_packets(false));
}

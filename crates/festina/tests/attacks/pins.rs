//! Peers that make the endpoint keep as much as they can, though its application reads everything.

use std::thread::{JoinHandle, spawn};

use festina::{ServerConfig, Transport};

use crate::friend::Friend;
use crate::hostile::{Hostile, byte, fragment};
use crate::victim::REPORTER;

/// Peers that attack at the same time.
const HOSTILE_PEERS: u64 = 3;

/// Their packets, nearly as large as UDP allows.
const LARGE_PACKET_BYTES: usize = 65_000;

const RECEIVE_BUFFER_BYTES: u64 = 256 << 10;

/// Memory limit per peer.
const BYTES_PER_PEER_MAX: u64 = 2 * RECEIVE_BUFFER_BYTES + (64 << 10);

fn config() -> ServerConfig {
    let bytes = usize::try_from(RECEIVE_BUFFER_BYTES).unwrap();
    ServerConfig::plain()
        .with_transport(Transport::default().with_receive_buffer_bytes(bytes).with_message_bytes_max(bytes))
}

/// Each peer attacks in a thread of its own.
fn attackers(friend: &Friend, attack: fn(&mut Hostile)) -> Vec<JoinHandle<()>> {
    let address = friend.address();
    (0..HOSTILE_PEERS).map(|_| spawn(move || attack(&mut Hostile::connect(address, REPORTER)))).collect()
}

/// Asserts that the endpoint endures the attack, and that this was no small one.
fn endured(name: &str, friend: &Friend, attack: fn(&mut Hostile)) {
    let bytes_max = HOSTILE_PEERS * BYTES_PER_PEER_MAX;
    let received = friend.endure(name, attackers(friend, attack), bytes_max);
    assert!(received > 10 * bytes_max, "{received} bytes are no attack");
}

#[test]
fn messages_whose_turn_never_comes_keep_no_large_packets_in_memory() {
    let friend = Friend::of_endpoint(config());
    endured("SSNs that never become due", &friend, |hostile| {
        for tsn in 0..1_500 {
            hostile.give(&[byte(tsn, tsn + 1)], LARGE_PACKET_BYTES);
        }
    });
    assert_eq!(friend.report().associations, 1 + HOSTILE_PEERS);
}

#[test]
fn messages_that_never_end_keep_no_large_packets_in_memory_with_gaps_or_without() {
    let friend = Friend::of_endpoint(config());
    endured("messages that never end", &friend, |hostile| {
        for tsn in 0..1_000 {
            hostile.give(&[fragment(tsn, tsn == 0, 1)], LARGE_PACKET_BYTES);
        }
        for tsn in 500..1_000 {
            hostile.give(&[fragment(2 * tsn + 1, false, 600)], LARGE_PACKET_BYTES);
        }
    });
}

#[test]
fn a_peer_that_restarts_again_and_again_leaves_nothing_behind() {
    let friend = Friend::of_endpoint(config());
    endured("restarts", &friend, |hostile| {
        for _ in 0..100 {
            for tsn in 0..10 {
                hostile.give(&[byte(tsn, tsn + 1)], LARGE_PACKET_BYTES);
                hostile.give(&[fragment(20 + 2 * tsn, false, 1)], LARGE_PACKET_BYTES);
            }
            hostile.restart();
        }
    });
    assert_eq!(friend.report().associations, 1 + HOSTILE_PEERS);
}

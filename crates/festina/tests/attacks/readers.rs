//! Peers that do not read, and an application that does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use festina::{ServerConfig, Transport, now};

use crate::friend::Friend;
use crate::hostile::{Acknowledging, Hostile, byte};
use crate::victim::{DEAF, TALKER};

const BUFFER_BYTES: u64 = 256 << 10;

/// Duration of the attack of the slow readers.
const SLOWNESS: Duration = Duration::from_secs(3);

/// Longer than an endpoint needs to close, even on a busy machine.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

fn config() -> ServerConfig {
    let buffer_bytes = usize::try_from(BUFFER_BYTES).unwrap();
    let transport = Transport::default()
        .with_send_buffer_bytes(buffer_bytes)
        .with_receive_buffer_bytes(buffer_bytes)
        .with_message_bytes_max(buffer_bytes)
        // A step of the shutdown in which the peer answers nothing may take this time longer.
        .with_peer_timeout(Duration::from_secs(20))
        .with_expert(|expert| {
            expert
                .with_send_low_water_bytes(buffer_bytes / 2)
                .with_shutdown_stall(Duration::from_millis(500))
                .with_shutdown_guard(Duration::from_millis(500))
        });
    ServerConfig::plain().with_transport(transport)
}

#[test]
fn peers_that_never_acknowledge_or_have_no_room_cost_a_send_buffer_each_and_closing_ends() {
    /// Peers of each kind.
    const PEERS: u64 = 4;
    let kinds = [None, Some(Acknowledging::Nothing), Some(Acknowledging::WithoutRoom)];
    let friend = Friend::of_endpoint(config());
    let (address, over) = (friend.address(), Arc::<AtomicBool>::default());
    let (begun, told) = (now(), over.clone());
    let attack = move |kind| {
        let (mut hostile, over) = (Hostile::connect(address, TALKER), over.clone());
        // These continue until the endpoint is closed.
        let slow = spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match kind {
                    Some(how) => hostile.acknowledge(how),
                    None => sleep(Duration::from_millis(5)),
                }
            }
        });
        (spawn(move || sleep(SLOWNESS.saturating_sub(now() - begun))), slow)
    };
    let (timers, slow): (Vec<JoinHandle<()>>, Vec<JoinHandle<()>>) =
        kinds.into_iter().flat_map(|kind| (0..PEERS).map(move |_| kind)).map(attack).unzip();
    let peers = slow.len() as u64;
    let bytes_max = peers * (BUFFER_BYTES + BUFFER_BYTES / 4);
    friend.endure("slow readers", timers, bytes_max);
    let report = friend.report();
    assert_eq!(report.associations, 1 + peers, "all of them are there");
    friend.close(CLOSE_PATIENCE);
    told.store(true, Ordering::Relaxed);
    slow.into_iter().for_each(|slow| slow.join().unwrap());
}

#[test]
fn an_application_that_does_not_read_costs_a_receive_buffer_for_each_peer_and_closing_ends() {
    const PEERS: usize = 3;
    let friend = Friend::of_endpoint(config());
    let address = friend.address();
    let attack = move |number| {
        spawn(move || {
            let mut hostile = Hostile::connect(address, DEAF);
            // Large packets of one message each; small ones that are full of them; and large ones again, of peers that restart.
            let (restarts, packets, per_packet, packet_bytes) =
                [(0, 1_500, 1, 65_000), (0, 3_000, 50, 0), (100, 15, 1, 65_000)][number];
            for restart in 0..=restarts {
                if restart > 0 {
                    hostile.restart();
                }
                for packet in 0..packets {
                    let first = packet * per_packet;
                    let pieces: Vec<_> = (first..first + per_packet).map(|tsn| byte(tsn, tsn)).collect();
                    hostile.give(&pieces, packet_bytes);
                }
            }
        })
    };
    let bytes_max = PEERS as u64 * (2 * BUFFER_BYTES + (64 << 10));
    friend.endure("no reader", (0..PEERS).map(attack).collect(), bytes_max);
    friend.close(CLOSE_PATIENCE);
}

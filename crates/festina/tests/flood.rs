//! A flood of INITs against an endpoint with an association. A binary of its own, since it takes all that a machine has.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::{Association, Config, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Message, now};
use forged::init;

#[path = "sockets/forged.rs"]
mod forged;

/// INITs of one flood, as fast as one thread can send them.
const INITS: usize = 100_000;

/// Round trips measured without a flood.
const QUIET_PINGS: usize = 200;

/// A busy machine may disturb a round; one without disturbance is enough.
const ROUNDS: usize = 5;

/// Sends the flood from a thread of its own; the flag is set when all have left.
fn flood(target: SocketAddr) -> Arc<AtomicBool> {
    let over = Arc::<AtomicBool>::default();
    let told = over.clone();
    std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(target).unwrap();
        let inits: Vec<_> = (1..=1_024).map(init).collect();
        for init in inits.iter().cycle().take(INITS) {
            // What the socket has no room for is lost.
            let _lost = socket.send(init);
        }
        told.store(true, Ordering::Relaxed);
    });
    over
}

/// The median round trip of messages sent one after the other until `enough`.
async fn median_round_trip(association: &Association, enough: impl Fn(usize) -> bool) -> Duration {
    let mut round_trips = Vec::new();
    while !enough(round_trips.len()) {
        let sent = now();
        association.send(Message::new("ping")).await.unwrap();
        association.recv().await.unwrap();
        round_trips.push(now() - sent);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    round_trips.sort_unstable();
    round_trips[round_trips.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_inits_neither_delays_an_association_for_long_nor_is_answered_beyond_the_allowance() {
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::bind(address, Config::default()).await.unwrap();
    let client = Endpoint::bind(address, Config::default()).await.unwrap();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
    let (near, far) = (near.unwrap(), far.unwrap());
    tokio::spawn(async move {
        while let Ok(message) = far.recv().await {
            far.send(Message::new(message.payload)).await.unwrap();
        }
    });

    let quiet = median_round_trip(&near, |pings| pings >= QUIET_PINGS).await;
    let bound = quiet * 10 + Duration::from_millis(10);
    let mut medians = Vec::new();
    while medians.len() < ROUNDS && medians.last().is_none_or(|median| *median > bound) {
        let (before, begun) = (server.stats(), now());
        let over = flood(server.local_addr());
        // At least one ping is sent during the flood and answered.
        medians.push(median_round_trip(&near, |pings| pings > 0 && over.load(Ordering::Relaxed)).await);
        let (after, elapsed) = (server.stats(), now() - begun);
        let looked_at = after.packets_received - before.packets_received - (after.strays_shed - before.strays_shed);
        let per_second = u128::from(Config::default().admission.strays_per_second_max);
        // Twice what is allowed, for the association's own packets and for those who read the clock late.
        let allowed = 2 * (per_second / 10 + per_second * elapsed.as_millis() / 1_000);
        assert!(u128::from(looked_at) <= allowed, "{looked_at} packets in {elapsed:?}, {allowed} allowed");
    }
    println!("median round trip {quiet:?} when quiet, {medians:?} in floods");
    assert!(medians.last().is_some_and(|median| *median <= bound), "{medians:?}, {quiet:?} when quiet");

    let _over = flood(server.local_addr());
    let patient = ConnectOptions::default().handshake_timeout(Duration::from_secs(120));
    let newcomer = client.connect_with(server.local_addr(), patient).await.unwrap();
    newcomer.send(Message::new("hello")).await.unwrap();
}

//! A flood of INITs against an endpoint with an association. It takes all that a machine has.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::{Admission, ClientConfig, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig, now};

use crate::alone;
use crate::forged::init;
use crate::pings::{RoundTrips, ping};
use crate::resident::resident_bytes;

/// INITs of one flood, as fast as one thread can send them.
const INITS: usize = 100_000;

/// Round trips measured without a flood.
const QUIET_PINGS: usize = 200;

/// A busy machine may add this to the median of the round trips, and five times as much to the worst tenth of them.
const DELAY_FLOOR: Duration = Duration::from_millis(10);

/// Permitted growth of the process's resident memory during a flood: buffers of received packets, but nothing per INIT.
const GROWTH_BYTES_MAX: u64 = 2 << 20;

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
            // Packets that exceed the socket's buffer are lost.
            let _lost = socket.send(init);
        }
        told.store(true, Ordering::Relaxed);
    });
    over
}

#[test]
fn a_flood_of_inits_neither_delays_an_association_for_long_nor_is_answered_beyond_the_allowance() {
    alone(2, || async {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(address, ServerConfig::plain()).await.unwrap();
        let client = Endpoint::client(address, ClientConfig::plain()).await.unwrap();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        tokio::spawn(async move {
            while let Ok(Some(message)) = far.recv().await {
                far.send(Message::new(message.into_payload())).await.unwrap();
            }
        });

        let (quiet, _) = ping(&near, |pings| pings >= QUIET_PINGS).await;
        let resident = resident_bytes(std::process::id());
        let (median_max, worst_max) = (quiet.median * 10 + DELAY_FLOOR, quiet.worst_tenth * 10 + 5 * DELAY_FLOOR);
        let is_good = |trips: &RoundTrips| trips.median <= median_max && trips.worst_tenth <= worst_max;
        let mut floods = Vec::new();
        while floods.len() < ROUNDS && !floods.last().is_some_and(is_good) {
            let (before, begun) = (server.stats(), now());
            let over = flood(server.local_addr());
            // At least one ping is sent during the flood and answered.
            floods.push(ping(&near, |pings| pings > 0 && over.load(Ordering::Relaxed)).await.0);
            let (after, elapsed) = (server.stats(), now() - begun);
            let looked_at = after.packets_received - before.packets_received - (after.strays_shed - before.strays_shed);
            let per_second = u128::from(Admission::default().strays_per_second_max());
            // Twice the limit, to allow for the association's own packets and for clocks read late.
            let allowed = 2 * (per_second / 10 + per_second * elapsed.as_millis() / 1_000);
            assert!(u128::from(looked_at) <= allowed, "{looked_at} packets in {elapsed:?}, {allowed} allowed");
        }
        println!("{quiet:?} when quiet, {floods:?} in floods");
        assert!(floods.last().is_some_and(is_good), "{floods:?}, {quiet:?} when quiet");
        if let Some(((before, _), (_, most))) = resident.zip(resident_bytes(std::process::id())) {
            println!("{} KiB more", (most - before) / 1_024);
            assert!(most - before <= GROWTH_BYTES_MAX, "{} KiB more", (most - before) / 1_024);
        }

        let _over = flood(server.local_addr());
        let patient = ConnectOptions::default().handshake_timeout(Duration::from_secs(120));
        let newcomer = client.connect_with(server.local_addr(), patient).await.unwrap();
        newcomer.send(Message::new("hello")).await.unwrap();
    });
}

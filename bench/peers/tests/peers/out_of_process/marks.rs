//! Marks of the network (ECN), with usrsctp.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use festina::{ClientConfig, ConnectOptions, Direction, Endpoint};
use festina_sctp::wire::{Packet, chunk_type};

use super::{Program, SCTP_PORT, in_time, numbered, programs};

/// How often the chunks of a packet have this type.
fn count_chunks(packet: &[u8], chunk_type: u8) -> usize {
    let Ok(packet) = Packet::parse_unverified(packet) else { return 0 };
    packet.chunks().flatten().filter(|chunk| chunk.chunk_type() == chunk_type).count()
}

/// The program marks all ECN-capable packets, as a router would, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn marks_are_reported_to_usrsctp_and_by_it_and_answered() {
    in_time(exchange_over_a_wire_that_marks()).await;
}

async fn exchange_over_a_wire_that_marks() {
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join("usrsctp-peer"), &["server", "0", "marking"]);
    let bound = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)), ClientConfig::plain()).await;
    let endpoint = bound.expect("loopback is free");
    let chunks: Arc<[[AtomicUsize; 2]; 2]> = Arc::default();
    let counters = chunks.clone();
    endpoint.observe(move |seen| {
        let [ecne, cwr] = &counters[usize::from(seen.direction == Direction::Inbound)];
        ecne.fetch_add(count_chunks(seen.bytes, chunk_type::ECNE), Ordering::Relaxed);
        cwr.fetch_add(count_chunks(seen.bytes, chunk_type::CWR), Ordering::Relaxed);
    });
    let options = ConnectOptions::default().peer_port(SCTP_PORT).local_port(SCTP_PORT);
    let association = endpoint.connect_with(server.address(), options).await.expect("the peer answers");
    for number in 0..40 {
        association.send(numbered(number, 30_000)).await.expect("the association lives");
        assert_eq!(association.recv().await.ok().flatten().expect("an echo is outstanding").payload().len(), 30_004);
    }
    let stats = association.stats();
    assert!(stats.sent.marks_reported > 0 && stats.received.packets_marked > 100, "{stats:?}");
    // On a slow machine an acknowledgement may come after a probe, which is then spurious.
    assert!(stats.sent.chunks_lost <= stats.sent.spurious, "marks take the place of losses: {stats:?}");
    let counts = chunks.each_ref().map(|way| way.each_ref().map(|counter| counter.load(Ordering::Relaxed)));
    let [[ecne_sent, cwr_sent], [ecne_received, cwr_received]] = counts;
    assert!(ecne_sent > 0 && cwr_received > 0, "usrsctp answers reports of marks: {counts:?}");
    assert!(ecne_received > 0 && cwr_sent > 0, "and is answered: {counts:?}");
    association.shutdown().await.expect("the peer shuts down gracefully");
    assert_eq!(server.line(), "OK n=40");
}

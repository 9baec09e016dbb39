//! Messages cross, whole and in order.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use festina::{ClientConfig, DEFAULT_SCTP_PORT, Direction, Endpoint, Message, ServerConfig};
use futures_util::{SinkExt, StreamExt};

use crate::support::{endpoint, in_time, pair, pair_between};

/// Bytes in which a misplaced fragment shows.
fn pattern(len: usize, seed: usize) -> Bytes {
    (0..len).map(|index| u8::try_from((index * 31 + index / 256 + seed) % 251).unwrap()).collect()
}

#[tokio::test]
async fn messages_cross_in_both_directions_with_their_attributes() {
    let pair = pair().await;
    in_time(async {
        pair.client.send(Message::new("ordered").on_stream(3).with_ppid(51)).await.unwrap();
        pair.server.send(Message::new("unordered").on_stream(9).with_ppid(53).unordered()).await.unwrap();
        let at_server = pair.server.recv().await.unwrap().unwrap();
        let at_client = pair.client.recv().await.unwrap().unwrap();
        assert_eq!((&at_server.payload()[..], at_server.stream().0, at_server.ppid()), (&b"ordered"[..], 3, 51));
        assert!(!at_server.is_unordered());
        assert_eq!((&at_client.payload()[..], at_client.stream().0, at_client.ppid()), (&b"unordered"[..], 9, 53));
        assert!(at_client.is_unordered());
    })
    .await;
    assert_eq!(pair.client.remote_addr(), pair.server_endpoint.local_addr());
    assert_eq!(pair.server.remote_addr(), pair.client_endpoint.local_addr());
    assert_eq!(pair.client.ports().peer, DEFAULT_SCTP_PORT);
    assert_eq!(pair.client.ports().local, pair.server.ports().peer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_one_megabyte_crosses_whole_in_both_directions() {
    let pair = pair().await;
    let (there, back) = (pattern(1_000_000, 1), pattern(1_000_000, 2));
    in_time(async {
        let (sent, answered, at_server, at_client) = tokio::join!(
            pair.client.send(Message::new(there.clone())),
            pair.server.send(Message::new(back.clone())),
            pair.server.recv(),
            pair.client.recv(),
        );
        assert!(sent.is_ok() && answered.is_ok());
        assert!(at_server.unwrap().unwrap().into_payload() == there, "the message arrived damaged");
        assert!(at_client.unwrap().unwrap().into_payload() == back, "the answer arrived damaged");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_keep_their_order_each() {
    const STREAMS: u16 = 1_000;
    const ROUNDS: u32 = 5;
    let pair = pair().await;
    let sender = pair.client.clone();
    let sending = tokio::spawn(async move {
        for round in 0..ROUNDS {
            for stream in 0..STREAMS {
                let message = Message::new(round.to_be_bytes().to_vec()).on_stream(stream * 65);
                sender.send(message).await.unwrap();
            }
        }
    });
    in_time(async {
        let mut next = vec![0; usize::from(STREAMS)];
        for _ in 0..u32::from(STREAMS) * ROUNDS {
            let message = pair.server.recv().await.unwrap().unwrap();
            let expected = &mut next[usize::from(message.stream().0 / 65)];
            assert_eq!(*message.payload(), u32::to_be_bytes(*expected).to_vec());
            *expected += 1;
        }
        sending.await.unwrap();
        assert!(next.iter().all(|count| *count == ROUNDS));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_through_the_sink_shares_packets_and_ends_the_stream_with_the_association() {
    const MESSAGES: u32 = 2_000;
    let pair = pair().await;
    let mut messages = pair.server.messages();
    let (_, mut sink) = pair.client.clone().into_stream_sink();
    let sending = tokio::spawn(async move {
        for number in 0..MESSAGES {
            sink.feed(Message::new(number.to_be_bytes().to_vec())).await.unwrap();
        }
        sink.close().await.unwrap();
        sink.association().stats()
    });
    in_time(async {
        let mut expected = 0_u32;
        while let Some(message) = messages.next().await {
            assert_eq!(*message.payload(), expected.to_be_bytes().to_vec());
            expected += 1;
        }
        assert_eq!(expected, MESSAGES);
        let stats = sending.await.unwrap();
        assert!(stats.sent.packets < u64::from(MESSAGES) / 2, "{} packets", stats.sent.packets);
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_can_talk_to_itself() {
    let endpoint = endpoint().await;
    let address = endpoint.local_addr();
    let pair = pair_between(endpoint.clone(), endpoint, address).await;
    in_time(async {
        pair.client.send(Message::new("hello, server")).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "hello, server");
        assert_eq!(pair.client_endpoint.stats().associations, 2);
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_on_all_addresses_answers_from_the_one_that_was_asked() {
    let server = Endpoint::server("0.0.0.0:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
    let remote = format!("127.0.0.77:{}", server.local_addr().port()).parse().unwrap();
    let pair = pair_between(endpoint().await, server, remote).await;
    in_time(async {
        pair.server.send(Message::new("from the right address")).await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "from the right address");
        assert_eq!(pair.client.remote_addr(), remote);
    })
    .await;
}

#[tokio::test]
async fn ipv6_and_ipv4_peers_reach_one_dual_stack_endpoint() {
    let Ok(server) = Endpoint::server("[::]:0".parse().unwrap(), ServerConfig::plain()).await else {
        println!("no IPv6 on this machine: nothing to test");
        return;
    };
    let port = server.local_addr().port();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    for (own, remote) in [("127.0.0.1:0", format!("127.0.0.1:{port}")), ("[::1]:0", format!("[::1]:{port}"))] {
        let client = Endpoint::client(own.parse().unwrap(), ClientConfig::plain()).await.unwrap();
        in_time(async {
            let (near, far) = tokio::join!(client.connect(remote), listener.accept());
            let (near, far) = (near.unwrap(), far.unwrap());
            far.send(Message::new("hello")).await.unwrap();
            assert_eq!(near.recv().await.unwrap().unwrap().payload(), "hello");
        })
        .await;
    }
    let four = Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
    let _four_listener = four.listen(DEFAULT_SCTP_PORT).unwrap();
    in_time(server.connect(four.local_addr())).await.expect("a dual-stack endpoint reaches IPv4 peers");
}

#[tokio::test]
async fn an_observer_sees_every_packet_of_an_endpoint_both_ways() {
    let (near, far) = (endpoint().await, endpoint().await);
    let seen = Arc::new(Mutex::new((0, 0)));
    let counted = seen.clone();
    let remote = far.local_addr();
    assert!(near.observe(move |packet| {
        assert_eq!(packet.remote, remote);
        let (sent, received) = &mut *counted.lock().unwrap();
        match packet.direction {
            Direction::Outbound => *sent += packet.bytes.len() as u64,
            Direction::Inbound => *received += packet.bytes.len() as u64,
        }
    }));
    assert!(!near.observe(|_| panic!("only the first is shown anything")));
    let pair = pair_between(near, far, remote).await;
    in_time(pair.client.send(Message::new(pattern(100_000, 1)))).await.unwrap();
    assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().into_payload(), pattern(100_000, 1));
    in_time(pair.client.shutdown()).await.unwrap();
    let stats = pair.client_endpoint.stats();
    assert_eq!(*seen.lock().unwrap(), (stats.bytes_sent, stats.bytes_received));
}

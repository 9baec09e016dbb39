//! Paths that carry smaller packets than the endpoint sends, in network namespaces with a small MTU.

use std::process::Command;

use festina::{Event, Message, ServerConfig, Transport};
use festina_emulate::Namespace;

use crate::encrypted;
use crate::support::{Pair, endpoint_with, in_time, pair_with, until};

/// Runs a test in a namespace whose loopback device carries IP packets of up to 1,200 bytes.
fn with_small_mtu(test: impl AsyncFnOnce() + Send) {
    with_mtu(1_200, test);
}

fn set_mtu(mtu: u32) -> bool {
    let set = Command::new("ip").args(["link", "set", "lo", "mtu", &mtu.to_string()]).status();
    set.is_ok_and(|status| status.success())
}

/// Runs a test in a namespace whose loopback device carries IP packets of up to this size; without the privilege it is skipped.
pub(crate) fn with_mtu(mtu: u32, test: impl AsyncFnOnce() + Send) {
    let made = Namespace::fresh().and_then(|namespace| {
        namespace.run(|| {
            if !set_mtu(mtu) {
                println!("skipped: cannot set the MTU of a loopback device");
                return;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(in_time(test()));
        })
    });
    if let Err(error) = made {
        println!("skipped: no network namespace: {error}");
    }
}

#[test]
fn messages_pass_a_path_that_is_too_small_for_the_packets_and_later_packets_are_smaller() {
    with_small_mtu(async || {
        let pair = pair_with(ServerConfig::plain(), ServerConfig::plain()).await;
        // Enough for trains of packets in one call, which are refused as a whole.
        for size in [3_000, 200_000, 3_000] {
            pair.client.send(Message::new(vec![7; size])).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().payload().len(), size);
        }
        pair.client.drained().await.unwrap();
        let mut limits = Vec::new();
        while let Some(event) = pair.client.try_event() {
            if let Event::PacketSizeLimited { packet_bytes_max, .. } = event {
                limits.push(packet_bytes_max);
            }
        }
        // 1,200 bytes without the headers of IPv4 and UDP.
        assert_eq!(limits, [1_172]);
        assert_eq!(pair.client.stats().sent.timeouts, 0, "no refused packet counts as lost");
        assert_eq!(pair.client_endpoint.stats().send_errors, 0);
    });
}

#[test]
fn a_destination_without_a_route_fails_at_once_with_the_cause() {
    with_small_mtu(async || {
        let any = festina::Endpoint::server("0.0.0.0:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
        let error = any.connect("192.0.2.1:9899").await.unwrap_err();
        assert!(matches!(error, festina::ConnectError::CannotSend { .. }), "{error:?}");
        assert!(error.to_string().starts_with("cannot send to 192.0.2.1:9899: Network is unreachable"), "{error}");
        let bound = endpoint_with(ServerConfig::plain()).await;
        let broadcast = bound.connect("127.255.255.255:9899").await.unwrap_err();
        assert!(broadcast.to_string().contains("Permission denied"), "{broadcast}");
    });
}

/// Sends in both directions until the packets of both ends have this size.
async fn grows_to(pair: &Pair, bytes: u64) {
    let (client, server) = (&pair.client, &pair.server);
    let exchange = async |from: &festina::Association, to: &festina::Association| {
        from.send(Message::new(vec![7; 100_000])).await.unwrap();
        assert_eq!(to.recv().await.unwrap().unwrap().payload().len(), 100_000);
    };
    exchange(client, server).await;
    exchange(server, client).await;
    until("packets are larger", || [client, server].iter().all(|end| end.stats().packet_bytes_max == bytes)).await;
    exchange(client, server).await;
}

#[test]
fn packets_grow_to_what_the_device_carries_and_shrink_with_it() {
    for (mtu, plain_bytes, encrypted_bytes) in [(1_500, 1_472, 1_456), (9_000, 8_972, 8_956)] {
        with_mtu(mtu, async || {
            let transport = || Transport::default().with_packet_bytes_searched_max(8_972);
            let config = || ServerConfig::plain().with_transport(transport());
            let pair = pair_with(config(), config()).await;
            grows_to(&pair, plain_bytes).await;
            assert_eq!(pair.client.stats().sent.timeouts, 0);
            let (client, server) = encrypted::configs();
            let (client, server) = (client.with_transport(transport()), server.with_transport(transport()));
            grows_to(&pair_with(client, server).await, encrypted_bytes).await;
            assert!(set_mtu(1_400));
            grows_to(&pair, 1_372).await;
        });
    }
}

#[test]
fn an_encrypted_peer_gets_no_larger_packets_than_it_asks_for() {
    with_mtu(9_000, async || {
        let (client, server) = encrypted::configs();
        let transport = Transport::default().with_packet_bytes_searched_max(8_972);
        let pair = pair_with(client.with_transport(transport), server).await;
        let before = pair.client.stats().packet_bytes_max;
        grows_to(&pair, before).await;
        assert_eq!(before, 1_236);
    });
}

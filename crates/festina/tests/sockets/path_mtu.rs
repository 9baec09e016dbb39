//! Paths that carry smaller packets than the endpoint sends, in network namespaces with a small MTU.

use std::process::Command;

use festina::{Event, Message, ServerConfig};
use festina_emulate::Namespace;

use crate::support::{endpoint_with, in_time, pair_with};

/// Runs a test in a namespace whose loopback device carries IP packets of up to 1,200 bytes; without the privilege it is skipped.
fn with_small_mtu(test: impl AsyncFnOnce() + Send) {
    let made = Namespace::fresh().and_then(|namespace| {
        namespace.run(|| {
            let set = Command::new("ip").args(["link", "set", "lo", "mtu", "1200"]).status();
            if !set.is_ok_and(|status| status.success()) {
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

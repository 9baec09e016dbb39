//! SCTP directly over IP. Needs privilege, so these tests have nothing to do for ordinary users.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;

use festina::{BindError, Endpoint, Message, ServerConfig};

use crate::support::{in_time, pair_between};

/// A raw endpoint; `None` if this user may not open one. The superuser always may.
async fn raw_endpoint(address: &str) -> Option<Endpoint> {
    let address: IpAddr = address.parse().unwrap();
    match Endpoint::bind_raw(address, ServerConfig::plain()).await {
        Ok(endpoint) => Some(endpoint),
        Err(BindError::Socket { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied
                && std::fs::metadata("/proc/self").unwrap().uid() != 0 =>
        {
            println!("no privilege to open a raw socket ({source}): nothing to test");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

async fn cross(client: Endpoint, server: Endpoint, remote: &str) {
    // The UDP port means nothing here.
    let remote = SocketAddr::new(remote.parse().unwrap(), 9_899);
    let pair = pair_between(client, server, remote).await;
    in_time(async {
        let large: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
        pair.client.send(Message::new(large.clone())).await.unwrap();
        assert!(pair.server.recv().await.unwrap().unwrap().into_payload() == large, "the message arrived damaged");
        pair.server.send(Message::new("over IP alone")).await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "over IP alone");
        pair.client.shutdown().await.unwrap();
        assert_eq!(pair.client_endpoint.stats().send_errors, 0);
    })
    .await;
}

#[tokio::test]
async fn messages_cross_over_ipv4_without_udp() {
    let (Some(client), Some(server)) = (raw_endpoint("127.0.0.31").await, raw_endpoint("127.0.0.32").await) else {
        return;
    };
    cross(client, server, "127.0.0.32").await;
}

#[tokio::test]
async fn messages_cross_over_ipv6_without_udp() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("no IPv6 on this machine: nothing to test");
        return;
    }
    let Some(endpoint) = raw_endpoint("::1").await else { return };
    cross(endpoint.clone(), endpoint, "::1").await;
}

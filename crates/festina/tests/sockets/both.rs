//! Encrypted and plain clients on one UDP port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::security::{Foreign, SecurityError, SecurityFailure, Trust};
use festina::{
    Answer, Association, BindError, ClientConfig, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint,
    EndpointConfig, ListenOptions, Listener, MemoryNetwork, Request,
};
use tokio::net::UdpSocket;

use crate::encrypted::{CLIENT, SERVER, server_settings, trusting, with};
use crate::support::{endpoint, endpoint_with, in_time};

/// A server of both kinds, and settings of an encrypted client.
async fn both() -> (Endpoint, ClientConfig) {
    let (server, fingerprint) = server_settings();
    (endpoint_with(with(server.with_plain_clients().with_client(fingerprint))).await, with(trusting(fingerprint)))
}

async fn exchange(near: &Association, far: &Association) {
    for (from, to, text) in [(near, far, "there"), (far, near, "and back")] {
        from.send(text).await.unwrap();
        assert_eq!(to.recv().await.unwrap().unwrap().into_payload(), text);
    }
}

async fn connected(client: &Endpoint, to: SocketAddr, listener: &Listener, port: u16) -> (Association, Association) {
    let options = ConnectOptions::default().local_port(port);
    let (near, far) = tokio::join!(client.connect_with(to, options), listener.accept());
    let (near, far) = (near.unwrap(), far.unwrap());
    exchange(&near, &far).await;
    (near, far)
}

#[tokio::test]
async fn one_port_serves_encrypted_and_plain_clients_side_by_side() {
    let (server, config) = both().await;
    let (encrypted, plain) = (endpoint_with(config).await, endpoint().await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let to = server.local_addr();
    in_time(async {
        let mut alive = Vec::new();
        // The first byte of a plain packet is that of the client's SCTP port: here those of each kind of protected packets.
        for port in [5_001, 24_576, 32_767, 49_152, 53_248, 57_344, 61_439, 65_535] {
            alive.push((connected(&plain, to, &listener, port).await, false));
            alive.push((connected(&encrypted, to, &listener, port).await, true));
        }
        for ((near, far), is_encrypted) in &alive {
            exchange(near, far).await;
            assert_eq!((near.is_encrypted(), far.is_encrypted()), (*is_encrypted, *is_encrypted));
            assert_eq!(far.request().is_some(), *is_encrypted);
        }
        for ((near, far), _) in alive {
            let (ended, _) = tokio::join!(near.shutdown(), far.closed());
            ended.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn no_fallback_follows_from_accepting_plain_clients() {
    let (server, config) = both().await;
    let (plain_server, encrypted) = (endpoint().await, endpoint_with(config.clone()).await);
    let _listener = plain_server.listen(DEFAULT_SCTP_PORT).unwrap();
    let refused = in_time(server.connect(plain_server.local_addr())).await.map(|_| ());
    let is_other = |failure: &SecurityFailure| matches!(failure, SecurityFailure::OtherProtocol(_));
    assert!(matches!(&refused, Err(ConnectError::Security { failure, .. }) if is_other(failure)), "{refused:?}");
    // Nor do listeners that decide on requests, or that take early messages, take clients that have neither.
    let (holding, early) = (ListenOptions::default().hold_requests(), ListenOptions::default().on_early(|_, _| {}));
    for (port, options) in [(1, holding), (2, early)] {
        let _listener = server.listen_with(port, options).unwrap();
        let options = ConnectOptions::default().peer_port(port);
        let refused = in_time(plain_server.connect_with(server.local_addr(), options)).await.unwrap_err();
        assert!(refused.to_string().contains("speaks only encrypted associations"), "{refused}");
    }
    // One function decides on clients of both kinds: a plain one shows no more than its address.
    let decide = |request: &Request| if request.is_encrypted { Answer::Accept } else { Answer::Refuse };
    let listener = server.listen_with(DEFAULT_SCTP_PORT, ListenOptions::default().decide(decide)).unwrap();
    in_time(async {
        let refused = plain_server.connect(server.local_addr()).await.unwrap_err();
        assert!(matches!(refused, ConnectError::PeerFull { .. }), "{refused}");
        connected(&encrypted, server.local_addr(), &listener, 5_001).await;
    })
    .await;
    let (server, _) = server_settings();
    let address = "127.0.0.1:0".parse().unwrap();
    let checking = server.with_plain_clients().with_client_trust(Trust::fingerprints([]));
    let bound = Endpoint::server(address, with(checking)).await;
    assert!(matches!(&bound, Err(BindError::Security(SecurityError::Settings(_)))), "{bound:?}");
    // Plain clients agree on no application protocol.
    let agreeing = server_settings().0.with_plain_clients().with_alpn(["game/1"]);
    let bound = Endpoint::server(address, with(agreeing)).await;
    assert!(matches!(&bound, Err(BindError::Security(SecurityError::Settings(_)))), "{bound:?}");
}

#[tokio::test]
async fn a_plain_client_takes_the_address_and_ports_of_an_encrypted_one_that_is_gone() {
    let is_cut = Arc::<AtomicBool>::default();
    let cut = is_cut.clone();
    let network = MemoryNetwork::with_filter(move |_, _, _| !cut.load(Ordering::Relaxed));
    let bind = async |address: &str, config: EndpointConfig| {
        Endpoint::bind_on(network.bind(address.parse().unwrap()).unwrap(), config).await.unwrap()
    };
    let (server, fingerprint) = server_settings();
    let server = bind(SERVER, with(server.with_plain_clients()).into()).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    in_time(async {
        let encrypted = bind(CLIENT, with(trusting(fingerprint)).into()).await;
        let (near, _far) = connected(&encrypted, server.local_addr(), &listener, 5_001).await;
        is_cut.store(true, Ordering::Relaxed);
        near.abort("");
        drop(near);
        encrypted.close().await;
        drop(encrypted);
        is_cut.store(false, Ordering::Relaxed);
        let plain = bind(CLIENT, ClientConfig::plain().into()).await;
        let (_, far) = connected(&plain, server.local_addr(), &listener, 5_001).await;
        assert!(!far.is_encrypted() && server.stats().associations == 2);
    })
    .await;
}

#[tokio::test]
async fn an_answer_in_another_protocol_is_named() {
    let (client, _) = both().await;
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let options = ConnectOptions::default().handshake_timeout(Duration::from_millis(500));
    let answering = async {
        let (_, from) = server.recv_from(&mut [0; 2_048]).await.unwrap();
        // An alert of DTLS 1.2.
        server.send_to(&[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 70], from).await.unwrap();
    };
    let connecting = client.connect_with(server.local_addr().unwrap(), options);
    let (refused, ()) = in_time(async { tokio::join!(connecting, answering) }).await;
    let failure = match refused {
        Err(ConnectError::Security { failure, .. }) => failure,
        other => panic!("{other:?}"),
    };
    assert_eq!(failure, SecurityFailure::OtherProtocol(Foreign::Dtls));
}

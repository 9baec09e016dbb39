//! Failures are reported clearly and affect no other association.

use std::net::UdpSocket;
use std::time::Duration;

use festina::security::Fingerprint;
use festina::{
    Admission, BindError, ClientConfig, ClosedReason, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint,
    ListenError, Message, ServerConfig, Transport,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::support::{Relay, endpoint, endpoint_with, in_time, pair, pair_between};

fn soon() -> ConnectOptions {
    ConnectOptions::default().handshake_timeout(Duration::from_millis(100))
}

#[tokio::test]
async fn a_port_without_listener_refuses() {
    let (client, server) = (endpoint().await, endpoint().await);
    let result = in_time(client.connect_with(server.local_addr(), ConnectOptions::default().peer_port(7))).await;
    let error = result.unwrap_err();
    assert_eq!(error, ConnectError::NotListening { remote: server.local_addr(), port: 7 });
    assert!(error.to_string().contains("nothing listens on SCTP port 7"), "{error}");
}

#[tokio::test]
async fn a_silent_peer_and_a_closed_udp_port_time_out_and_the_endpoint_lives_on() {
    let pair = pair().await;
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for remote in [silent.local_addr().unwrap(), closed] {
        let error = in_time(pair.client_endpoint.connect_with(remote, soon())).await.unwrap_err();
        assert_eq!(error, ConnectError::Timeout { remote, after: Duration::from_millis(100) });
    }
    in_time(async {
        pair.client.send(Message::new("still here")).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "still here");
    })
    .await;
}

#[tokio::test]
async fn a_handshake_that_runs_out_of_retransmissions_tells_how_long_it_took() {
    let transport = Transport::default()
        .with_expert(|expert| expert.with_handshake_retries(1).with_rto_initial(Duration::from_millis(20)));
    let config = ServerConfig::plain().with_transport(transport);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = ConnectOptions::default().handshake_timeout(Duration::from_secs(30));
    let connecting = endpoint_with(config).await;
    let result = in_time(connecting.connect_with(silent.local_addr().unwrap(), options)).await;
    let Err(ConnectError::Timeout { after, .. }) = result else { panic!("a timeout, not {result:?}") };
    assert!(after < Duration::from_secs(30), "{after:?}");
}

#[tokio::test]
async fn a_peer_that_vanishes_is_found_unreachable() {
    let config = ServerConfig::plain().with_transport(Transport::default().with_peer_timeout(Duration::from_secs(1)));
    let server = endpoint().await;
    let relay = Relay::to(server.local_addr()).await;
    let pair = pair_between(endpoint_with(config).await, server, relay.address).await;
    in_time(async {
        pair.client.send(Message::new("before")).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "before");
        relay.cut();
        pair.client.send(Message::new("after")).await.unwrap();
        assert_eq!(pair.client.recv().await, Err(ClosedReason::PeerUnreachable));
        assert_eq!(pair.client.drained().await, Err(ClosedReason::PeerUnreachable));
    })
    .await;
}

#[tokio::test]
async fn closing_an_endpoint_takes_no_longer_than_the_peer_timeout_when_a_peer_has_vanished() {
    let config = ServerConfig::plain().with_transport(Transport::default().with_peer_timeout(Duration::from_secs(1)));
    let server = endpoint().await;
    let relay = Relay::to(server.local_addr()).await;
    let pair = pair_between(endpoint_with(config).await, server, relay.address).await;
    relay.cut();
    in_time(pair.client_endpoint.close()).await;
    assert_eq!(pair.client.closed().await, ClosedReason::PeerUnreachable);
}

#[tokio::test]
async fn unusable_addresses_and_ports_are_the_callers_fault() {
    let (client, server) = (endpoint().await, endpoint().await);
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let remote = server.local_addr();
    for bad in ["[::1]:9899", "0.0.0.0:9899", "127.0.0.1:0"] {
        let result = client.connect(bad).await;
        assert!(matches!(result, Err(ConnectError::BadAddress { .. })), "{result:?}");
    }
    let result = client.connect_with(remote, ConnectOptions::default().peer_port(0)).await;
    assert!(matches!(result, Err(ConnectError::BadAddress { .. })), "{result:?}");
    let options = ConnectOptions::default().local_port(1_234);
    let first = in_time(client.connect_with(remote, options.clone())).await.unwrap();
    assert_eq!(first.ports().local, 1_234);
    let second = client.connect_with(remote, options).await;
    assert_eq!(second.unwrap_err(), ConnectError::PortInUse { remote, port: 1_234 });
    assert_eq!(server.listen(0).unwrap_err(), ListenError::PortZero);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_opened_says_why() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let first = Endpoint::server(taken, ServerConfig::plain()).await.unwrap();
    let error = Endpoint::server(first.local_addr(), ServerConfig::plain()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot open a socket on {taken}: ")), "{error}");
    let config = ServerConfig::plain().with_transport(Transport::default().with_packet_bytes_max(1));
    let error = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap_err();
    assert!(matches!(error, BindError::Config(_)), "{error}");
}

#[test]
fn an_endpoint_without_runtime_says_so() {
    let binding = Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(result) = std::pin::pin!(binding).poll(&mut context) else {
        panic!("binding never waits")
    };
    assert!(matches!(result, Err(BindError::NoRuntime)));
}

// stepfunc/rodbus#74, lemunozm/message-io#116: a runtime without I/O or timers causes a panic.
#[test]
fn an_endpoint_in_a_runtime_without_io_or_timers_says_which_is_missing() {
    let bind = |has_io: bool, has_time: bool| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        if has_io {
            builder.enable_io();
        }
        if has_time {
            builder.enable_time();
        }
        let binding = Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain());
        builder.build().unwrap().block_on(binding)
    };
    let error = bind(false, true).unwrap_err();
    assert!(matches!(error, BindError::RuntimeWithoutIo) && error.to_string().contains("no I/O"), "{error}");
    for has_io in [true, false] {
        let error = bind(has_io, false).unwrap_err();
        assert!(matches!(error, BindError::RuntimeWithoutTime) && error.to_string().contains("no timers"), "{error}");
    }
    assert!(bind(true, true).is_ok());
}

#[tokio::test]
async fn a_connect_that_the_close_of_its_endpoint_ends_says_so() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for is_encrypted in [false, true] {
        let config = if is_encrypted { ClientConfig::new(Fingerprint([7; 32])) } else { ClientConfig::plain() };
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
        let (result, ()) = in_time(async { tokio::join!(client.connect(silent), client.close()) }).await;
        let error = result.unwrap_err();
        assert_eq!(error, ConnectError::EndpointClosed, "encrypted: {is_encrypted}");
    }
}

#[tokio::test]
async fn a_host_without_a_port_and_a_name_without_letters_are_quoted_in_the_error() {
    let client = endpoint().await;
    for host in ["", "127.0.0.1", "::1", "localhost", ":9899", "localhost:x", "a\0b"] {
        let error = client.connect(host).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot look up {host:?}: expected a host and a UDP port")), "{error}");
    }
    let encrypted = ClientConfig::new(Fingerprint([7; 32]));
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap(), encrypted).await.unwrap();
    for name in ["", "game.example\0"] {
        let options = ConnectOptions::default().server_name(name);
        let error = client.connect_with("127.0.0.1:9", options).await.unwrap_err().to_string();
        assert!(error.contains(&format!("{name:?} is neither a host name nor an IP address")), "{error}");
    }
}

#[tokio::test]
async fn garbage_is_counted_and_ignored() {
    let pair = pair().await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = pair.server_endpoint.local_addr();
    for len in [0, 1, 11, 12, 13, 100, 1_500, 60_000] {
        stranger.send_to(&vec![0x5a; len], target).unwrap();
    }
    in_time(async {
        for round in 0..20_u32 {
            pair.client.send(Message::new(round.to_be_bytes().to_vec())).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), round.to_be_bytes().to_vec());
        }
    })
    .await;
    assert!(pair.server_endpoint.stats().packets_dropped >= 7, "{:?}", pair.server_endpoint.stats());
}

#[tokio::test]
async fn a_full_accept_queue_delays_peers_but_turns_nobody_away() {
    const QUEUE: usize = 64;
    const PEERS: usize = 100;
    let transport = Transport::default().with_expert(|expert| {
        expert
            .with_rto_initial(Duration::from_millis(300))
            .with_rto_max(Duration::from_millis(600))
            .with_handshake_retries(100)
    });
    let config = ServerConfig::plain()
        .with_transport(transport)
        .with_admission(Admission::default().with_accept_queue_max(QUEUE));
    let (client, server) = (endpoint_with(config.clone()).await, endpoint_with(config).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let remote = server.local_addr();
    in_time(async {
        let mut connecting: FuturesUnordered<_> = (0..PEERS)
            .map(|_| client.connect_with(remote, ConnectOptions::default().handshake_timeout(Duration::from_secs(50))))
            .collect();
        let mut connected = Vec::new();
        while server.stats().accept_queue_overflows == 0 {
            connected.push(connecting.next().await.expect("some have to wait").unwrap());
        }
        assert!(connected.len() <= QUEUE, "no more than the queue holds: {}", connected.len());
        let mut accepted = Vec::new();
        while accepted.len() < PEERS {
            tokio::select! {
                association = listener.accept() => accepted.push(association.unwrap()),
                Some(association) = connecting.next() => connected.push(association.unwrap()),
            }
        }
        while let Some(association) = connecting.next().await {
            connected.push(association.unwrap());
        }
        assert_eq!(connected.len(), PEERS);
    })
    .await;
}

#[tokio::test]
async fn a_host_is_named_instead_of_addressed() {
    let (client, server) = (endpoint().await, endpoint().await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let name = format!("localhost:{}", server.local_addr().port());
    let connecting = client.connect_with(&name, ConnectOptions::default());
    let (near, far) = in_time(async { tokio::join!(connecting, listener.accept()) }).await;
    assert_eq!(near.unwrap().remote_addr(), server.local_addr());
    assert!(far.is_some());
    let error = client.connect_with("localhost", ConnectOptions::default()).await.unwrap_err();
    assert!(matches!(&error, ConnectError::NameNotFound { name, .. } if name == "localhost"), "{error}");
    let error = client.connect_with("[::1]:9", ConnectOptions::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::BadAddress { .. }), "{error}");
    let error = in_time(client.connect_with(&name, ConnectOptions::default().peer_port(7))).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotListening { port: 7, .. }), "{error}");
}

#[tokio::test]
async fn of_several_addresses_the_one_that_answers_is_used() {
    let Ok(client) = Endpoint::server("[::]:0".parse().unwrap(), ServerConfig::plain()).await else {
        println!("skipped: this machine has no IPv6");
        return;
    };
    let server = endpoint().await;
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    // Where `localhost` has an IPv6 address, no server is bound to it.
    let name = format!("localhost:{}", server.local_addr().port());
    let association = in_time(client.connect_with(&name, ConnectOptions::default())).await.unwrap();
    assert_eq!(association.remote_addr().port(), server.local_addr().port());
}

#[tokio::test]
async fn the_words_of_a_peer_that_aborts_are_told() {
    let pair = pair().await;
    pair.server.abort("kicked");
    let reason = in_time(pair.client.recv()).await.unwrap_err();
    assert_eq!(reason.to_string(), "aborted by the peer: \"kicked\"");
}

//! An endpoint accepts as many associations as `Admission` allows, and limits its work for out-of-the-blue packets.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use festina::{
    Admission, Answer, Association, ClientConfig, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint,
    ListenOptions, Listener, Message, Request, ServerConfig, Transport,
};

use crate::encrypted::configs;
use crate::forged::init;
use crate::support::{endpoint, endpoint_with, in_time, pair_with, until};

async fn connected(client: &Endpoint, listener: &Listener, server: &Endpoint) -> (Association, Association) {
    let (near, far) = in_time(async { tokio::join!(client.connect(server.local_addr()), listener.accept()) }).await;
    (near.unwrap(), far.unwrap())
}

/// Asserts that the server refuses another association for want of room.
async fn refused(client: &Endpoint, server: &Endpoint) {
    let refused = server.stats().associations_refused;
    let error = in_time(client.connect(server.local_addr())).await.unwrap_err();
    assert_eq!(error, ConnectError::PeerFull { remote: server.local_addr() });
    assert!(server.stats().associations_refused > refused);
}

#[tokio::test]
async fn a_full_endpoint_refuses_peers_and_own_wishes_until_an_association_ends() {
    let config = ServerConfig::plain().with_admission(Admission::default().with_associations_max(2));
    let (client, server) = (endpoint().await, endpoint_with(config).await);
    let other = endpoint().await;
    let _other_listener = other.listen(DEFAULT_SCTP_PORT).unwrap();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let first = connected(&client, &listener, &server).await;
    let _second = connected(&client, &listener, &server).await;
    refused(&client, &server).await;
    let error = in_time(server.connect(other.local_addr())).await.unwrap_err();
    assert_eq!(error, ConnectError::TooManyAssociations { associations_max: 2 });

    in_time(first.0.shutdown()).await.unwrap();
    until("the association is over", || server.stats().associations == 1).await;
    let _third = in_time(server.connect(other.local_addr())).await.unwrap();
    refused(&client, &server).await;
}

#[tokio::test]
async fn peers_of_one_address_have_a_limit_that_own_wishes_do_not_count_for() {
    let config = ServerConfig::plain().with_admission(Admission::default().with_associations_per_address_max(2));
    let (client, server) = (endpoint().await, endpoint_with(config).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let _client_listener = client.listen(DEFAULT_SCTP_PORT).unwrap();
    let _own = [
        in_time(server.connect(client.local_addr())).await.unwrap(),
        in_time(server.connect(client.local_addr())).await.unwrap(),
    ];
    for _ in 0..3 {
        let pairs = [connected(&client, &listener, &server).await, connected(&client, &listener, &server).await];
        refused(&client, &server).await;
        for (near, _) in &pairs {
            in_time(near.shutdown()).await.unwrap();
        }
        until("both are over", || server.stats().associations == 2).await;
    }
}

#[tokio::test]
async fn the_accept_queue_is_as_long_as_configured_and_peers_wait_for_a_place() {
    let transport = Transport::default().with_expert(|expert| {
        expert
            .with_rto_initial(Duration::from_millis(50))
            .with_rto_max(Duration::from_millis(50))
            .with_handshake_retries(1_000)
    });
    let config =
        ServerConfig::plain().with_transport(transport).with_admission(Admission::default().with_accept_queue_max(1));
    let (client, server) = (endpoint_with(config.clone()).await, endpoint_with(config).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let patient = || ConnectOptions::default().handshake_timeout(Duration::from_secs(60));
    let _first = in_time(client.connect_with(server.local_addr(), patient())).await.unwrap();
    let accepting = async {
        until("another waits", || server.stats().accept_queue_overflows > 2).await;
        assert_eq!(server.stats().associations, 1);
        (listener.accept().await.unwrap(), listener.accept().await.unwrap())
    };
    let (second, _accepted) =
        in_time(async { tokio::join!(client.connect_with(server.local_addr(), patient()), accepting) }).await;
    assert!(second.is_ok());
}

#[tokio::test]
async fn associations_that_ended_without_data_make_room_in_the_accept_queue_and_others_keep_their_messages() {
    let (client, server) = configs();
    let plain = (ClientConfig::plain(), ServerConfig::plain());
    for (client, server) in [(client, server), plain] {
        let (client, server) = (
            endpoint_with(client).await,
            endpoint_with(server.with_admission(Admission::default().with_accept_queue_max(3))).await,
        );
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let patient = || ConnectOptions::default().handshake_timeout(Duration::from_secs(60));
        let connect = || async { in_time(client.connect_with(server.local_addr(), patient())).await.unwrap() };
        let speaker = connect().await;
        in_time(speaker.send("before the end")).await.unwrap();
        in_time(speaker.shutdown()).await.unwrap();
        // Each of these would keep a place for good.
        for _ in 0..8 {
            in_time(connect().await.shutdown()).await.unwrap();
        }
        let _near = connect().await;
        let first = in_time(listener.accept()).await.unwrap();
        assert_eq!(in_time(first.recv()).await.unwrap().unwrap().payload(), "before the end");
        let is_open = async { while listener.accept().await.unwrap().close_reason().is_some() {} };
        in_time(is_open).await;
    }
}

#[tokio::test]
async fn encrypted_handshakes_at_once_do_not_overrun_the_accept_queue() {
    let (client, server) = configs();
    let (client, server) = (
        endpoint_with(client).await,
        endpoint_with(server.with_admission(Admission::default().with_accept_queue_max(1))).await,
    );
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let remote = server.local_addr();
    let mut connecting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (client, options) = (client.clone(), ConnectOptions::default().handshake_timeout(Duration::from_secs(60)));
        connecting.spawn(async move { client.connect_with(remote, options).await.unwrap() });
    }
    let fits = || assert!(server.stats().associations <= 1, "the queue holds one: {:?}", server.stats());
    until("the others wait", || {
        fits();
        server.stats().accept_queue_overflows >= 19 && server.stats().associations == 1
    })
    .await;
    // Each that is taken out makes room for another.
    for _ in 0..3 {
        let accepted = in_time(listener.accept()).await.unwrap();
        in_time(accepted.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn strays_beyond_the_allowance_are_shed_and_associations_go_on() {
    let config = ServerConfig::plain().with_admission(Admission::default().with_strays_per_second_max(1));
    let pair = pair_with(ServerConfig::plain(), config).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(pair.server_endpoint.local_addr()).unwrap();
    let before = pair.server_endpoint.stats();
    let begun = tokio::time::Instant::now();
    for port in 1..=200 {
        stranger.send(&init(port)).unwrap();
    }
    let looked_at = || {
        let (now, allowed) = (pair.server_endpoint.stats(), begun.elapsed().as_secs() + 2);
        let shed = now.strays_shed - before.strays_shed;
        assert_eq!(now.packets_dropped - before.packets_dropped, shed, "shed packets count as dropped");
        (200 - shed, allowed)
    };
    until("most are shed", || looked_at().0 < 100).await;
    in_time(async {
        for round in 0..20_u32 {
            pair.client.send(Message::new(round.to_be_bytes().to_vec())).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), round.to_be_bytes().to_vec());
        }
    })
    .await;
    let (looked_at, allowed) = looked_at();
    assert!(looked_at <= allowed, "{looked_at} INITs were looked at, {allowed} are allowed");
}

#[tokio::test]
async fn a_listener_may_refuse_or_ignore_a_peer_before_it_answers() {
    let (client, server) = (endpoint().await, endpoint().await);
    let answer = Arc::new(Mutex::new((Answer::Refuse, Vec::new())));
    let (asked, peer) = (answer.clone(), client.local_addr());
    let decide = move |request: &Request| {
        let (answer, seen) = &mut *asked.lock().unwrap();
        assert!(request.token.is_empty() && !request.is_encrypted);
        seen.push(request.remote);
        *answer
    };
    let listener = server.listen_with(DEFAULT_SCTP_PORT, ListenOptions::default().decide(decide)).unwrap();
    let error = in_time(client.connect(server.local_addr())).await.unwrap_err();
    assert_eq!(error, ConnectError::PeerFull { remote: server.local_addr() });
    assert_eq!(std::mem::take(&mut answer.lock().unwrap().1), [peer]);

    answer.lock().unwrap().0 = Answer::Ignore;
    let options = ConnectOptions::default().handshake_timeout(Duration::from_millis(200));
    let error = in_time(client.connect_with(server.local_addr(), options)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    assert!(!std::mem::take(&mut answer.lock().unwrap().1).is_empty());
    assert_eq!(server.stats().packets_sent, 1, "the refusal");

    answer.lock().unwrap().0 = Answer::Accept;
    let (near, far) = in_time(async { tokio::join!(client.connect(server.local_addr()), listener.accept()) }).await;
    assert!(near.is_ok() && far.is_some());
    assert!(answer.lock().unwrap().1.len() >= 2, "INIT and COOKIE ECHO");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_encrypted_clients_at_one_address_gets_in() {
    let (client, server) = configs();
    let server = endpoint_with(server).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let accepting = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Some(association) = listener.accept().await {
            accepted.push(association);
        }
    });
    let mut connecting = Vec::new();
    for _ in 0..15 {
        let client = endpoint_with(client.clone()).await;
        connecting.extend((0..100).map(|_| {
            let (client, address) = (client.clone(), server.local_addr());
            let patient = ConnectOptions::default().handshake_timeout(Duration::from_secs(120));
            tokio::spawn(async move { client.connect_with(address, patient).await.map(|near| (client, near)) })
        }));
    }
    let (begun, mut connected) = (festina::now(), Vec::new());
    for connecting in connecting {
        connected.push(in_time(connecting).await.unwrap().unwrap());
    }
    println!("{} clients in {:?}", connected.len(), festina::now() - begun);
    accepting.abort();
}

//! All the ways in which associations and endpoints end.

use std::time::Duration;

use festina::{
    ClosedReason, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, ListenError, Message, PeerRestart,
    SendError, SendErrorKind, ServerConfig, Transport, TryRecvError,
};

use crate::support::{Relay, endpoint, endpoint_with, in_time, pair, pair_with, until};

fn numbered(value: u32) -> Message {
    Message::new(value.to_be_bytes().to_vec())
}

#[tokio::test]
async fn shutdown_delivers_everything_first() {
    let pair = pair().await;
    in_time(async {
        for value in 0..1_000 {
            pair.client.send(numbered(value)).await.unwrap();
        }
        let reading = async {
            for expected in 0..1_000_u32 {
                assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), expected.to_be_bytes().to_vec());
            }
            pair.server.recv().await
        };
        let (result, after_the_last) = tokio::join!(pair.client.shutdown(), reading);
        result.unwrap();
        assert_eq!(after_the_last, Ok(None));
        assert_eq!(pair.client.recv().await, Ok(None));
        pair.client.drained().await.expect("the peer has everything");
    })
    .await;
    until("both endpoints forgot the association", || {
        pair.client_endpoint.stats().associations + pair.server_endpoint.stats().associations == 0
    })
    .await;
}

#[tokio::test]
async fn an_abort_reaches_the_peer_with_its_reason() {
    let pair = pair().await;
    in_time(async {
        pair.client.abort("out of patience");
        assert_eq!(pair.client.closed().await, ClosedReason::AbortedLocally);
        let Err(ClosedReason::AbortedByPeer { info, .. }) = pair.server.recv().await else {
            panic!("the peer was notified")
        };
        assert_eq!(info, "out of patience");
        assert!(matches!(pair.client.send(numbered(0)).await, Err(SendError { kind: SendErrorKind::Closed, .. })));
        assert_eq!(pair.client.shutdown().await, Err(ClosedReason::AbortedLocally));
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_handle_delivers_what_was_sent_and_then_ends() {
    let pair = pair().await;
    in_time(async {
        let clone = pair.client.clone();
        drop(pair.client);
        for value in 0..500 {
            clone.send(numbered(value)).await.unwrap();
        }
        drop(clone);
        for expected in 0..500_u32 {
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), expected.to_be_bytes().to_vec());
        }
        assert_eq!(pair.server.recv().await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_still_talks_does_not_keep_a_dropped_association_alive() {
    let transport = Transport::default().with_receive_buffer_bytes(10_000).with_message_bytes_max(10_000);
    let config = ServerConfig::plain().with_transport(transport);
    let pair = pair_with(config.clone(), config).await;
    in_time(async {
        let far_more_than_the_window = 200;
        for _ in 0..far_more_than_the_window {
            pair.server.send(Message::new(vec![1; 1_000])).await.unwrap();
        }
        drop(pair.client);
        assert_eq!(pair.server.closed().await, ClosedReason::Shutdown);
    })
    .await;
    until("it is gone", || pair.client_endpoint.stats().associations == 0).await;
}

#[tokio::test]
async fn associations_outlive_the_handles_of_their_endpoint() {
    let pair = pair().await;
    in_time(async {
        drop(pair.client_endpoint);
        drop(pair.listener);
        drop(pair.server_endpoint);
        tokio::time::sleep(Duration::from_millis(20)).await;
        for value in 0..100_u32 {
            pair.client.send(numbered(value)).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), value.to_be_bytes().to_vec());
        }
        pair.client.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_without_handles_and_associations_gives_its_port_back() {
    let pair = pair().await;
    let address = pair.client_endpoint.local_addr();
    drop(pair.client_endpoint);
    in_time(pair.client.shutdown()).await.unwrap();
    drop(pair.client);
    in_time(async {
        while Endpoint::server(address, ServerConfig::plain()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn closing_an_endpoint_ends_its_associations_in_good_order() {
    let pair = pair().await;
    in_time(async {
        pair.server.send(Message::new("last words")).await.unwrap();
        pair.server_endpoint.close().await;
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "last words");
        assert_eq!(pair.client.recv().await, Ok(None));
        assert_eq!(pair.server.closed().await, ClosedReason::Shutdown);
        assert!(pair.listener.accept().await.is_none());
        assert_eq!(pair.server_endpoint.listen(7).unwrap_err(), ListenError::EndpointClosed);
        let result = pair.server_endpoint.connect(pair.client_endpoint.local_addr()).await;
        assert_eq!(result.unwrap_err(), ConnectError::EndpointClosed);
        pair.server_endpoint.close().await;
    })
    .await;
}

/// An association whose client has sent far more than the buffers of the server, which does not read.
async fn pair_with_a_peer_that_does_not_read() -> crate::support::Pair {
    let transport = Transport::default().with_receive_buffer_bytes(10_000).with_message_bytes_max(10_000);
    let patient = ServerConfig::plain().with_transport(transport);
    let transport = Transport::default().with_expert(|expert| expert.with_shutdown_stall(Duration::from_millis(400)));
    let brief = ServerConfig::plain().with_transport(transport);
    let pair = pair_with(brief, patient).await;
    in_time(async {
        for _ in 0..100 {
            pair.client.send(Message::new(vec![1; 1_000])).await.unwrap();
        }
    })
    .await;
    pair
}

#[tokio::test]
async fn closing_an_endpoint_ends_although_a_peer_keeps_its_window_closed() {
    let pair = pair_with_a_peer_that_does_not_read().await;
    in_time(pair.client_endpoint.close()).await;
    assert_eq!(pair.client.closed().await, ClosedReason::ShutdownTimeout);
    in_time(async {
        assert!(matches!(pair.server.closed().await, ClosedReason::AbortedByPeer { .. }), "it was notified");
    })
    .await;
}

#[tokio::test]
async fn an_association_without_handles_ends_although_its_peer_keeps_its_window_closed() {
    let pair = pair_with_a_peer_that_does_not_read().await;
    drop(pair.client);
    until("it is gone", || pair.client_endpoint.stats().associations == 0).await;
}

#[tokio::test]
async fn dropping_a_listener_ends_what_nobody_accepted_and_frees_the_port() {
    let (client, server) = (endpoint().await, endpoint().await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    assert_eq!(server.listen(DEFAULT_SCTP_PORT).unwrap_err(), ListenError::PortInUse(DEFAULT_SCTP_PORT));
    in_time(async {
        let association = client.connect(server.local_addr()).await.unwrap();
        drop(listener);
        assert_eq!(association.recv().await, Ok(None));
        let refused = client.connect(server.local_addr()).await;
        assert!(matches!(refused, Err(ConnectError::NotListening { .. })), "{refused:?}");
        let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        client.connect(server.local_addr()).await.unwrap();
    })
    .await;
}

#[test]
fn an_association_whose_runtime_is_gone_is_over() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let pair = runtime.block_on(pair());
    drop(runtime);
    assert!(matches!(pair.client.try_send(numbered(0)), Err(SendError { kind: SendErrorKind::Closed, .. })));
    assert_eq!(pair.server.try_recv(), Err(TryRecvError::Closed(ClosedReason::AbortedLocally)));
    drop(pair);
}

#[tokio::test]
async fn a_connect_given_up_leaves_nothing_behind() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = endpoint().await;
    let connecting = client.connect(silent.local_addr().unwrap());
    assert!(tokio::time::timeout(Duration::from_millis(20), connecting).await.is_err());
    assert_eq!(client.stats().associations, 0);
}

#[tokio::test]
async fn after_close_the_address_can_be_bound_again_though_handles_are_left() {
    let pair = pair().await;
    in_time(async {
        for endpoint in [&pair.client_endpoint, &pair.server_endpoint] {
            let address = endpoint.local_addr();
            endpoint.close().await;
            let next = Endpoint::server(address, ServerConfig::plain()).await.expect("the address is free");
            // Closing twice is no mistake, and takes nothing from the next.
            endpoint.close().await;
            next.listen(DEFAULT_SCTP_PORT).unwrap();
            assert!(Endpoint::server(address, ServerConfig::plain()).await.is_err());
            next.close().await;
        }
    })
    .await;
    assert_eq!(pair.client.close_reason(), Some(ClosedReason::Shutdown));
    assert!(pair.client_endpoint.connect(pair.server_endpoint.local_addr()).await.is_err());
    drop((pair.client, pair.server, pair.listener));
}

/// A client whose successor, behind the same address and ports, restarts the association. Returns the server's side and its listener; the client sent
/// "old" before, and its successor sends "new".
async fn restarted(restart: PeerRestart) -> (festina::Association, festina::Listener) {
    let server =
        endpoint_with(ServerConfig::plain().with_transport(Transport::default().with_peer_restart(restart))).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let relay = Relay::to(server.local_addr()).await;
    let options = ConnectOptions::default().local_port(7_000);
    let client = endpoint().await;
    let first = client.connect_with(relay.address, options.clone()).await.unwrap();
    let association = listener.accept().await.unwrap();
    first.send("old").await.unwrap();
    first.drained().await.unwrap();
    // The relay forgets the first client when it receives from the second.
    let successor = endpoint().await;
    let second = successor.connect_with(relay.address, options).await.unwrap();
    second.send("new").await.unwrap();
    second.drained().await.unwrap();
    // Kept until the runtime ends: a client that shuts down would notify the server.
    std::mem::forget((first, second, client, successor, server));
    (association, listener)
}

#[tokio::test]
async fn a_peer_that_restarts_goes_on_in_the_same_association_and_its_messages_say_so() {
    in_time(async {
        let (association, _listener) = restarted(PeerRestart::Continue).await;
        for (payload, restarts) in [("old", 0), ("new", 1)] {
            let message = association.recv().await.unwrap().unwrap();
            assert_eq!((&message.payload()[..], message.restarts()), (payload.as_bytes(), restarts));
        }
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_restarts_ends_the_association_behind_its_last_message_if_that_is_wanted() {
    in_time(async {
        let (association, listener) = restarted(PeerRestart::End).await;
        assert_eq!(association.recv().await.unwrap().unwrap().payload(), "old");
        assert_eq!(association.recv().await, Err(ClosedReason::PeerRestarted));
        let successor = listener.accept().await.unwrap();
        let message = successor.recv().await.unwrap().unwrap();
        assert_eq!((&message.payload()[..], message.restarts()), (&b"new"[..], 0));
    })
    .await;
}

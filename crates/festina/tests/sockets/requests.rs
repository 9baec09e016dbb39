//! Requests of clients that wait for a decision of the application.

use std::time::Duration;

use festina::blocking::ReadyKind;
use festina::security::SecurityFailure;
use festina::{Answer, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, ListenOptions, blocking};

use crate::encrypted::configs;
use crate::support::{endpoint_with, in_time, until};

fn holding() -> ListenOptions {
    ListenOptions::default().hold_requests()
}

/// Options of a client that waits long enough on a busy machine.
fn with_token(token: &str) -> ConnectOptions {
    ConnectOptions::default().token(token).handshake_timeout(Duration::from_secs(60))
}

async fn endpoints() -> (Endpoint, Endpoint) {
    let (client, server) = configs();
    (endpoint_with(client).await, endpoint_with(server).await)
}

#[tokio::test]
async fn a_client_waits_for_the_decision_on_its_token() {
    let (client, server) = endpoints().await;
    let listener = server.listen_with(DEFAULT_SCTP_PORT, holding()).unwrap();
    let connect = |token: &'static str| {
        let (client, address) = (client.clone(), server.local_addr());
        tokio::spawn(async move { client.connect_with(address, with_token(token)).await })
    };
    in_time(async {
        assert!(listener.try_request().is_none());
        let good = connect("good");
        let pending = listener.request().await.unwrap();
        assert_eq!(pending.request().token, b"good");
        assert_eq!(pending.request().remote, client.local_addr());
        // The handshake does not go on by itself, however often the client repeats its hello.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(!good.is_finished() && listener.try_accept().is_none() && listener.try_request().is_none());
        pending.accept();
        let near = good.await.unwrap().unwrap();
        let far = listener.accept().await.unwrap();
        assert_eq!(far.request().unwrap().token, b"good");
        near.send("in").await.unwrap();
        assert_eq!(far.recv().await.unwrap().unwrap().payload(), "in");

        let bad = connect("bad");
        listener.request().await.unwrap().refuse();
        let refused = bad.await.unwrap();
        let is_refusal = |error: &ConnectError| {
            matches!(error, ConnectError::Security { failure: SecurityFailure::Refused(256), .. })
        };
        assert!(refused.as_ref().is_err_and(is_refusal), "{refused:?}");

        // A dropped request is not answered, so that the client asks again.
        let ignored = connect("ignored");
        drop(listener.request().await.unwrap());
        listener.request().await.unwrap().accept();
        ignored.await.unwrap().unwrap();

        // Clients that wait do not keep others waiting, and decisions need no order.
        let clients: Vec<_> = (0..20).map(|_| connect("one of many")).collect();
        let mut pending = Vec::new();
        while pending.len() < clients.len() {
            pending.push(listener.request().await.unwrap());
        }
        pending.into_iter().rev().for_each(festina::PendingRequest::accept);
        for client in clients {
            client.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_panic_of_the_program_refuses_one_client_and_nothing_else() {
    let (client, server) = endpoints().await;
    let options = ListenOptions::default().decide(|request| match &request.token[..] {
        b"bug" => panic!("a bug of the program"),
        _ => Answer::Accept,
    });
    let listener = server.listen_with(DEFAULT_SCTP_PORT, options).unwrap();
    let connect = |token| client.connect_with(server.local_addr(), with_token(token));
    in_time(async {
        let (near, far) = tokio::join!(connect("good"), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let refused = connect("bug").await;
        let is_refusal = |error: &ConnectError| {
            matches!(error, ConnectError::Security { failure: SecurityFailure::Refused(256), .. })
        };
        assert!(refused.as_ref().is_err_and(is_refusal), "{refused:?}");
        near.send("still there").await.unwrap();
        assert_eq!(far.recv().await.unwrap().unwrap().payload(), "still there");
        connect("good").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_listener_ends_the_wait_for_requests() {
    let (client, server) = endpoints().await;
    let listener = server.listen_with(DEFAULT_SCTP_PORT, holding()).unwrap();
    let mut requests = listener.requests();
    let address = server.local_addr();
    let client = std::sync::Arc::new(client);
    let connect = |token| {
        let client = client.clone();
        tokio::spawn(async move { client.connect_with(address, with_token(token)).await.map(|_| ()) })
    };
    let connecting = connect("late");
    in_time(async {
        let pending = listener.request().await.unwrap();
        let undecided = connect("never decided");
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(listener);
        let next =
            std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut requests), context));
        assert!(next.await.is_none());
        // Too late: no listener is left that could return the association.
        pending.accept();
        for connecting in [connecting, undecided] {
            let refused = connecting.await.unwrap();
            assert!(matches!(refused, Err(ConnectError::NotListening { .. })), "{refused:?}");
        }
    })
    .await;
    until("nothing is left of the handshake", || server.stats().associations == 0).await;
}

/// The way in which a server stops to listen.
#[derive(Clone, Copy, Debug)]
enum End {
    Listener,
    Close,
    Handles,
}

#[tokio::test]
async fn requests_that_the_program_has_taken_and_not_decided_on_are_refused_when_their_listener_or_endpoint_ends() {
    for end in [End::Listener, End::Close, End::Handles] {
        let (client, server) = endpoints().await;
        let listener = server.listen_with(DEFAULT_SCTP_PORT, holding()).unwrap();
        let address = server.local_addr();
        let connect = || {
            let client = client.clone();
            let options = with_token("undecided").handshake_timeout(Duration::from_secs(600));
            tokio::spawn(async move { client.connect_with(address, options).await.map(|_| ()) })
        };
        // More than one turn of the driver decides on.
        let connecting: Vec<_> = (0..12).map(|_| connect()).collect();
        let mut pending = Vec::new();
        in_time(async {
            while pending.len() < connecting.len() {
                pending.push(listener.request().await.unwrap());
            }
            match end {
                End::Listener => drop(listener),
                End::Close => server.close().await,
                End::Handles => drop((listener, server)),
            }
            for connecting in connecting {
                let refused = connecting.await.unwrap();
                assert!(matches!(refused, Err(ConnectError::NotListening { .. })), "{end:?}: {refused:?}");
            }
        })
        .await;
        // The decisions come too late.
        pending.into_iter().for_each(festina::PendingRequest::accept);
    }
}

#[test]
fn the_blocking_listener_reports_requests_as_ready() {
    let (client, server) = configs();
    let address = "127.0.0.1:0".parse().unwrap();
    let client = blocking::Endpoint::client(address, client).unwrap();
    let server = blocking::Endpoint::server(address, server).unwrap();
    let second = Duration::from_secs(20);
    let open = server.listen(DEFAULT_SCTP_PORT + 1).unwrap();
    assert!(open.request(None).unwrap().is_none(), "nothing waits for a decision there");
    #[cfg(unix)]
    assert!(open.request_descriptor().is_err());
    let listener = server.listen_with(DEFAULT_SCTP_PORT, holding()).unwrap();
    listener.set_token(7);
    assert!(listener.try_request().is_none() && listener.try_accept().is_none());
    let mut ready = Vec::new();
    while server.ready(&mut ready, 9, Duration::ZERO).is_ok() {}
    let connecting = client.start_connect(server.local_addr(), with_token("ticket"));
    ready.clear();
    server.ready(&mut ready, 9, second).unwrap();
    assert!(ready.iter().all(|ready| (ready.token, ready.kind) == (7, ReadyKind::Request)), "{ready:?}");
    let pending = listener.request(second).unwrap().unwrap();
    assert_eq!(pending.request().token, b"ticket");
    pending.accept();
    connecting.finish(second).unwrap();
    assert!(listener.accept(second).unwrap().is_some());
}

//! Connections of frame loops, which come back by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use festina::blocking::{Association, Endpoint, Link, LinkDown, LinkEvent, LinkState, Listener};
use festina::security::{Identity, ServerSecurity};
use festina::{
    AbandonReason, ClientConfig, ClosedReason, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, SendError,
    SendErrorKind, ServerConfig, Transport,
};

use crate::encrypted::{trusting, with};
use crate::support::Relay;

const LONG: Duration = Duration::from_secs(60);

/// A client with short pauses and handshakes.
fn link(config: ClientConfig, host: SocketAddr) -> Link {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let options = ConnectOptions::default().handshake_timeout(Duration::from_millis(500));
    endpoint.link(host, options).with_retry(Duration::from_millis(20), Duration::from_millis(100))
}

/// Listens on an address that an earlier server may still be leaving.
fn server(address: SocketAddr, config: &ServerConfig) -> (Endpoint, Listener) {
    let server = loop {
        match Endpoint::server(address, config.clone()) {
            Ok(server) => break server,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    (server, listener)
}

/// Runs frames until one has an event that satisfies `is_last`, and returns the events of all.
fn frames_until(link: &mut Link, is_last: impl Fn(&LinkEvent) -> bool) -> Vec<LinkEvent> {
    let (begun, mut events) = (festina::now(), Vec::new());
    while festina::now() - begun < LONG {
        events.extend(link.update());
        if events.iter().any(&is_last) {
            return events;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("no such event: {:?}, {events:?}", link.state());
}

fn is_up(event: &LinkEvent) -> bool {
    *event == LinkEvent::Up
}

fn is_down(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Down { .. })
}

fn text(association: &Association) -> String {
    let message = association.recv(LONG).unwrap().unwrap();
    String::from_utf8(message.payload().to_vec()).unwrap()
}

#[test]
fn a_frame_never_waits_for_a_handshake_and_the_link_comes_up_when_the_server_does() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let mut link = link(ClientConfig::plain(), address);
    assert_eq!(link.state(), LinkState::Connecting);
    link.set_options(ConnectOptions::default().handshake_timeout(LONG));
    let events = frames_until(&mut link, is_down);
    let LinkEvent::Down { reason: LinkDown::Connect(ConnectError::Timeout { .. }), retry_at } = events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(events.len(), 1);
    assert_eq!(link.state(), LinkState::Down { retry_at });
    assert!(matches!(link.send("too early"), Err(SendError { kind: SendErrorKind::Closed, .. })));
    assert!(link.association().is_none());
    while link.state() != LinkState::Connecting {
        assert_eq!(link.update(), []);
    }
    // The handshake may take a minute; a thousand frames pass meanwhile.
    let begun = festina::now();
    assert!((0..1_000).all(|_| link.update().is_empty()));
    assert!(festina::now() - begun < LONG / 2);

    let (_server, listener) = server(address, &ServerConfig::plain());
    // The endpoint may refuse a request that arrives before it listens; the next attempt succeeds.
    let events = frames_until(&mut link, is_up);
    let (last, before) = events.split_last().unwrap();
    let is_refusal = |event: &LinkEvent| {
        matches!(event, LinkEvent::Down { reason: LinkDown::Connect(ConnectError::NotListening { .. }), .. })
    };
    assert!(*last == LinkEvent::Up && before.iter().all(is_refusal), "{events:?}");
    let far = listener.accept(LONG).unwrap().unwrap();
    link.send("hello").unwrap();
    assert_eq!(text(&far), "hello");
    far.send("welcome", LONG).unwrap();
    let events = frames_until(&mut link, |event| matches!(event, LinkEvent::Message(_)));
    assert!(matches!(&events[..], [LinkEvent::Message(message)] if message.payload() == "welcome"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_link_comes_back_after_its_server_was_killed_and_returns_the_messages_on_their_way() {
    let identity = Identity::self_signed("server.test").unwrap();
    let config = with(ServerSecurity::new(identity.clone()));
    let (first, listener) = server("127.0.0.1:0".parse().unwrap(), &config);
    let address = first.local_addr();
    let relay = Relay::to(address).await;
    tokio::task::block_in_place(|| {
        let mut link = link(with(trusting(identity.fingerprint())), relay.address);
        frames_until(&mut link, is_up);
        let far = listener.accept(LONG).unwrap().unwrap();
        link.send("received").unwrap();
        assert_eq!(text(&far), "received");
        link.association().unwrap().drained(LONG).unwrap();
        assert_eq!(link.update(), [], "a delivered message is not returned");
        relay.cut();
        link.send("on its way").unwrap();
        far.abort("killed");
        first.close(LONG).unwrap();
        drop((far, listener, first));
        let (_second, listener) = server(address, &config);
        relay.mend();
        let events = frames_until(&mut link, is_down);
        let [LinkEvent::Undelivered { message, reason }, LinkEvent::Down { reason: LinkDown::Closed(down), .. }] =
            &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((&message.payload()[..], *reason), (&b"on its way"[..], AbandonReason::UnacknowledgedAtEnd));
        assert_eq!(*down, ClosedReason::PeerReset);
        frames_until(&mut link, is_up);
        let far = listener.accept(LONG).unwrap().unwrap();
        link.send(message.clone()).unwrap();
        assert_eq!(text(&far), "on its way");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_link_comes_back_after_the_network_was_away() {
    let impatient = Transport::default().with_peer_timeout(Duration::from_secs(1));
    let (server, listener) =
        server("127.0.0.1:0".parse().unwrap(), &ServerConfig::plain().with_transport(impatient.clone()));
    let relay = Relay::to(server.local_addr()).await;
    tokio::task::block_in_place(|| {
        let mut link = link(ClientConfig::plain().with_transport(impatient), relay.address);
        frames_until(&mut link, is_up);
        relay.cut();
        link.send("into the void").unwrap();
        let events = frames_until(&mut link, is_down);
        assert!(matches!(events[0], LinkEvent::Undelivered { .. }), "{events:?}");
        let LinkEvent::Down { reason, .. } = &events[1] else { panic!("{events:?}") };
        assert_eq!(*reason, LinkDown::Closed(ClosedReason::PeerUnreachable));
        // Several attempts fail before the network returns.
        (0..2).for_each(|_| drop(frames_until(&mut link, is_down)));
        relay.mend();
        frames_until(&mut link, is_up);
        link.send("back").unwrap();
        let far = std::iter::from_fn(|| listener.accept(LONG).unwrap()).find(|far| far.close_reason().is_none());
        assert!(std::iter::from_fn(|| far.as_ref()?.recv(LONG).unwrap()).any(|message| message.payload() == "back"));
    });
}

#[test]
fn every_accepted_message_is_delivered_or_returned_once_over_three_restarts() {
    let config = ServerConfig::plain();
    let (mut running, mut listener) = server("127.0.0.1:0".parse().unwrap(), &config);
    let address = running.local_addr();
    let mut link = link(ClientConfig::plain(), address);
    let (mut accepted, mut received, mut returned) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for round in 0..4_u32 {
        frames_until(&mut link, is_up);
        let far = listener.accept(LONG).unwrap().unwrap();
        for frame in 0..50 {
            let number = round * 50 + frame;
            if link.send(number.to_be_bytes().to_vec()).is_ok() {
                accepted.insert(number);
            }
            // The server reads half of them, and dies or, at last, leaves in good order.
            if frame % 2 == 0 {
                received.insert(u32::from_be_bytes(far.recv(LONG).unwrap().unwrap().payload()[..].try_into().unwrap()));
            }
            assert!(link.update().is_empty());
        }
        if round == 3 {
            link.end();
            assert_eq!(link.state(), LinkState::Ending);
            assert!(matches!(link.send("too late"), Err(SendError { kind: SendErrorKind::Closed, .. })));
        } else {
            far.abort("killed");
            running.close(LONG).unwrap();
        }
        while let Ok(Some(message)) = far.recv(LONG) {
            received.insert(u32::from_be_bytes(message.payload()[..].try_into().unwrap()));
        }
        let is_last = |event: &LinkEvent| if round == 3 { *event == LinkEvent::Ended } else { is_down(event) };
        for event in frames_until(&mut link, is_last) {
            if let LinkEvent::Undelivered { message, reason } = event {
                let number = u32::from_be_bytes(message.payload()[..].try_into().unwrap());
                assert_eq!(returned.insert(number, reason), None, "{number} was returned twice");
            }
        }
        if round < 3 {
            drop((far, listener, running));
            (running, listener) = server(address, &config);
        }
    }
    for number in &accepted {
        let is_certain = returned.get(number) != Some(&AbandonReason::UnacknowledgedAtEnd);
        assert!(received.contains(number) || returned.contains_key(number), "{number} is lost: {returned:?}");
        assert!(!is_certain || received.contains(number) != returned.contains_key(number), "{number}: {returned:?}");
    }
    assert_eq!(link.state(), LinkState::Ended);
    assert_eq!(link.update(), []);
}

#[test]
fn a_link_that_is_down_ends_at_once_and_one_whose_endpoint_was_closed_ends_by_itself() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut down = link(ClientConfig::plain(), closed.local_addr().unwrap());
    down.end();
    assert_eq!(down.update(), [LinkEvent::Ended]);
    assert_eq!(down.update(), []);

    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap(), ClientConfig::plain()).unwrap();
    let mut link = endpoint.link(closed.local_addr().unwrap(), ConnectOptions::default());
    endpoint.close(LONG).unwrap();
    frames_until(&mut link, |event| *event == LinkEvent::Ended);
}

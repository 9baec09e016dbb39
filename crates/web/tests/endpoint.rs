//! The endpoint on a real socket against a native client that speaks as a browser does.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod browser;

use std::net::SocketAddr;

use browser::Browser;
use bytes::Bytes;
use festina_sctp::{Direction, Event, Message, SendErrorKind};
use festina_units::Duration;
use festina_web::{ChannelMessage, ChannelOptions, Peer, WebConfig, WebEndpoint};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const BINARY: u32 = 53;
const DCEP: u32 = 50;
/// Opens an ordered channel with the label "x" (RFC 8832 §5.1), and acknowledges one.
const OPEN: &[u8] = b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00x";
const ACK: &[u8] = &[2];

/// The origin of DTLS's clock.
#[expect(clippy::disallowed_methods, reason = "DTLS takes the standard library's instants; only differences count")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// A client on a socket.
struct Client {
    browser: Browser,
    socket: UdpSocket,
    server: SocketAddr,
    /// The datagrams that answer the one that was waited for are lost.
    loses_answers: bool,
}

impl Client {
    async fn connect(endpoint: &WebEndpoint) -> (Self, Peer) {
        let mut browser = Browser::new(festina::now(), clock(), 1);
        let (_, answer) = endpoint.answer(&browser.offer()).await.unwrap();
        let server = browser.take_answer(&answer);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut client = Self { browser, socket, server, loses_answers: false };
        let peer = tokio::select! {
            peer = endpoint.accept() => peer.unwrap(),
            never = client.drive(|_| None::<()>) => panic!("{never:?}"),
        };
        (client, peer)
    }

    /// Sends and receives until `found` finds something in the browser.
    async fn drive<R>(&mut self, mut found: impl FnMut(&mut Browser) -> Option<R>) -> R {
        let mut buffer = [0; 2_048];
        let run = async {
            loop {
                let now = festina::now();
                self.browser.handle_timeout(now);
                // Before the datagrams are sent, which it may hold back.
                let result = found(&mut self.browser);
                for datagram in self.browser.poll_datagrams(now) {
                    if result.is_none() || !self.loses_answers {
                        self.socket.send_to(&datagram, self.server).await.unwrap();
                    }
                }
                if let Some(result) = result {
                    return result;
                }
                let wait = self.browser.poll_deadline(now).map_or(PATIENCE, |at| at.saturating_duration_since(now));
                tokio::select! {
                    received = self.socket.recv_from(&mut buffer) => {
                        let bytes = received.unwrap().0;
                        self.browser.handle_datagram(festina::now(), &buffer[..bytes]);
                    }
                    () = sleep(wait) => {}
                }
            }
        };
        timeout(PATIENCE, run).await.expect("it happens")
    }

    fn send(&mut self, stream: u16, ppid: u32, bytes: &'static [u8]) {
        self.browser.send(festina::now(), Message::new(bytes).with_ppid(ppid).on_stream(stream));
    }

    async fn receive(&mut self, stream: u16) -> (u32, Bytes) {
        let message = self.drive(Browser::recv).await;
        assert_eq!(message.stream().0, stream);
        (message.ppid(), message.into_payload())
    }

    /// The server has reset its stream, too.
    async fn closed(&mut self) {
        let is_reset = |event| matches!(event, Event::StreamsReset { direction: Direction::Inbound, .. });
        self.drive(|browser| std::iter::from_fn(|| browser.poll_event()).any(is_reset).then_some(())).await;
    }
}

async fn server(config: WebConfig) -> WebEndpoint {
    WebEndpoint::bind("127.0.0.1:0".parse().unwrap(), config).await.unwrap()
}

/// Echoes the messages of each channel.
fn echo(peer: &Peer) {
    let peer = peer.clone();
    tokio::spawn(async move {
        while let Some(channel) = peer.accept_channel().await {
            tokio::spawn(async move {
                while let Some(message) = channel.recv().await {
                    channel.send(message).await.unwrap();
                }
            });
        }
    });
}

/// A report (node-datachannel#196): a browser uses a number again as soon as both directions are reset. The server's reset is not confirmed then if the
/// answer was lost.
#[tokio::test]
async fn a_number_is_used_again_though_the_answer_to_the_reset_is_lost() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    echo(&peer);
    for round in 0..10 {
        client.send(2, DCEP, OPEN);
        client.send(2, BINARY, b"hello");
        assert_eq!(client.receive(2).await, (DCEP, ACK.into()), "round {round}");
        assert_eq!(client.receive(2).await, (BINARY, "hello".into()), "round {round}");
        client.browser.reset(festina::now(), 2);
        client.loses_answers = true;
        client.closed().await;
        client.loses_answers = false;
    }
}

/// Opens an unordered channel without retransmissions, with the label "x", whose messages the page repeats.
const OPEN_REPEATED: &[u8] = b"\x03\x81\x00\x00\x00\x00\x00\x00\x00\x01\x00\x0exrepeat.festina";

#[tokio::test]
async fn a_message_that_the_page_repeats_is_delivered_once_and_acknowledged_twice() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    echo(&peer);
    client.send(2, DCEP, OPEN_REPEATED);
    assert_eq!(client.receive(2).await, (DCEP, ACK.into()));
    let (text, acknowledgement) = (b"\x01\0\0\0\x04\x06hello", "\u{6}0000000400000000");
    client.send(2, BINARY, text);
    assert_eq!(client.receive(2).await, (51, acknowledgement.into()));
    assert_eq!(client.receive(2).await, (51, "\u{6}\u{6}hello".into()));
    client.send(2, BINARY, text);
    assert_eq!(client.receive(2).await, (51, acknowledgement.into()));
    client.send(2, BINARY, b"\x00\0\0\0\x05bytes");
    assert_eq!(client.receive(2).await, (51, "\u{6}0000000500000001".into()));
    assert_eq!(client.receive(2).await, (BINARY, "bytes".into()));
}

#[tokio::test]
async fn a_message_that_is_too_large_for_the_browser_is_refused() {
    let endpoint = server(WebConfig::default()).await;
    let (_client, peer) = Client::connect(&endpoint).await;
    let channel = peer.negotiated_channel(7, "state", ChannelOptions::default()).unwrap();
    // The client's offer has no `a=max-message-size`.
    let error = channel.send(vec![0; 65_537]).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::TooLong { bytes_max: 65_536 });
    channel.try_send(vec![0; 65_536]).unwrap();
}

#[tokio::test]
async fn a_lifetime_of_0_sends_a_message_once() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    let options = ChannelOptions { max_packet_life_time: Some(0), ordered: false, ..ChannelOptions::default() };
    let channel = peer.negotiated_channel(7, "state", options).unwrap();
    channel.send(ChannelMessage::from("now")).await.unwrap();
    assert_eq!(client.receive(7).await, (51, "now".into()));
}

#[tokio::test]
async fn a_channel_that_the_server_drops_is_closed_for_the_browser() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    let channel = peer.open_channel("news", ChannelOptions::default()).await.unwrap();
    channel.send(ChannelMessage::from("first")).await.unwrap();
    let (ppid, open) = client.receive(1).await;
    assert!(ppid == DCEP && open.ends_with(b"news"), "{open:?}");
    assert_eq!(client.receive(1).await, (51, "first".into()));
    drop(channel);
    client.closed().await;
}

#[tokio::test]
async fn a_browser_whose_last_handle_is_dropped_is_disconnected() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    let other = peer.clone();
    drop(peer);
    let channel = other.negotiated_channel(7, "state", ChannelOptions::default()).unwrap();
    channel.send(ChannelMessage::from("still there")).await.unwrap();
    assert_eq!(client.receive(7).await, (51, "still there".into()));
    drop(other);
    let is_over = |event| matches!(event, Event::Closed(_));
    client.drive(|browser| std::iter::from_fn(|| browser.poll_event()).any(is_over).then_some(())).await;
}

#[tokio::test]
async fn a_browser_that_leaves_ends_its_channels() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    client.send(2, DCEP, OPEN);
    let channel = tokio::select! {
        channel = peer.accept_channel() => channel.unwrap(),
        never = client.drive(|_| None::<()>) => panic!("{never:?}"),
    };
    client.browser.abort();
    tokio::select! {
        message = channel.recv() => assert_eq!(message, None),
        never = client.drive(|_| None::<()>) => panic!("{never:?}"),
    }
    peer.closed().await;
}

#[tokio::test]
async fn each_channel_has_its_own_buffered_amount() {
    let endpoint = server(WebConfig::default()).await;
    let (mut client, peer) = Client::connect(&endpoint).await;
    let bulk = peer.open_channel("bulk", ChannelOptions::default()).await.unwrap();
    let thin = peer.open_channel("thin", ChannelOptions::default()).await.unwrap();
    for _ in 0..4 {
        bulk.try_send(vec![7; 60_000]).unwrap();
    }
    thin.try_send(vec![7; 1_000]).unwrap();
    // The client takes nothing yet, so little more than the first window was sent.
    assert_eq!((bulk.buffered_amount() > 150_000, thin.buffered_amount()), (true, 1_000));

    bulk.set_buffered_amount_low_threshold(100_000);
    let waiting = bulk.clone();
    let low = tokio::spawn(async move {
        waiting.buffered_amount_low().await;
        waiting.buffered_amount()
    });
    sleep(Duration::from_millis(50)).await;
    assert!(!low.is_finished());
    let mut bytes = 0;
    let all = |browser: &mut Browser| {
        while let Some(message) = browser.recv() {
            bytes += if message.ppid() == BINARY { message.payload().len() } else { 0 };
        }
        (bytes == 241_000).then_some(())
    };
    client.drive(all).await;
    assert!(low.await.unwrap() <= 100_000);
    assert_eq!((bulk.buffered_amount(), thin.buffered_amount()), (0, 0));
    bulk.buffered_amount_low().await;
}

//! A collector that is present and does not answer.

use std::path::Path;

use bytes::Bytes;
use festina::{ClientConfig, ClosedReason, Endpoint, ServerConfig};

use super::*;
use crate::line::Severity;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::scratch::Directory;
use crate::sender::{Routing, SenderLimits};
use crate::wire::Packet;

const SECOND_US: u64 = 1_000_000;

fn sender(directory: &Path) -> Sender<RealDisk> {
    let collectors = ["silent", "other"].map(str::to_owned).to_vec();
    let routing = Routing { collectors, spread: false, after: Duration::from_secs(1), repeat_after: None };
    let limits = SenderLimits { bytes_max: 1 << 20, age_max: Duration::from_secs(3_600), window_lines_max: 64 };
    Sender::open(&RealDisk, directory, limits, &routing, [7; 16], 0).expect("the disk works")
}

/// A relay with a line and a collector that has welcomed it; the relay's endpoint is to be kept, and so is the collector's association.
struct Pair {
    _directory: Directory,
    _endpoints: [Endpoint; 2],
    sender: Sender<RealDisk>,
    channel: Channel,
    collector: Association,
}

impl Pair {
    async fn new() -> Self {
        let directory = Directory::new();
        let any = "127.0.0.1:0".parse().expect("an address");
        let relay =
            Endpoint::client(any, ClientConfig::plain().with_transport(transport::settings())).await.expect("a socket");
        let collector =
            Endpoint::server(any, ServerConfig::plain().with_transport(transport::settings())).await.expect("a socket");
        let listener = collector.listen(transport::PORT).expect("the port is free");
        let options = festina::ConnectOptions::default().peer_port(transport::PORT);
        let connected = relay.connect_with(collector.local_addr(), options).await.expect("it is there");
        let accepted = listener.accept().await.expect("the relay has connected");
        let (mut sender, mut channel) = (sender(&directory.0), Channel::new(0));
        channel.begin(connected, &mut sender, 0);
        let pair = Self { _directory: directory, _endpoints: [relay, collector], sender, channel, collector: accepted };
        pair.says(Packet::Welcome(vec![Ranges::default(); usize::from(PRIORITIES)]), 0).await
    }

    /// The collector says something, and the relay hears it.
    async fn says(mut self, packet: Packet, now_us: u64) -> Self {
        self.collector.try_send(Message::new(packet.encode())).expect("there is room");
        let came = self.channel.receive().await;
        assert_eq!(self.channel.take(came, &mut self.sender, now_us), None);
        self
    }

    /// A line leaves, the only one.
    fn send_line(&mut self, now_us: u64) {
        let (source, line) = (Bytes::from("1"), Bytes::from("<11>a line"));
        let record = Record { sequence: 0, received_us: now_us, marks: 0, severity: Severity::new(3), source, line };
        self.sender.take(record, 0);
        self.channel.send(&mut self.sender, now_us);
        assert_eq!(self.sender.unanswered(0), 1);
    }

    /// Whether the collector is there after what there is to do at this time.
    fn is_here(&mut self, now_us: u64) -> bool {
        self.channel.keep_time(&mut self.sender, now_us);
        self.sender.is_welcomed(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_answers_for_no_line_for_30_s_is_left_and_told_so() {
    let mut pair = Pair::new().await;
    assert!(pair.is_here(100 * SECOND_US), "it has nothing to answer for");
    pair.send_line(101 * SECOND_US);
    assert!(pair.is_here(130 * SECOND_US));
    assert!(!pair.is_here(130 * SECOND_US + 1));
    // Messages received before the end can still be read; then reading fails.
    while let Ok(Some(_)) = pair.collector.recv().await {}
    let reason = pair.collector.closed().await;
    assert!(matches!(reason, ClosedReason::AbortedByPeer { .. }), "{reason:?}");
    // Its line waits for it.
    assert_eq!((pair.sender.unanswered(0), pair.sender.unsettled()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_answers_now_and_then_is_not_left() {
    let mut pair = Pair::new().await;
    assert!(pair.is_here(0));
    pair.send_line(SECOND_US);
    assert!(pair.is_here(29 * SECOND_US));
    // It has acknowledged something, but not this line.
    let mut pair = pair.says(Packet::Acks { fresh: 0, fresh_messages: 0, spans: Vec::new() }, 29 * SECOND_US).await;
    assert!(pair.is_here(59 * SECOND_US) && !pair.is_here(59 * SECOND_US + 1));
}

//! Peers of a collector that are no relays.

use festina::{ClientConfig, ConnectOptions, Endpoint};
use festina_syslog::collect::RunningCollector;
use festina_syslog::config::CollectorConfig;

use super::*;

/// The SCTP port of collectors.
const PORT: u16 = 6_514;

async fn collector_for(mode: Mode, directory: &Path, allow: &str) -> RunningCollector {
    let text = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\nallow = [{allow:?}]\n[[output]]\nkind = \"file\"\npath = {:?}\n{}",
        directory.join("collect"),
        directory.join("lines.log"),
        mode.of_collector()
    );
    let config = CollectorConfig::parse("collect.toml", &text).expect("the file is right");
    RunningCollector::start(config, silent()).await.expect("it starts")
}

async fn send_line(relay: &RunningRelay, line: &str) {
    let mut stream = TcpStream::connect(relay.inputs()[1].expect("an address")).expect("it listens");
    writeln!(stream, "{line}").expect("it is sent");
    drop(stream);
    until("the line arrives", || relay.snapshot().delivered == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_of_addresses_that_are_not_allowed_are_counted_and_not_answered() {
    for mode in MODES {
        a_relay_is_not_answered(mode).await;
    }
}

async fn a_relay_is_not_answered(mode: Mode) {
    let directory = Directory::new();
    let collector = collector_for(mode, &directory.0, "192.0.2.0/24").await;
    let relay = relay_in(mode, &directory.0, collector.local_addr()).await;
    until("a handshake is counted", || collector.snapshot().strangers.not_allowed > 0).await;
    assert!(!relay.snapshot().paths.connected);
    let text = collector.snapshot().prometheus();
    assert!(!text.contains("festina_syslog_collector_not_allowed_packets_total 0\n"), "{text}");
    collector.stop().await;
    relay.stop(Duration::ZERO).await;
}

/// More silent associations than an address may have, more than the transport accepts of it, and a relay with the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_associations_shut_out_no_relay_of_their_address() {
    let directory = Directory::new();
    let collector = collector_for(Mode::Plain, &directory.0, "127.0.0.1").await;
    let endpoint = Endpoint::client(any_address(), ClientConfig::plain()).await.expect("a socket");
    let options = ConnectOptions::default().peer_port(PORT);
    let mut silent = Vec::new();
    for _ in 0..4_200 {
        silent.push(endpoint.connect_with(collector.local_addr(), options.clone()).await.expect("it is accepted"));
    }
    until("the oldest are ended", || collector.snapshot().strangers.replaced > 3_500).await;
    assert!(collector.snapshot().strangers.silent <= 256, "{:?}", collector.snapshot());
    let relay = relay_in(Mode::Plain, &directory.0, collector.local_addr()).await;
    send_line(&relay, "<11>an important line").await;
    assert_eq!(directory.output(), "<11>an important line\n");
    relay.stop(PATIENCE).await;
    collector.stop().await;
}

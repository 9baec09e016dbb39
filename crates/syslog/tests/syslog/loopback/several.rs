//! Several collectors on real sockets.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;

use festina_syslog::config::RelayConfig;
use festina_syslog::relay::RunningRelay;

use super::{Directory, PATIENCE, any_address, collector, silent, until};

/// A relay with these collectors and an input over TCP; `first` and `last` are more of its file.
async fn relay(directory: &Path, collectors: &[SocketAddr], first: &str, last: &str) -> RunningRelay {
    let collectors: Vec<String> = collectors.iter().map(ToString::to_string).collect();
    let text = format!(
        "state = {:?}\ncollector = {collectors:?}\n{first}\nmetrics = \"127.0.0.1:0\"\n[[input]]\nkind = \"tcp\"\n\
         listen = \"127.0.0.1:0\"\n[failover]\nafter = \"300ms\"\n{last}",
        directory.join("relay")
    );
    let config = RelayConfig::parse("relay.toml", &text).expect("the file is right");
    RunningRelay::start(config, silent()).await.expect("it starts")
}

fn send(relay: &RunningRelay, numbers: std::ops::Range<u64>) {
    let mut stream = TcpStream::connect(relay.inputs()[0].expect("an address")).expect("it listens");
    for number in numbers {
        writeln!(stream, "<11>number {number}").expect("it is sent");
        writeln!(stream, "<14>fresh {number}").expect("it is sent");
    }
}

/// Collectors that get new lines. One that was slow to answer at the start is connected for a while before it is trusted.
fn trusted(relay: &RunningRelay) -> usize {
    relay.snapshot().paths.collectors.iter().filter(|one| one.connected && !one.gone).count()
}

/// The important lines of an output.
fn important(directory: &Directory) -> String {
    directory.output().lines().filter(|line| line.contains("number")).map(|line| format!("{line}\n")).collect()
}

fn numbers(range: std::ops::Range<u64>) -> String {
    range.map(|number| format!("<11>number {number}\n")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_collector_takes_the_place_of_one_that_is_gone_until_that_is_back() {
    let (near, first, second) = (Directory::new(), Directory::new(), Directory::new());
    let a = collector(&first.0, any_address()).await;
    let b = collector(&second.0, any_address()).await;
    let addresses = [a.local_addr(), b.local_addr()];
    let relay = relay(&near.0, &addresses, "", "").await;
    until("both are there", || trusted(&relay) == 2).await;
    send(&relay, 0..100);
    // Fresh lines may be abandoned on a slow machine.
    until("the first collector has all", || important(&first) == numbers(0..100)).await;

    a.stop().await;
    until("it is gone", || relay.snapshot().paths.collectors[0].gone).await;
    send(&relay, 100..200);
    until("the second has the others", || important(&second) == numbers(100..200)).await;

    let a = collector(&first.0, addresses[0]).await;
    until("it is back", || trusted(&relay) == 2).await;
    send(&relay, 200..300);
    let both = numbers(0..100) + &numbers(200..300);
    until("it has new ones", || important(&first) == both).await;

    let status = festina_syslog::serve::ask_status(relay.metrics().expect("it is served")).await.expect("it answers");
    let read: festina_syslog::snapshot::RelaySnapshot = serde_json::from_str(&status).expect("JSON");
    assert_eq!(read.paths.collectors[1].address, addresses[1].to_string());
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.spooled == 0, "{last:?}");
    let delivered = last.paths.collectors[1].delivered;
    // Fresh lines of the first hundred may still be under way when their collector ends.
    assert!((100..=300).contains(&delivered), "{last:?}");
    let line =
        format!("festina_syslog_to_collector_delivered_lines_total{{collector=\"{}\"}} {delivered}\n", addresses[1]);
    assert!(last.prometheus().contains(&line), "{}", last.prometheus());
    a.stop().await;
    b.stop().await;
    assert_eq!((important(&first), important(&second)), (both, numbers(100..200)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_are_spread_and_each_stays_with_its_collector() {
    let near = Directory::new();
    let places = [Directory::new(), Directory::new(), Directory::new()];
    let mut collectors = Vec::new();
    for place in &places {
        collectors.push(collector(&place.0, any_address()).await);
    }
    let addresses: Vec<SocketAddr> = collectors.iter().map(|collector| collector.local_addr()).collect();
    let input = "[[input]]\nkind = \"udp\"\nlisten = \"127.0.0.1:0\"\n";
    let relay = relay(&near.0, &addresses, "spread = true", input).await;
    until("all are there", || trusted(&relay) == 3).await;
    let to = relay.inputs()[1].expect("an address");
    let sources: Vec<_> =
        (1..=40).map(|last| UdpSocket::bind(SocketAddr::from(([127, 0, 1, last], 0))).expect("a socket")).collect();
    for number in 0..50 {
        for (index, source) in sources.iter().enumerate() {
            source.send_to(format!("<11>number {index} {number}").as_bytes(), to).expect("it is sent");
        }
        // The input's buffer is not to overflow.
        let sent = (number + 1) * sources.len() as u64;
        until("they are taken", || relay.snapshot().received.iter().sum::<u64>() == sent).await;
    }
    until("all lines arrive", || relay.snapshot().delivered == 2_000).await;
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.spooled == 0, "{last:?}");
    for collector in collectors {
        collector.stop().await;
    }
    let outputs = places.each_ref().map(important);
    for index in 0..sources.len() {
        let expected: Vec<String> = (0..50).map(|number| format!("<11>number {index} {number}")).collect();
        let of = |output: &String| {
            let lines = output.lines().filter(|line| line.contains(&format!("number {index} ")));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let with: Vec<_> = outputs.iter().map(of).filter(|lines| !lines.is_empty()).collect();
        assert_eq!(with, [expected]);
    }
    assert!(outputs.iter().all(|output| !output.is_empty()), "{:?}", last.paths);
}

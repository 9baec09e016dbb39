//! Two relays, two collectors and a broker of Kafka, all processes of their own. The broker is killed twice, and each collector once: every
//! line is once in the topic, the lines of a source are in their order, and none was answered while there was no broker.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;

use festina_syslog::snapshot::{CollectorSnapshot, RelaySnapshot};
use festina_units::Duration;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use server::Server;
use tokio::time::Instant;

use crate::processes::{self, PATIENCE, free_address, kill, status_when};

const TOPIC: &str = "lines";
/// Sources of each relay.
const SOURCES: u8 = 3;

const ROLES: &str = "kafka::a_process_of_the_other_test_is_a_relay_or_a_collector";

#[test]
fn a_process_of_the_other_test_is_a_relay_or_a_collector() {
    processes::be_what_was_asked();
}

/// A relay and its collector.
struct Pair {
    directory: PathBuf,
    number: u8,
    relay: Child,
    collector: Child,
    input: SocketAddr,
    relay_metrics: SocketAddr,
    collector_metrics: SocketAddr,
    /// Lines of each source so far.
    written: u32,
}

fn start(directory: &Path, role: &str) -> Child {
    processes::start(ROLES, directory, role)
}

impl Pair {
    fn start(directory: &Path, number: u8, kafka: &str) -> Self {
        let [input, relay_metrics, collector_metrics, transport] = std::array::from_fn(|_| free_address());
        let state = |role: &str| directory.join(format!("{role}{number}"));
        let relay = format!(
            "state = {:?}\ncollector = \"{transport}\"\nmetrics = \"{relay_metrics}\"\n[[input]]\nkind = \"tcp\"\n\
             listen = \"{input}\"",
            state("spool"),
        );
        let collector = format!(
            "state = {:?}\nlisten = \"{transport}\"\nmetrics = \"{collector_metrics}\"\n[[output]]\nkind = \"file\"\n\
             path = {:?}\n[[output]]\nkind = \"kafka\"\ntopic = \"{TOPIC}\"\n{kafka}[security]\nrelays = \"any\"",
            state("memory"),
            state("lines"),
        );
        std::fs::write(directory.join(format!("relay{number}.toml")), relay).expect("it can be written");
        std::fs::write(directory.join(format!("collect{number}.toml")), collector).expect("it can be written");
        Self {
            directory: directory.to_owned(),
            number,
            relay: start(directory, &format!("relay{number}")),
            collector: start(directory, &format!("collect{number}")),
            input,
            relay_metrics,
            collector_metrics,
            written: 0,
        }
    }

    fn source(&self, source: u8) -> String {
        format!("127.0.{}.{}", self.number, source + 1)
    }

    /// Writes the next lines of each source.
    async fn write(&mut self, lines: u32) {
        let before: u64 = self.relay_status("the relay lives", |_| true).await.received.iter().sum();
        for source in 0..SOURCES {
            let name = self.source(source);
            let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
            let from = SocketAddr::new(name.parse().expect("an address"), 0);
            socket.bind(from).expect("all of 127.0.0.0/8 is this machine");
            let stream = socket.connect(self.input).await.expect("it listens");
            let mut stream = stream.into_std().expect("a stream");
            stream.set_nonblocking(false).expect("a stream");
            for number in self.written..self.written + lines {
                writeln!(stream, "<11>{name} {number}").expect("it is taken");
            }
        }
        self.written += lines;
        let all = before + u64::from(lines) * u64::from(SOURCES);
        self.relay_status("all lines are taken", |status| status.received.iter().sum::<u64>() == all).await;
    }

    async fn relay_status(&self, what: &str, is_so: impl Fn(&RelaySnapshot) -> bool) -> RelaySnapshot {
        status_when(self.relay_metrics, what, is_so).await
    }

    fn kill_collector(&mut self) {
        kill(&mut self.collector);
        self.collector = start(&self.directory, &format!("collect{}", self.number));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in [&mut self.relay, &mut self.collector] {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for role in ["relay", "collect"] {
                let log = self.directory.join(format!("{role}{}.notices", self.number));
                eprintln!("{role} {}: {}", self.number, std::fs::read_to_string(log).unwrap_or_default());
            }
        }
    }
}

/// Writes for a while, as programs do that know of nothing.
async fn write_for(pairs: &mut [Pair; 2], rounds: u32) {
    for _ in 0..rounds {
        for pair in &mut *pairs {
            pair.write(5).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Nothing is delivered while there is no broker, and what comes is kept.
async fn nothing_is_answered(pairs: &mut [Pair; 2]) {
    // What the broker had taken before it was killed may still be answered for.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for pair in &mut *pairs {
        let before = pair.relay_status("the relay lives", |_| true).await.delivered;
        pair.write(20).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let status = pair.relay_status("the relay lives", |_| true).await;
        assert_eq!(status.delivered, before, "{status:?}");
        assert!(status.spooled >= 20 * u64::from(SOURCES), "{status:?}");
    }
}

/// Every line that is committed in the topic: key, text, and what its headers say.
fn topic(broker: &str) -> Vec<(String, String, [String; 3])> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker).set("group.id", "reader").set("isolation.level", "read_committed");
    config.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(TOPIC), PATIENCE).expect("the broker is there");
    let partitions = metadata.topics()[0].partitions().len();
    assert_eq!(partitions, 3);
    let mut all = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        all.add_partition_offset(TOPIC, partition.id(), Offset::Beginning).expect("a partition");
    }
    consumer.assign(&all).expect("the partitions are there");
    let (mut lines, mut ended) = (Vec::new(), BTreeSet::new());
    let end = Instant::now() + PATIENCE;
    while ended.len() < partitions {
        assert!(Instant::now() < end, "{ended:?}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).expect("text");
                let headers = message.headers().expect("they are there");
                let header =
                    |name: &str| text(headers.iter().find(|header| header.key == name).and_then(|header| header.value));
                let headers = ["sender", "priority", "number"].map(header);
                lines.push((text(message.key()), text(message.payload()), headers));
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            _ => {}
        }
    }
    lines
}

/// Each line once, and in the order of its source.
fn check(lines: &[(String, String, [String; 3])], pairs: &[Pair; 2]) {
    let (mut next, mut numbers) = (BTreeMap::new(), BTreeSet::new());
    for (key, line, headers) in lines {
        let (source, number) = line.strip_prefix("<11>").and_then(|line| line.split_once(' ')).expect("two words");
        assert_eq!(source, key);
        let expected = next.entry(source.to_owned()).or_insert(0_u32);
        assert_eq!(number.parse(), Ok(*expected), "{source}");
        *expected += 1;
        assert!(headers.iter().all(|header| !header.is_empty()) && numbers.insert(headers), "{headers:?}");
    }
    for pair in pairs {
        for source in 0..SOURCES {
            assert_eq!(next.get(&pair.source(source)), Some(&pair.written));
        }
    }
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_broker_and_killed_collectors_lose_no_line_and_none_is_twice_in_the_topic() {
    let Some(jars) = server::jars() else { return };
    let directory = Directory(std::env::temp_dir().join(format!("festina-syslog-kafka-{}", std::process::id())));
    std::fs::create_dir_all(&directory.0).expect("a directory can be made");
    let mut broker = Server::new(jars, &directory.0);
    broker.start();
    let plain = format!("127.0.0.1:{}", broker.plain);
    let certificate = directory.0.join("server.pem");
    // One of the collectors speaks TLS.
    let tls = format!(
        "brokers = \"localhost:{}\"\n[output.options]\n\"security.protocol\" = \"SSL\"\n\"ssl.ca.location\" = {certificate:?}\n\
         \"broker.address.family\" = \"v4\"\n",
        broker.tls
    );
    let first = Pair::start(&directory.0, 1, &format!("brokers = \"{plain}\"\n"));
    let mut pairs = [first, Pair::start(&directory.0, 2, &tls)];
    write_for(&mut pairs, 20).await;
    for pair in &pairs {
        pair.relay_status("lines are delivered", |status| status.delivered > 0).await;
    }

    broker.kill();
    nothing_is_answered(&mut pairs).await;
    // Only the broker can decide about the commit that this collector has prepared.
    pairs[0].kill_collector();
    broker.start();
    write_for(&mut pairs, 20).await;
    for pair in &pairs {
        let before = u64::from(pair.written) * u64::from(SOURCES);
        pair.relay_status("all is delivered again", |status| status.delivered == before).await;
    }

    // Once more, in the midst of lines; and the other collector while the broker works.
    write_for(&mut pairs, 5).await;
    pairs[1].kill_collector();
    write_for(&mut pairs, 5).await;
    broker.kill();
    write_for(&mut pairs, 5).await;
    broker.start();
    write_for(&mut pairs, 20).await;
    for pair in &pairs {
        pair.relay_status("all lines arrive", |status| status.paths.connected && status.spooled == 0).await;
        let counted =
            status_when(pair.collector_metrics, "it counts", |status: &CollectorSnapshot| status.brokered > 0);
        assert_eq!(counted.await.brokered_cut, 0);
    }
    let lines = tokio::task::spawn_blocking(move || topic(&plain)).await.expect("it is read");
    check(&lines, &pairs);
}

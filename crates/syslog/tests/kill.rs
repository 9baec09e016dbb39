//! `kill -9` of real processes at moments that nobody chose: no line that the relay had taken is lost, none is there twice, and all keep their
//! order.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::relay::{Notice, RunningRelay};
use festina_syslog::serve;
use festina_syslog::snapshot::RelaySnapshot;
use festina_units::Duration;

/// What a process of this test is to be, and in which directory.
const ROLE: &str = "FESTINA_SYSLOG_TEST_ROLE";
const DIRECTORY: &str = "FESTINA_SYSLOG_TEST_DIRECTORY";

/// Kills, unless the environment says otherwise: `SYSLOG_KILLS=500`.
const ROUNDS: usize = 12;
const LINES_PER_ROUND: usize = 500;

/// The test binary itself, in one of its two roles. It ends only by being killed.
#[test]
fn a_process_of_the_other_test_is_a_relay_or_a_collector() {
    let (Ok(role), Ok(directory)) = (std::env::var(ROLE), std::env::var(DIRECTORY)) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let silent: Notice = Arc::new(|_: &str| {});
        let text = std::fs::read_to_string(Path::new(&directory).join(format!("{role}.toml"))).expect("a file");
        if role == "relay" {
            let relay =
                RunningRelay::start(RelayConfig::parse("relay", &text).expect("it is right"), silent.clone()).await;
            let _relay = relay.expect("it starts");
            std::future::pending::<()>().await;
        }
        let config = CollectorConfig::parse("collect", &text).expect("it is right");
        let _collector = RunningCollector::start(config, silent).await.expect("it starts");
        std::future::pending::<()>().await;
    });
}

struct Processes {
    directory: PathBuf,
    relay: Child,
    collector: Child,
}

impl Processes {
    fn start(directory: &Path, role: &str) -> Child {
        let test = std::env::current_exe().expect("this is a program");
        let mut command = Command::new(test);
        command.args(["--exact", "a_process_of_the_other_test_is_a_relay_or_a_collector"]);
        command.env(ROLE, role).env(DIRECTORY, directory).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it starts")
    }

    fn kill(&mut self, role: &str) {
        let child = if role == "relay" { &mut self.relay } else { &mut self.collector };
        child.kill().expect("it lives");
        child.wait().expect("it is over");
        *child = Self::start(&self.directory, role);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in [&mut self.relay, &mut self.collector] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A port that was free a moment ago.
fn free_port(udp: bool) -> u16 {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let bound = if udp {
        std::net::UdpSocket::bind(any).and_then(|socket| socket.local_addr())
    } else {
        std::net::TcpListener::bind(any).and_then(|listener| listener.local_addr())
    };
    bound.expect("there is a free port").port()
}

/// The counters of the relay, once they are as asked for.
async fn status_when(metrics: SocketAddr, what: &str, is_so: impl Fn(&RelaySnapshot) -> bool) -> RelaySnapshot {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let status = serve::ask_status(metrics).await.ok().and_then(|text| serde_json::from_str(&text).ok());
        match status {
            Some(status) if is_so(&status) => return status,
            status => assert!(tokio::time::Instant::now() < end, "{what}: {status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_and_collectors_lose_no_line_and_write_none_twice() {
    let directory = std::env::temp_dir().join(format!("festina-syslog-kill-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let (input, metrics, transport) = (free_port(false), free_port(false), free_port(true));
    let relay = format!(
        "state = {:?}\ncollector = \"127.0.0.1:{transport}\"\nmetrics = \"127.0.0.1:{metrics}\"\n[[input]]\nkind = \"tcp\"\n\
         listen = \"127.0.0.1:{input}\"",
        directory.join("relay")
    );
    let output = directory.join("lines.log");
    let collector = format!(
        "state = {:?}\nlisten = \"127.0.0.1:{transport}\"\n[[output]]\nkind = \"file\"\npath = {output:?}",
        directory.join("collect")
    );
    std::fs::write(directory.join("relay.toml"), relay).expect("it can be written");
    std::fs::write(directory.join("collect.toml"), collector).expect("it can be written");
    let (relay, collector) = (Processes::start(&directory, "relay"), Processes::start(&directory, "collect"));
    let mut processes = Processes { directory, relay, collector };

    let (input, metrics) = (SocketAddr::from(([127, 0, 0, 1], input)), SocketAddr::from(([127, 0, 0, 1], metrics)));
    let mut written = 0;
    let rounds = std::env::var("SYSLOG_KILLS").map_or(ROUNDS, |kills| kills.parse().expect("a number"));
    for round in 0..rounds {
        let before = status_when(metrics, "the relay lives", |_| true).await;
        let before: u64 = before.received.iter().sum();
        let mut stream = TcpStream::connect(input).expect("it listens");
        for _ in 0..LINES_PER_ROUND {
            writeln!(stream, "<11>number {written}").expect("it is taken");
            written += 1;
        }
        drop(stream);
        let all = before + LINES_PER_ROUND as u64;
        status_when(metrics, "all lines are taken", |status| status.received.iter().sum::<u64>() == all).await;
        tokio::time::sleep(Duration::from_millis(round as u64 * 7 % 40)).await;
        match round % 4 {
            0 => processes.kill("collect"),
            1 => processes.kill("relay"),
            2 => {
                processes.kill("relay");
                processes.kill("collect");
            }
            // The relay once more while it begins.
            _ => {
                processes.kill("relay");
                tokio::time::sleep(Duration::from_millis(20)).await;
                processes.kill("relay");
            }
        }
    }
    status_when(metrics, "all lines arrive", |status| status.connected && status.spooled == 0).await;
    let text = std::fs::read_to_string(output).expect("there is an output");
    let expected: String = (0..written).map(|number| format!("<11>number {number}\n")).collect();
    let differs = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(text == expected, "{} lines of {written}, first difference {differs:?}", text.lines().count());
}

//! A collector whose output's disk is full, and then has room again.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::notice::Notice;
use festina_syslog::relay::RunningRelay;
use festina_units::Duration;
use tokio::time::Instant;

use crate::processes::PATIENCE;

const INSIDE: &str = "FESTINA_SYSLOG_FULL_OUTPUT";
const LINES: u64 = 4_000;
/// Bytes that are free on the full disk: enough to open all files, and too few for the lines.
const FREE_BYTES: usize = 300 << 10;

/// A test of its own in a namespace in which the disk of the output, 3 MiB in memory, can be mounted.
#[test]
fn recovery_from_a_full_disk_is_a_write_and_is_said_once() {
    let test = std::env::current_exe().expect("this is a program");
    let directory = std::env::temp_dir().join(format!("festina-syslog-full-output-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("out")).expect("a directory can be made");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
    command
        .arg("mount -t tmpfs -o size=3m none \"$0/out\"; exec \"$1\" --exact full_output::the_test_inside --nocapture");
    let status = command.arg(&directory).arg(test).env(INSIDE, &directory).status();
    std::fs::remove_dir_all(&directory).expect("it can be removed");
    assert!(status.expect("unshare is there").success());
}

#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn notice(&self) -> Notice {
        let this = self.clone();
        Arc::new(move |text: &str| this.0.lock().expect("no panic").push(text.to_owned()))
    }

    fn count(&self, words: &str) -> usize {
        self.0.lock().expect("no panic").iter().filter(|text| text.contains(words)).count()
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fills the disk but for a part.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).expect("it can be created");
    while file.write_all(&[0; 4_096]).is_ok() {}
    let length = file.metadata().expect("it is there").len();
    file.set_len(length - FREE_BYTES as u64).expect("it can be shortened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_test_inside() {
    let Some(directory) = std::env::var_os(INSIDE) else { return };
    let directory = Path::new(&directory);
    let (output, filler) = (directory.join("out/lines"), directory.join("out/filler"));
    let text = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\npath = {output:?}\n[security]\nplain = true",
        directory.join("out/state")
    );
    let (of_collector, of_relay) = (Notices::default(), Notices::default());
    let config = CollectorConfig::parse("collect", &text).expect("it is right");
    let collector = RunningCollector::start(config, of_collector.notice()).await.expect("it starts");
    fill(&filler);
    let relay = relay(directory, collector.local_addr(), &of_relay).await;
    let mut connection = TcpStream::connect(relay.inputs()[0].expect("an address")).expect("it listens");
    let line = format!("<11>{}\n", "x".repeat(250));
    for _ in 0..LINES {
        connection.write_all(line.as_bytes()).expect("it is taken");
    }
    until("the disk is full", || of_collector.count("cannot write the output") > 0).await;
    // More than three attempts.
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(of_collector.count("written again"), 0, "{:?}", of_collector.0);
    std::fs::remove_file(&filler).expect("it is there");
    until("all lines arrive", || relay.snapshot().delivered == LINES).await;
    assert_eq!(
        (of_collector.count("cannot write the output"), of_collector.count("the output can be written again")),
        (1, 1),
        "{:?}",
        of_collector.0
    );
    assert!(of_relay.count("the association with the collector") <= 1, "{:?}", of_relay.0);
    relay.stop(PATIENCE).await;
    collector.stop().await;
    let written = std::fs::read(&output).expect("it is there");
    assert!(written == line.repeat(usize::try_from(LINES).expect("few")).as_bytes(), "{} bytes", written.len());
    let names = std::fs::read_dir(directory.join("out")).expect("it is there");
    assert!(names.flatten().all(|entry| entry.file_name() != ".festina-room"), "nothing is left behind");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_can_never_be_written_is_named_once() {
    let directory = std::env::temp_dir().join(format!("festina-syslog-never-written-{}", std::process::id()));
    let text = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\npath = \"/dev/full\"\n[security]\nplain = true",
        directory.join("state")
    );
    let (of_collector, of_relay) = (Notices::default(), Notices::default());
    let config = CollectorConfig::parse("collect", &text).expect("it is right");
    let collector = RunningCollector::start(config, of_collector.notice()).await.expect("it starts");
    let relay = relay(&directory, collector.local_addr(), &of_relay).await;
    let mut connection = TcpStream::connect(relay.inputs()[0].expect("an address")).expect("it listens");
    connection.write_all(b"<11>a line\n").expect("it is taken");
    until("three attempts", || of_relay.count("connected to the collector") > 3).await;
    let found = ["cannot write the output: /dev/full: No space left", "cannot write", "written again"];
    assert_eq!(found.map(|words| of_collector.count(words)), [1, 1, 0], "{:?}", of_collector.0);
    relay.stop(Duration::ZERO).await;
    collector.stop().await;
    std::fs::remove_dir_all(&directory).expect("it can be removed");
}

async fn relay(directory: &Path, to: SocketAddr, notices: &Notices) -> RunningRelay {
    let text = format!(
        "state = {:?}\ncollector = \"{to}\"\n[[input]]\nkind = \"tcp\"\nlisten = \"127.0.0.1:0\"\n[security]\nplain = true",
        directory.join("relay")
    );
    let config = RelayConfig::parse("relay", &text).expect("it is right");
    RunningRelay::start(config, notices.notice()).await.expect("it starts")
}

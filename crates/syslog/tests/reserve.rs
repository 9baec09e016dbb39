//! Connections and files that leave a relay without descriptors or hang it: its own work goes on. A program of its own: its two thousand connections
//! take ports to which the processes of other tests return after a kill.

#[path = "syslog/processes.rs"]
mod processes;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;

use festina_syslog::disk::RealDisk;
use festina_syslog::sender::{Routing, Sender, SenderLimits};
use festina_syslog::snapshot::RelaySnapshot;
use festina_units::Duration;
use processes::{PATIENCE, free_address, kill, status_when};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const IDLE: usize = 2_000;
const LINES: u64 = 2_000;
const ROLE: &str = "a_process_of_the_other_tests_is_a_relay";

#[test]
fn a_process_of_the_other_tests_is_a_relay() {
    processes::be_what_was_asked();
}

struct Process {
    directory: PathBuf,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn folder(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("festina-syslog-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

fn connect(input: SocketAddr) -> TcpStream {
    TcpStream::connect(input).expect("it listens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_and_1_024_descriptors_leave_a_relay_at_work() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it can be raised");
    let directory = folder("reserve");
    let (input, metrics) = (free_address(), free_address());
    let relay = format!(
        "state = {:?}\ncollector = \"127.0.0.1:9\"\nmetrics = \"{metrics}\"\n[[input]]\nkind = \"tcp\"\nlisten = \"{input}\"",
        directory.join("relay-state")
    );
    std::fs::write(directory.join("relay.toml"), relay).expect("it can be written");
    std::fs::write(directory.join("relay.descriptors"), "1024").expect("it can be written");
    let mut process = Process { child: processes::start(ROLE, &directory, "relay"), directory };
    status_when(metrics, "the relay lives", |_: &RelaySnapshot| true).await;

    let mut sender = connect(input);
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| connect(input)).collect();
    let refused = |status: &RelaySnapshot| status.before.refused_connections;
    let full = status_when(metrics, "connections are refused", |status| refused(status) > 1_000).await;
    assert!(refused(&full) < IDLE as u64, "{full:?}");
    for number in 0..LINES {
        writeln!(sender, "<11>number {number}").expect("it is taken");
    }
    let spooled = status_when(metrics, "all lines are spooled", |status: &RelaySnapshot| status.spooled == LINES).await;
    assert!(spooled.adds_up() && spooled.disk_errors == 0, "{spooled:?}");
    // A new sender is refused and counted.
    let before = refused(&spooled);
    drop(connect(input));
    status_when(metrics, "it is counted", |status: &RelaySnapshot| refused(status) > before).await;
    // Everything that was taken is on disk, long after the last sync.
    tokio::time::sleep(Duration::from_millis(500)).await;
    kill(&mut process.child);
    drop(idle);
    process.child = processes::start(ROLE, &process.directory, "relay");
    status_when(metrics, "all lines are found", |status: &RelaySnapshot| {
        status.found == LINES && status.spooled == LINES
    })
    .await;
}

/// Opens the spool in a thread, which a FIFO would hang.
fn open_spool(directory: &Path) -> std::io::Result<u64> {
    let (done, result) = std::sync::mpsc::channel();
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        let routing = Routing {
            collectors: vec!["collector".to_owned()],
            spread: false,
            after: Duration::from_secs(1),
            repeat_after: None,
        };
        let limits = SenderLimits { bytes_max: 1 << 24, age_max: Duration::from_secs(3_600), window_lines_max: 64 };
        let opened = Sender::open(&RealDisk, &directory, limits, &routing, [7; 16], 1);
        let _ = done.send(opened.map(|sender| sender.unsettled()));
    });
    result.recv_timeout(PATIENCE).expect("the start does not hang")
}

#[test]
fn a_fifo_in_the_folder_of_a_spool_hangs_no_start() {
    for name in [
        "lines-0-0000000000000000",
        "lines-0-00000000000000ff",
        "lines-0-0000000000000000.index",
        "identity",
        "identity.new",
        "starts",
        "positions",
        "reserve",
        "ledger-0",
        "unknown",
    ] {
        let directory = folder("fifo");
        open_spool(&directory).expect("a new spool");
        let _ = std::fs::remove_file(directory.join(name));
        let made = std::process::Command::new("mkfifo").arg(directory.join(name)).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
        // A name that is needed may be refused, but at once.
        let opened = open_spool(&directory);
        let is_needed = !name.starts_with("lines") && name != "unknown";
        assert!(opened.is_ok() || is_needed, "{name}: {opened:?}");
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }
}

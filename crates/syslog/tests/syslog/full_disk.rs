//! A relay whose disk is full: accepted lines are safe; lines that it cannot keep are refused or counted.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use festina_syslog::snapshot::{LostBefore, RelaySnapshot};
use festina_units::Duration;
use tokio::time::Instant;

use crate::processes::{self, free_address, kill, status_when};
use crate::seeds;

const ROLE: &str = "full_disk::a_process_of_the_other_tests_is_a_relay_or_a_collector";
const INSIDE: &str = "FESTINA_SYSLOG_FULL_DISK";

#[test]
fn a_process_of_the_other_tests_is_a_relay_or_a_collector() {
    processes::be_what_was_asked();
}

/// A test of its own in a namespace in which the disk of the relay, 4 MiB in memory, can be mounted.
#[test]
fn with_a_full_disk_every_line_that_was_taken_arrives_and_others_are_held_back_or_counted() {
    let test = std::env::current_exe().expect("this is a program");
    let directory = std::env::temp_dir().join(format!("festina-syslog-full-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("relay-state")).expect("a directory can be made");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
    command.arg(
        "mount -t tmpfs -o size=4m none \"$0/relay-state\"; exec \"$1\" --exact full_disk::the_test_inside --nocapture",
    );
    let status = command.arg(&directory).arg(test).env(INSIDE, &directory).status();
    std::fs::remove_dir_all(&directory).expect("it can be removed");
    assert!(status.expect("unshare is there").success());
}

struct World {
    directory: PathBuf,
    input: SocketAddr,
    datagrams: SocketAddr,
    metrics: SocketAddr,
    collector: SocketAddr,
    processes: Vec<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(|process| {
            let _ = process.kill();
            let _ = process.wait();
        });
    }
}

impl World {
    fn new(directory: PathBuf) -> Self {
        let [input, datagrams, metrics, collector] = std::array::from_fn(|_| free_address());
        let relay = format!(
            "state = {:?}\ncollector = \"{collector}\"\nmetrics = \"{metrics}\"\n[[input]]\nkind = \"tcp\"\nlisten = \"{input}\"\n\
             [[input]]\nkind = \"udp\"\nlisten = \"{datagrams}\"",
            directory.join("relay-state")
        );
        std::fs::write(directory.join("relay.toml"), relay).expect("it can be written");
        Self { directory, input, datagrams, metrics, collector, processes: Vec::new() }
    }

    fn start(&mut self, role: &str) {
        self.processes.push(processes::start(ROLE, &self.directory, role));
    }

    fn kill(&mut self) {
        kill(&mut self.processes.pop().expect("one runs"));
    }

    async fn status(&self, what: &str, is_so: impl Fn(&RelaySnapshot) -> bool) -> RelaySnapshot {
        status_when(self.metrics, what, is_so).await
    }

    /// Sends lines as fast as they are taken, in a thread, until the relay takes no more for good.
    fn send(&self) {
        let input = self.input;
        std::thread::spawn(move || {
            let mut connection = TcpStream::connect(input).expect("it listens");
            let line = format!("<11>{}\n", "x".repeat(200));
            while connection.write_all(line.as_bytes()).is_ok() {}
        });
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.directory.join("relay-state")).expect("it is there").count()
    }

    /// Processor time of the process that was started last, in clock ticks of 10 ms.
    fn ticks(&self) -> u64 {
        let id = self.processes.last().expect("one runs").id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it lives");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        [fields[11], fields[12]].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
    }
}

fn lines_in(path: &Path) -> u64 {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count() as u64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_test_inside() {
    let Some(directory) = std::env::var_os(INSIDE) else { return };
    let full = Duration::from_secs(seeds::extent(5, 60));
    let mut world = World::new(directory.into());
    world.start("relay");
    let mut kept = 0;
    for _ in 0..3 {
        let is_held = |status: &RelaySnapshot| status.disk_errors > 0 && status.in_memory == 0;
        world.status("the relay lives", |_| true).await;
        world.send();
        let held = world.status("the disk is full", is_held).await;
        let (ticks, since) = (world.ticks(), Instant::now());
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..5_000 {
            datagrams.send_to(b"<11>a datagram", world.datagrams).expect("it is sent");
        }
        let uncounted = |status: &RelaySnapshot| {
            let LostBefore { shed_at_input, lost_in_kernel, .. } = status.before;
            5_000_u64.saturating_sub(shed_at_input + lost_in_kernel)
        };
        world.status("lost datagrams are counted", |status| uncounted(status) <= 1_024).await;
        while since.elapsed() < full {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // Ten, and those that take the place of others at this moment.
            assert!(world.files() <= 12, "{} files", world.files());
        }
        let now = world.status("the relay lives", |_| true).await;
        let (ticks, elapsed) = (world.ticks() - ticks, since.elapsed());
        eprintln!(
            "{elapsed:.1?} full: {} files, {ticks} ticks of 10 ms, {} lines kept, {} datagrams counted as lost",
            world.files(),
            now.spooled,
            now.before.shed_at_input + now.before.lost_in_kernel
        );
        // 2 % of a core, and a fifth of a second for the datagrams and the status.
        assert!(ticks <= 20 + 2 * elapsed.as_secs(), "{ticks} ticks");
        assert_eq!((now.received, now.in_memory), (held.received, 0), "nothing is taken that cannot be kept");
        assert!(now.adds_up() && now.spooled >= kept);
        kept = now.spooled;
        // kill -9, and a start on a full disk.
        world.kill();
        world.start("relay");
        let found = world.status("it starts", |status| status.found > 0).await;
        assert_eq!(found.found, kept);
    }
    // The collector takes everything, though the disk is full, and then there is room again.
    let output = world.directory.join("lines");
    let collect = format!(
        "state = {:?}\nlisten = \"{}\"\n[[output]]\nkind = \"file\"\npath = {output:?}\n[security]\nrelays = \"any\"",
        world.directory.join("collect-state"),
        world.collector
    );
    std::fs::write(world.directory.join("collect.toml"), collect).expect("it can be written");
    world.start("collect");
    world.status("all lines are delivered", |status| status.delivered >= kept && status.spooled == 0).await;
    world.send();
    let more = world.status("there is room", |status| status.delivered > kept + 50_000).await;
    assert!(more.adds_up() && lines_in(&output) >= more.delivered, "{more:?}");
}

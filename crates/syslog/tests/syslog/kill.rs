//! `kill -9` of real processes at random moments: no line that the relay had taken is lost or duplicated, and all keep their order.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use festina_syslog::snapshot::RelaySnapshot;
use festina_units::Duration;

use crate::group::Processes;
use crate::processes::{self, free_address, status_when};
use crate::seeds;

/// Kills with one collector and with two; `TEST_SEEDS=0..500` is for 500 kills. With two, lines that are sent to the other too
/// early are there twice after 30 kills or so.
const ROUNDS: [usize; 2] = [12, 60];
const ROUNDS_FULL: usize = 200;
const LINES_PER_ROUND: usize = 500;

const ROLES: &str = "kill::a_process_of_the_other_tests_is_a_relay_or_a_collector";

#[test]
fn a_process_of_the_other_tests_is_a_relay_or_a_collector() {
    processes::be_what_was_asked();
}

/// Ends a process with `kill -9` and starts it again.
fn restart(processes: &mut Processes, role: &'static str) {
    processes.kill(role);
    processes.start(role);
}

/// A relay with its collectors, each with a file of its own.
struct Setting {
    processes: Processes,
    input: SocketAddr,
    metrics: SocketAddr,
    outputs: Vec<PathBuf>,
}

impl Setting {
    /// `more` is what the relay's file begins with.
    fn new(name: &str, collectors: &[&'static str], more: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("festina-syslog-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let (input, metrics) = (free_address(), free_address());
        let (mut addresses, mut outputs) = (Vec::new(), Vec::new());
        for role in collectors {
            let transport = free_address();
            let output = directory.join(format!("{role}.log"));
            let text = format!(
                "state = {:?}\nlisten = \"{transport}\"\n[[output]]\nkind = \"file\"\npath = {output:?}\n[security]\nrelays = \"any\"",
                directory.join(role)
            );
            std::fs::write(directory.join(format!("{role}.toml")), text).expect("it can be written");
            addresses.push(transport.to_string());
            outputs.push(output);
        }
        let relay = format!(
            "state = {:?}\ncollector = {addresses:?}\nmetrics = \"{metrics}\"\n{more}\n[[input]]\nkind = \"tcp\"\n\
             listen = \"{input}\"",
            directory.join("relay-state")
        );
        std::fs::write(directory.join("relay.toml"), relay).expect("it can be written");
        let mut processes = Processes::new(ROLES, directory);
        collectors.iter().copied().chain(["relay"]).for_each(|role| processes.start(role));
        Self { processes, input, metrics, outputs }
    }

    /// Sends lines over and over, has `kill` kill in each round, and waits until all have arrived. Returns how many lines they were.
    async fn run(&mut self, kill: impl Fn(&mut Processes, usize)) -> usize {
        let (mut written, metrics) = (0, self.metrics);
        let rounds = seeds::extent(ROUNDS[self.outputs.len() - 1], ROUNDS_FULL);
        for round in 0..rounds {
            let before = status_when(metrics, "the relay lives", |_: &RelaySnapshot| true).await;
            let before: u64 = before.received.iter().sum();
            let mut stream = TcpStream::connect(self.input).expect("it listens");
            for _ in 0..LINES_PER_ROUND {
                writeln!(stream, "<11>number {written}").expect("it is taken");
                written += 1;
            }
            drop(stream);
            let all = before + LINES_PER_ROUND as u64;
            status_when(metrics, "all lines are taken", |status: &RelaySnapshot| {
                status.received.iter().sum::<u64>() == all
            })
            .await;
            tokio::time::sleep(Duration::from_millis(round as u64 * 7 % 40)).await;
            kill(&mut self.processes, round);
        }
        status_when(metrics, "all lines arrive", |status: &RelaySnapshot| {
            status.paths.connected && status.spooled == 0
        })
        .await;
        written
    }

    fn text(&self, output: usize) -> String {
        std::fs::read_to_string(&self.outputs[output]).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_and_collectors_lose_no_line_and_write_none_twice() {
    let mut setting = Setting::new("kill", &["collect"], "");
    let kill = |processes: &mut Processes, round| match round % 4 {
        0 => restart(processes, "collect"),
        1 => restart(processes, "relay"),
        2 => {
            restart(processes, "relay");
            restart(processes, "collect");
        }
        // The relay once more while it begins.
        _ => {
            restart(processes, "relay");
            std::thread::sleep(Duration::from_millis(20));
            restart(processes, "relay");
        }
    };
    let written = setting.run(kill).await;
    let text = setting.text(0);
    let expected: String = (0..written).map(|number| format!("<11>number {number}\n")).collect();
    let differs = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(text == expected, "{} lines of {written}, first difference {differs:?}", text.lines().count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_collectors_each_takes_the_others_place_and_each_line_is_once_in_one_of_their_files() {
    let mut setting = Setting::new("failover", &["collect", "other"], "[failover]\nafter = \"1ms\"");
    let kill = |processes: &mut Processes, round| match round % 6 {
        // Long enough for the other to take its place.
        0 => {
            processes.kill("collect");
            std::thread::sleep(Duration::from_millis(300));
            processes.start("collect");
        }
        1 | 3 => restart(processes, "other"),
        2 => restart(processes, "collect"),
        4 => restart(processes, "relay"),
        _ => {
            restart(processes, "relay");
            restart(processes, "collect");
        }
    };
    let written = setting.run(kill).await;
    let texts = [setting.text(0), setting.text(1)];
    let mut lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    assert!(texts.iter().all(|text| !text.is_empty()), "one of them did it all");
    lines.sort_unstable();
    let expected: Vec<String> = (0..written).map(|number| format!("<11>number {number}")).collect();
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    let differs = lines.iter().zip(&expected).find(|(is, should)| is != should);
    assert!(lines == expected, "{} lines of {written}, first difference {differs:?}", lines.len());
}

/// Its keys are lost, so it cannot tell the relay that the association is over; the transport alone notices after 20 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_collector_is_reached_long_before_its_association_times_out() {
    let mut setting = Setting::new("silence", &["collect"], "");
    let (metrics, input) = (setting.metrics, setting.input);
    let deliver = async |count| {
        let mut stream = TcpStream::connect(input).expect("it listens");
        writeln!(stream, "<11>number {count}").expect("it is taken");
        drop(stream);
        status_when(metrics, "it is delivered", |status: &RelaySnapshot| status.delivered == count).await;
    };
    status_when(metrics, "the relay is connected", |status: &RelaySnapshot| status.paths.connected).await;
    deliver(1).await;
    restart(&mut setting.processes, "collect");
    let begin = tokio::time::Instant::now();
    deliver(2).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(setting.text(0), "<11>number 1\n<11>number 2\n");
}

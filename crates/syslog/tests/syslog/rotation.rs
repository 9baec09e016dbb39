//! `kill -9` of a relay, of its collector and of the program that writes the relay's input, a file that is rotated every second: each line is
//! once in the output, in order.

mod writer;

use std::path::Path;

use festina_syslog::snapshot::RelaySnapshot;
use festina_units::Duration;
use tokio::time::Instant;
use writer::written;

use crate::group::Processes;
use crate::processes::{self, PATIENCE, free_address, status_when};
use crate::seeds;

/// `TEST_SEEDS=0..200` is for 200 kills.
const KILLS: usize = 9;
const KILLS_FULL: usize = 60;

/// Whom to kill, one after the other.
const ROLES: [&str; 3] = ["relay", "collect", "writer"];

const ROLE: &str = "rotation::a_process_of_the_other_test_is_a_relay_a_collector_or_a_writer";

#[test]
fn a_process_of_the_other_test_is_a_relay_a_collector_or_a_writer() {
    match processes::asked() {
        Some((role, directory)) if role == "writer" => writer::write(&directory),
        _ => processes::be_what_was_asked(),
    }
}

fn configure(directory: &Path, output: &Path) -> std::net::SocketAddr {
    let (transport, metrics) = (free_address(), free_address());
    let collect = format!(
        "state = {:?}\nlisten = \"{transport}\"\n[[output]]\nkind = \"file\"\npath = {output:?}\n[security]\nrelays = \"any\"",
        directory.join("collect-state")
    );
    let relay = format!(
        "state = {:?}\ncollector = \"{transport}\"\nmetrics = \"{metrics}\"\n[[input]]\nkind = \"file\"\npath = {:?}",
        directory.join("relay-state"),
        directory.join("input/app.log")
    );
    std::fs::create_dir_all(directory.join("input")).expect("a directory can be made");
    // The first start reads a file from its end.
    std::fs::write(directory.join("input/app.log"), "").expect("it can be written");
    std::fs::write(directory.join("collect.toml"), collect).expect("it can be written");
    std::fs::write(directory.join("relay.toml"), relay).expect("it can be written");
    metrics
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_collectors_and_writers_of_a_rotated_file_lose_no_line_and_double_none() {
    let directory = std::env::temp_dir().join(format!("festina-syslog-rotation-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let output = directory.join("lines.log");
    let metrics = configure(&directory, &output);
    let mut processes = Processes::new(ROLE, directory.clone());
    ["relay", "collect"].into_iter().for_each(|role| processes.start(role));
    status_when(metrics, "the relay lives", |_: &RelaySnapshot| true).await;
    processes.start("writer");
    let kills = seeds::extent(KILLS, KILLS_FULL);
    for number in 0..kills {
        tokio::time::sleep(Duration::from_millis(400 + number as u64 * 137 % 900)).await;
        let role = ROLES[number % 3];
        processes.kill(role);
        // Sometimes the others run without it for a while, and files are rotated meanwhile.
        tokio::time::sleep(Duration::from_millis(if number % 4 == 0 { 1_500 } else { 0 })).await;
        processes.start(role);
    }
    processes.kill("writer");
    let expected = written(&directory.join("input"));
    let end = Instant::now() + PATIENCE;
    let text = || std::fs::read_to_string(&output).unwrap_or_default();
    while text().len() < expected.len() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Nothing comes behind the last line.
    status_when(metrics, "all lines arrive", |status: &RelaySnapshot| {
        status.paths.connected && status.spooled == 0 && status.adds_up()
    })
    .await;
    let text = text();
    let numbered: String = (0..expected.lines().count()).map(|number| format!("<11>number {number}\n")).collect();
    assert_eq!(expected, numbered, "the writer numbers its lines");
    let differs = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    let (lines, all) = (text.lines().count(), expected.lines().count());
    assert!(text == expected, "{lines} lines of {all}, first difference {differs:?}");
    println!("{kills} kills, {all} lines, each once and in order");
}

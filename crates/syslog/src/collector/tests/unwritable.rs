//! Lines whose names lead to something other than a file that can be written. On the system's own disk: the simulated one has only files.

use std::fs;

use super::*;
use crate::disk::RealDisk;
use crate::scratch::Directory;

fn directory() -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.0.join("out")).expect("a directory can be made");
    directory
}

impl Directory {
    fn open(&self, templates: &[&str]) -> io::Result<(Collector, Store<RealDisk>)> {
        let output = |template: &&str| FileOutput {
            template: format!("{}/{template}", self.0.display()),
            format: Format::Raw,
            rotate_bytes: None,
            compression: None,
            new_files: 100,
        };
        super::super::open(RealDisk, &self.0.join("out/state"), templates.iter().map(output).collect())
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// Commits a line for each of these sources, and opens the store again.
    fn write(&self, templates: &[&str], epoch: u32, sources: &[&'static str]) {
        let (mut collector, mut store) = self.open(templates).expect("it opens");
        collector.handle(Peer(1), hello(epoch, 1)).expect("a hello");
        let record = |(sequence, source): (u64, &&'static str)| Record {
            sequence,
            received_us: 0,
            marks: 0,
            severity: Severity::new(3),
            source: Bytes::from_static(source.as_bytes()),
            line: Bytes::from(format!("line of {source}")),
        };
        let records = (u64::from(epoch) * 100..).zip(sources).map(record).collect();
        collector.handle(Peer(1), Packet::Lines { priority: 0, floor: 0, records }.encode()).expect("lines");
        store.commit(collector.begin_commit()).expect("it can be written");
        drop(store);
        self.open(templates).expect("it opens again");
    }
}

#[test]
fn lines_named_like_a_directory_or_a_fifo_or_the_state_go_to_the_overflow_file() {
    let directory = directory();
    fs::create_dir_all(directory.0.join("out/archive")).expect("a directory can be made");
    let made = std::process::Command::new("mkfifo").arg(directory.0.join("out/fifo")).status();
    assert!(made.is_ok_and(|status| status.success()));
    for epoch in 1..3 {
        directory.write(&["out/{source}"], epoch, &["archive", "fifo", "x"]);
    }
    assert_eq!(directory.text("out/overflow"), "line of archive\nline of fifo\n".repeat(2));
    assert_eq!(directory.text("out/x"), "line of x\n".repeat(2));
    directory.write(&["out/{source}/state"], 3, &["state"]);
    assert_eq!(directory.text("out/overflow+/state"), "line of state\n", "the usual name is that of a file");
}

#[test]
fn a_file_that_became_a_directory_does_not_stop_the_collector() {
    let directory = directory();
    directory.write(&["out/{source}"], 1, &["x", "y"]);
    fs::remove_file(directory.0.join("out/x"))
        .and_then(|()| fs::create_dir(directory.0.join("out/x")))
        .expect("it can");
    directory.write(&["out/{source}"], 2, &["x", "y"]);
    assert_eq!(directory.text("out/overflow"), "line of x\n");
    // Files below a name that is a file by now.
    directory.write(&["out/{source}/all"], 3, &["z"]);
    fs::remove_dir_all(directory.0.join("out/z")).expect("it can be removed");
    fs::write(directory.0.join("out/z"), "a file").expect("it can be written");
    directory.write(&["out/{source}/all"], 4, &["z"]);
    assert_eq!(directory.text("out/overflow+/all"), "line of z\n");
}

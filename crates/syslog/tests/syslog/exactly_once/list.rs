//! A collector that is taken out of the list will not come back, and one that stays in it will.

use std::path::Path;

use bytes::Bytes;
use festina_syslog::collector::Peer;
use festina_syslog::disk::{Crash, FaultyDisk};
use festina_syslog::line::Severity;
use festina_syslog::policy::PRIORITIES;
use festina_syslog::record::Record;
use festina_syslog::sender::{Routing, Sender, SenderLimits};
use festina_units::Duration;

use super::place::Place;

const LINES: u64 = 20;

fn open(disk: &FaultyDisk, collectors: &[&str], now_us: u64) -> Sender<FaultyDisk> {
    let collectors = collectors.iter().map(|&name| name.to_owned()).collect();
    let routing = Routing { collectors, spread: false, after: Duration::from_micros(10), repeat_after: None };
    let limits = SenderLimits { bytes_max: 1 << 20, age_max: Duration::from_secs(3_600), window_lines_max: 64 };
    Sender::open(disk, Path::new("/spool"), limits, &routing, [7; 16], now_us).expect("the disk works")
}

fn welcome(relay: &mut Sender<FaultyDisk>, at: usize, place: &mut Place, now_us: u64) {
    let hello = relay.connected(at, now_us);
    place.begin(Peer(1));
    place.handle(Peer(1), hello).expect("it makes sense");
    exchange(relay, at, place, now_us);
}

/// A commit, and its answers.
fn exchange(relay: &mut Sender<FaultyDisk>, at: usize, place: &mut Place, now_us: u64) {
    place.begin_commit();
    let commit = place.commits.pop_front().unwrap_or_default();
    for (_, answer) in place.store.commit(commit).expect("the disk works") {
        relay.handle(at, answer, now_us).expect("it makes sense");
    }
}

/// All lines left for the first of two collectors, which answers for none, and then the relay ends.
fn lines_of_the_first(is_killed: bool) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    let mut relay = open(&disk, &["first", "second"], 0);
    welcome(&mut relay, 0, &mut Place::new(2, None), 1);
    welcome(&mut relay, 1, &mut Place::new(3, None), 1);
    for number in 0..LINES {
        let (source, line) = (Bytes::from("1"), Bytes::from(format!("1 {number}")));
        relay.take(Record { sequence: 0, received_us: 1, marks: 0, severity: Severity::new(0), source, line }, 0);
    }
    relay.sync().expect("the disk works");
    while relay.next_message(0, PRIORITIES).is_some() {}
    assert_eq!((relay.unanswered(0), relay.unanswered(1)), (LINES, 0));
    if !is_killed {
        relay.close();
    }
    disk.crash(Crash::Power);
    disk.restarted()
}

/// Returns the lines that the second collector gets from a relay with this list, in which it is entry `at` and the only one that is reachable.
fn lines_for_the_second(disk: &FaultyDisk, collectors: &[&str], at: usize) -> (Vec<String>, u64) {
    let (mut relay, mut place) = (open(disk, collectors, 100), Place::new(4, None));
    welcome(&mut relay, at, &mut place, 101);
    for now_us in 102..200 {
        relay.keep_time(now_us);
        while let Some(message) = relay.next_message(at, PRIORITIES) {
            place.handle(Peer(1), message.payload).expect("it makes sense");
        }
        exchange(&mut relay, at, &mut place, now_us);
    }
    (place.output(), relay.unsettled())
}

#[test]
fn lines_that_a_collector_may_have_go_to_others_when_it_is_taken_out_of_the_list_and_not_before() {
    let all: Vec<String> = (0..LINES).map(|number| format!("1 {number}")).collect();
    for is_killed in [false, true] {
        for (collectors, at) in [(&["second"][..], 0), (&["second", "third"], 0), (&["third", "second"], 1)] {
            let taken_out = lines_for_the_second(&lines_of_the_first(is_killed), collectors, at);
            assert_eq!(taken_out, (all.clone(), 0), "killed: {is_killed}, {collectors:?}");
        }
        for (collectors, at) in [(&["first", "second"][..], 1), (&["second", "first"], 0)] {
            let waits = lines_for_the_second(&lines_of_the_first(is_killed), collectors, at);
            assert_eq!(waits, (Vec::new(), LINES), "killed: {is_killed}, {collectors:?}");
        }
    }
}

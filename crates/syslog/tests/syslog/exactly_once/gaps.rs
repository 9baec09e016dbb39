//! One line that waits for a collector, and many that others get: what these have to remember.

use std::path::Path;

use bytes::Bytes;
use festina_syslog::collector::Peer;
use festina_syslog::disk::FaultyDisk;
use festina_syslog::line::Severity;
use festina_syslog::policy::PRIORITIES;
use festina_syslog::record::Record;
use festina_syslog::sender::{Routing, Sender, SenderLimits};
use festina_syslog::wire::Packet;
use festina_units::Duration;

use super::place::Place;

/// Three collectors, the first of them gone with a line, and a relay that sends many lines to the others.
#[test]
fn what_waits_for_one_collector_costs_the_others_no_memory() {
    let collectors: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let after = Duration::from_micros(10);
    let routing = Routing { collectors, spread: true, after, repeat_after: None };
    let limits = SenderLimits { bytes_max: 1 << 30, age_max: Duration::from_secs(3_600), window_lines_max: 64 };
    let disk = FaultyDisk::new(1);
    let mut relay = Sender::open(&disk, Path::new("/spool"), limits, &routing, [7; 16], 0).expect("the disk works");
    let mut places: Vec<Place> = (0..3).map(|seed| Place::new(seed, None)).collect();
    let mut welcome = |relay: &mut Sender<FaultyDisk>, at: usize, now_us| {
        let place: &mut Place = &mut places[at];
        let hello = relay.connected(at, now_us);
        place.begin(Peer(1));
        place.handle(Peer(1), hello).expect("it makes sense");
        exchange(relay, place, at, now_us)
    };
    let mut largest = (0..3).map(|at| welcome(&mut relay, at, 1)).max();
    let mut held = 0;
    for number in 0..20_000_u64 {
        let source = Bytes::from(format!("{}", number % 97));
        let line = Bytes::from(format!("{} {number}", number % 97));
        let severity = Severity::new(0);
        relay.take(Record { sequence: 0, received_us: 0, marks: 0, severity, source, line }, 0);
        while held == 0 && relay.next_message(0, PRIORITIES).is_some() {
            // It leaves, and the first collector goes.
            held = relay.unanswered(0);
            relay.disconnected(0, 2);
            relay.keep_time(20);
        }
        for (at, place) in places.iter_mut().enumerate().skip(1) {
            while let Some(message) = relay.next_message(at, PRIORITIES) {
                place.handle(Peer(1), message.payload).expect("it makes sense");
            }
            if let Some(settled) = relay.settled_elsewhere(at) {
                place.handle(Peer(1), settled).expect("it makes sense");
            }
            exchange(&mut relay, place, at, 20);
        }
    }
    assert!(held > 0 && relay.unsettled() == held, "{held} {}", relay.unsettled());
    for (at, place) in places.iter_mut().enumerate().skip(1) {
        let hello = relay.connected(at, 21);
        place.gone(Peer(1));
        place.begin(Peer(2));
        place.handle(Peer(2), hello).expect("it makes sense");
        largest = largest.max(Some(exchange(&mut relay, place, at, 21)));
    }
    assert!(largest.is_some_and(|largest| largest < 64), "{largest:?} ranges");
}

/// A commit, and its answers. Returns how many ranges a welcome among them has.
fn exchange(relay: &mut Sender<FaultyDisk>, place: &mut Place, at: usize, now_us: u64) -> usize {
    place.begin_commit();
    let commit = place.commits.pop_front().unwrap_or_default();
    let mut ranges = 0;
    for (_, answer) in place.store.commit(commit).expect("the disk works") {
        if let Ok(Packet::Welcome(settled)) = Packet::decode(answer.clone()) {
            ranges = settled[0].len();
        }
        relay.handle(at, answer, now_us).expect("it makes sense");
    }
    ranges
}

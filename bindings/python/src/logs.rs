//! Log records, queued until an event loop hands them to `logging`: the threads of the library never run Python code.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::Waker;

use festina::logs::{self, Level, LevelFilter};
use pyo3::prelude::*;

use crate::locks::lock;

/// Records that wait for an event loop. Further ones are counted and dropped.
const QUEUED_MAX: usize = 4_096;

static QUEUE: Mutex<Queue> = Mutex::new(Queue { records: VecDeque::new(), dropped: 0, hubs: Vec::new() });

struct Queue {
    records: VecDeque<(Level, String)>,
    dropped: usize,
    /// All hubs with their identity: any of them may be the only one whose event loop still runs.
    hubs: Vec<(usize, Waker)>,
}

/// Queues the records of the library from now on.
pub(crate) fn subscribe() {
    let queue = |level, line: &str| {
        let mut queue = lock(&QUEUE);
        if queue.records.len() < QUEUED_MAX {
            queue.records.push_back((level, line.to_owned()));
        } else {
            queue.dropped += 1;
        }
        let wakers: Vec<Waker> = queue.hubs.iter().map(|(_, waker)| waker.clone()).collect();
        drop(queue);
        for waker in wakers {
            waker.wake();
        }
    };
    // The first event loop sets the level of its logger.
    logs::log_to(LevelFilter::OFF, Some(Box::new(queue)));
}

/// Wakes the hub with this identity when there are records.
pub(crate) fn register(hub: usize, waker: Waker) {
    lock(&QUEUE).hubs.push((hub, waker));
}

/// Forgets a hub.
pub(crate) fn unregister(hub: usize) {
    lock(&QUEUE).hubs.retain(|(registered, _)| *registered != hub);
}

/// Takes the queued records, each with its level in `logging`, and queues later ones from `level` on.
#[pyfunction]
pub(crate) fn take_logs(level: i64) -> Vec<(u8, String)> {
    logs::set_level(match level {
        ..10 => LevelFilter::TRACE,
        10 => LevelFilter::DEBUG,
        11..=20 => LevelFilter::INFO,
        21..=30 => LevelFilter::WARN,
        31..=40 => LevelFilter::ERROR,
        _ => LevelFilter::OFF,
    });
    let mut queue = lock(&QUEUE);
    let (records, dropped) = (std::mem::take(&mut queue.records), std::mem::take(&mut queue.dropped));
    drop(queue);
    let mut records: Vec<_> = records.into_iter().map(|(level, line)| (severity(level), line)).collect();
    if dropped > 0 {
        records.push((severity(Level::WARN), format!("{dropped} records were dropped: no event loop took them")));
    }
    records
}

/// The level in `logging`.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

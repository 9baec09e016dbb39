//! Thin streams over a lossy path: delay and cost of messages with every stack that a user could choose instead of Festina.
//!
//! - [`task`]: a task and its outcome
//! - [`contender`]: the stacks, each by default and set for low delay
//! - [`run`]: one stack at one task in virtual time; [`program`]: the same with pion; [`weather`]: a path that changes
//! - [`delays`]: percentiles of delays with their confidence bounds
//! - [`record`]: one row of the results, in CSV
//! - [`verdict`]: whether Festina's default beats a peer at one task
//! - [`report`]: the document; [`plot`]: the figure
//!
//! Nothing reads a clock, and all stacks meet the same losses: the first packet of one is lost if the first packet of the other is. The same command
//! gives the same figures for any number of threads.

pub mod contender;
pub mod delays;
pub mod plot;
pub mod program;
pub mod record;
pub mod report;
pub mod run;
pub mod task;
pub mod verdict;
pub mod weather;

use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use contender::{Contender, Means};
use record::Record;
use task::{Outcome, Scale, Task};

/// Gives every contender every task that is for it, `threads` at a time. The records come in the order of the contenders within each
/// task.
///
/// # Panics
/// If a fault of this crate poisons the results. A stack that panics gets a record that says so.
#[must_use]
pub fn measure(contenders: &[Contender], tasks: &[Task], scale: Scale, threads: usize) -> Vec<Record> {
    each(contenders, tasks, threads, |contender, task| run::run(contender, task, scale))
}

/// The same over a path that changes, for streams of the contenders that run in this process.
///
/// # Panics
/// As [`measure`].
#[must_use]
pub fn measure_over_changes(contenders: &[Contender], tasks: &[Task], scale: Scale, threads: usize) -> Vec<Record> {
    each(contenders, tasks, threads, |contender, task| match contender.means {
        Means::Here(prepare) => run::run_over_changes(prepare, contender.promise, task, scale),
        Means::Pion(_) => Outcome::failed("not measured over a path that changes"),
    })
}

fn each(
    contenders: &[Contender],
    tasks: &[Task],
    threads: usize,
    run: impl Fn(&Contender, Task) -> Outcome + Sync + RefUnwindSafe,
) -> Vec<Record> {
    let works: Vec<(Task, &Contender)> = tasks
        .iter()
        .flat_map(|task| contenders.iter().map(|contender| (*task, contender)))
        .filter(|(task, contender)| contender.is_at(*task))
        .collect();
    let records = Mutex::new(vec![None; works.len()]);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((task, contender)) = works.get(index) else { return };
                    let outcome = catch_unwind(|| run(contender, *task));
                    let outcome = outcome.unwrap_or_else(|_| Outcome::failed("it panicked"));
                    let record = Record::of(contender, *task, &outcome);
                    records.lock().expect("no thread panics while it writes a record")[index] = Some(record);
                }
            });
        }
    });
    records.into_inner().expect("all threads have ended").into_iter().flatten().collect()
}

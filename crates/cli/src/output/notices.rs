//! Lines on standard error, written by a thread of its own: a stopped terminal must not stop a server.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use super::READER_MAX;
use crate::signal;

/// Lines that wait to be written; further ones are counted.
const WAITING_MAX: usize = 1_024;

static QUEUE: OnceLock<Sender<String>> = OnceLock::new();
static WAITING: AtomicUsize = AtomicUsize::new(0);
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread. Until then, and without it, lines are written at once.
pub(crate) fn write_in_the_background() {
    let (queue, lines) = mpsc::channel::<String>();
    let writing = std::thread::Builder::new().name("notices".to_owned()).spawn(move || {
        for line in lines {
            write_now(&line);
            let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
            if left_out > 0 {
                write_now(&format!("festina: {left_out} lines were left out because standard error was not read"));
            }
            WAITING.fetch_sub(1, Ordering::Release);
        }
    });
    if writing.is_ok() {
        // It is called once.
        let _ = QUEUE.set(queue);
    }
}

/// Writes a line, now or soon. Never waits if the thread is running.
pub(super) fn write(line: String) {
    let Some(queue) = QUEUE.get() else { return write_now(&line) };
    if WAITING.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
        // The thread does not end before the process.
        let _ = queue.send(line);
    } else {
        WAITING.fetch_sub(1, Ordering::Relaxed);
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns when all lines are written, or if the reader takes nothing for [`READER_MAX`] after the program was asked to end.
pub(crate) async fn all_noticed() {
    const PAUSE: Duration = Duration::from_millis(1);
    let all_written = async {
        while WAITING.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = all_written => {}
        () = signal::overdue(READER_MAX) => {}
    }
}

/// A closed standard error is ignored.
pub(super) fn write_now(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

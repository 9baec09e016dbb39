//! Committed lines on their way to an output that is no file. The queue is bounded: when it is full, lines are dropped and counted. Neither files nor
//! acknowledgements wait for such an output.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use festina_units::ByteCount;

use crate::notice::Notice;

/// Maximum number of bytes that wait for one output.
pub(super) const PIPE_BYTES_MAX: usize = 64 << 20;

/// The lines of one commit.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

/// The queue of one output, between the thread that commits and the one that writes to the output.
pub(super) struct Pipe {
    state: Mutex<State>,
    filled: Condvar,
    /// The output, in messages.
    name: String,
    notice: Notice,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// Lines dropped since the start, and at the end of the previous time of dropping.
    dropped: u64,
    reported: u64,
    is_dropping: bool,
    /// Why the output did not take lines, since the queue was empty last.
    problem: Option<String>,
    /// No more lines will come.
    is_closed: bool,
    /// The output takes no more lines.
    has_ended: bool,
}

impl Pipe {
    pub(super) fn new(name: String, notice: Notice) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), filled: Condvar::new(), name, notice })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the lines of a commit, or drops and counts them. The first lines that are dropped are reported.
    pub(super) fn put(&self, batch: Batch) {
        let mut state = self.lock();
        if batch.lines == 0 {
            return;
        }
        if state.has_ended {
            state.dropped += batch.lines;
            return;
        }
        if state.bytes == 0 || state.bytes + batch.bytes.len() <= PIPE_BYTES_MAX {
            state.bytes += batch.bytes.len();
            state.batches.push_back(batch);
            drop(state);
            return self.filled.notify_one();
        }
        state.dropped += batch.lines;
        if !std::mem::replace(&mut state.is_dropping, true) {
            let why =
                state.problem.clone().unwrap_or_else(|| "it takes lines more slowly than they are written".to_owned());
            drop(state);
            let (name, most) = (&self.name, ByteCount::from_bytes(PIPE_BYTES_MAX as u64));
            (self.notice)(&format!(
                "lines for {name} are dropped and counted as not passed on, since {most} wait for it: {why}; the files have them"
            ));
        }
    }

    /// Waits for lines; `None` at the end. An output has recovered once the queue is empty: one that takes a part of the lines now and then would
    /// otherwise be reported each time.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state.bytes -= batch.bytes.len();
                return Some(batch);
            }
            state.problem = None;
            if std::mem::take(&mut state.is_dropping) {
                let dropped = state.dropped - state.reported;
                state.reported = state.dropped;
                drop(state);
                (self.notice)(&format!("{} takes all lines again; {dropped} were dropped", self.name));
                state = self.lock();
                continue;
            }
            if state.is_closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports a problem of the output, unless it has had one since the queue was empty last.
    pub(super) fn fails(&self, problem: &str) {
        if self.lock().problem.replace(problem.to_owned()).is_none() {
            (self.notice)(&format!("cannot pass lines on to {}: {problem}; retrying", self.name));
        }
    }

    /// The output takes no more lines: those that wait and all later ones are counted.
    pub(super) fn ends(&self, problem: &str) {
        let mut state = self.lock();
        state.has_ended = true;
        state.dropped += state.batches.drain(..).map(|batch| batch.lines).sum::<u64>();
        drop(state);
        (self.notice)(&format!("{} takes no more lines: {problem}; they are counted as not passed on", self.name));
    }

    /// No more lines will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Lines dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_dropped_and_counted_and_each_change_is_reported_once() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        let pipe = Pipe::new(
            "the peer".to_owned(),
            Arc::new(move |text: &str| ears.lock().expect("whole").push(text.to_owned())),
        );
        let batch = || Batch { bytes: vec![0; PIPE_BYTES_MAX / 4], lines: 10 };
        for round in 1..=2 {
            pipe.fails("it took no data for 5 s");
            pipe.fails("it took no data for 5 s");
            (0..7).for_each(|_| pipe.put(batch()));
            assert_eq!(pipe.dropped(), round * 30);
            (0..4).for_each(|_| drop(pipe.take()));
            pipe.put(batch());
            // It is empty only now.
            assert_eq!(heard.lock().expect("whole").len(), 2, "{heard:?}");
            drop(pipe.take());
            let waiting = {
                let pipe = Arc::clone(&pipe);
                std::thread::spawn(move || pipe.take().map(|batch| batch.lines))
            };
            while heard.lock().expect("whole").len() < 3 {
                std::thread::yield_now();
            }
            pipe.put(Batch { bytes: vec![0], lines: 1 });
            assert_eq!(waiting.join().expect("no panic"), Some(1));
            let texts = std::mem::take(&mut *heard.lock().expect("whole"));
            assert_eq!(texts[0], "cannot pass lines on to the peer: it took no data for 5 s; retrying");
            assert!(
                texts[1].starts_with("lines for the peer are dropped") && texts[1].contains("it took no data"),
                "{texts:?}"
            );
            assert_eq!(texts[2], "the peer takes all lines again; 30 were dropped");
        }
        pipe.close();
        assert!(pipe.take().is_none());
    }

    #[test]
    fn an_output_that_has_ended_gets_nothing_and_all_lines_are_counted() {
        let pipe = Pipe::new("standard output".to_owned(), Arc::new(|_: &str| {}));
        (0..3).for_each(|_| pipe.put(Batch { bytes: vec![0], lines: 2 }));
        drop(pipe.take());
        pipe.ends("its reader has ended");
        pipe.put(Batch { bytes: vec![0], lines: 5 });
        assert_eq!(pipe.dropped(), 9);
    }

    #[test]
    fn a_commit_larger_than_the_bound_waits_alone() {
        let pipe = Pipe::new("the peer".to_owned(), Arc::new(|_: &str| {}));
        (0..2).for_each(|_| pipe.put(Batch { bytes: vec![0; PIPE_BYTES_MAX + 1], lines: 1 }));
        assert_eq!((pipe.take().map(|batch| batch.lines), pipe.dropped()), (Some(1), 1));
    }
}

//! The queue between inputs and relay, and the rates of sources.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use festina_units::{Duration, Preview};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::clock;
use crate::positions::Position;

/// A received line.
#[derive(Clone)]
pub(crate) struct Incoming {
    pub(crate) source: Bytes,
    pub(crate) line: Bytes,
    pub(crate) cut: bool,
    /// When it was received.
    pub(crate) received_us: u64,
    pub(crate) arrived_us: u64,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, line, cut, received_us, arrived_us } = self;
        formatter
            .debug_struct("Incoming")
            .field("source", &Preview(source))
            .field("line", &Preview(line))
            .field("cut", cut)
            .field("received_us", received_us)
            .field("arrived_us", arrived_us)
            .finish()
    }
}

/// Maximum number of lines that wait for the relay.
const QUEUE_LINES: u32 = 16_384;

/// Maximum number of lines that wait for the relay while it takes none for lack of room.
const HELD_LINES: usize = 1_024;

/// Maximum number of batches of file lines that wait for the relay.
const FILE_BATCHES: usize = 4;

/// Maximum time for inputs to hand over pending lines when the relay stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum number of sources whose rates are limited at the same time. Beyond it all rates are reset.
const SOURCES_MAX: usize = 65_536;

/// Lines dropped at the inputs, and failed connections.
#[derive(Debug, Default)]
pub(crate) struct InputCounters {
    /// Lines dropped because the relay did not take them in time.
    pub(crate) shed_overrun: AtomicU64,
    /// Lines dropped because their source exceeded its rate.
    pub(crate) shed_rate: AtomicU64,
    /// Datagrams that the kernel dropped before they could be read.
    pub(crate) lost_in_kernel: AtomicU64,
    /// Connections closed because of their framing.
    pub(crate) framing_errors: AtomicU64,
    /// Connections refused for lack of room.
    pub(crate) refused_connections: AtomicU64,
    /// Failures to accept a connection.
    pub(crate) accept_errors: AtomicU64,
    /// Times that unread lines of a followed file may have been lost.
    pub(crate) file_losses: Arc<AtomicU64>,
}

/// Counts one more. Returns the count the 1st, 2nd, 4th, 8th... time, when it is worth a line in the log.
pub(super) fn count(counter: &AtomicU64) -> Option<u64> {
    let times = counter.fetch_add(1, Ordering::Relaxed) + 1;
    times.is_power_of_two().then_some(times)
}

/// Lines received together. It takes room in the queue until dropped.
pub(crate) struct Batch {
    pub(crate) lines: Vec<Incoming>,
    _room: OwnedSemaphorePermit,
}

/// Consecutive lines of a file.
pub(crate) struct FileBatch {
    /// The number of the input among those of its kind.
    pub(crate) index: usize,
    pub(crate) lines: Vec<Incoming>,
    /// The position after them.
    pub(crate) position: Position,
}

/// Shared by all inputs.
#[derive(Clone)]
pub(crate) struct Intake {
    lines: mpsc::UnboundedSender<Batch>,
    files: mpsc::Sender<FileBatch>,
    /// Room for lines, which bounds the queue.
    room: Arc<Semaphore>,
    pub(crate) counters: Arc<InputCounters>,
    bytes_max: usize,
    /// Whether inputs should hand over pending lines and end.
    stopping: watch::Receiver<bool>,
    /// Dropped with the last clone, when all inputs have ended.
    _running: mpsc::Sender<()>,
}

/// The receiving side: takes lines and stops inputs.
pub(crate) struct Taking {
    pub(crate) lines: mpsc::UnboundedReceiver<Batch>,
    pub(crate) files: mpsc::Receiver<FileBatch>,
    pub(crate) queue: Queue,
    pub(crate) stop: StopInputs,
}

/// The room for lines that wait for the relay.
pub(crate) struct Queue {
    room: Arc<Semaphore>,
    withheld: Option<OwnedSemaphorePermit>,
}

impl Queue {
    /// Withholds most of the room, or returns it: inputs that can wait stop reading, and the others count their losses.
    pub(super) fn withhold(&mut self, withholds: bool) {
        if !withholds {
            self.withheld = None;
        } else if self.withheld.is_none() {
            let most = self.room.available_permits().saturating_sub(HELD_LINES);
            // Inputs may have taken room meanwhile; the next call tries again.
            self.withheld = Arc::clone(&self.room).try_acquire_many_owned(u32::try_from(most).unwrap_or(0)).ok();
        }
    }
}

/// Stops the inputs.
pub(crate) struct StopInputs {
    stopping: watch::Sender<bool>,
    running: mpsc::Receiver<()>,
}

impl StopInputs {
    /// Lets inputs hand over pending lines, and waits for their end for a bounded time.
    pub(crate) async fn stop(&mut self) {
        // Inputs that have ended no longer listen.
        let _ = self.stopping.send(true);
        let _ = tokio::time::timeout(STOP_TIME_MAX, self.running.recv()).await;
    }
}

impl Intake {
    /// Creates the two sides of the queue for lines of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize, counters: Arc<InputCounters>) -> (Self, Taking) {
        let (lines_in, lines) = mpsc::unbounded_channel();
        let (files_in, files) = mpsc::channel(FILE_BATCHES);
        let (stopping_in, stopping) = watch::channel(false);
        let (running_in, running) = mpsc::channel(1);
        let room = Arc::new(Semaphore::new(usize::try_from(QUEUE_LINES).unwrap_or(usize::MAX)));
        let queue = Queue { room: Arc::clone(&room), withheld: None };
        let intake =
            Self { lines: lines_in, files: files_in, room, counters, bytes_max, stopping, _running: running_in };
        (intake, Taking { lines, files, queue, stop: StopInputs { stopping: stopping_in, running } })
    }

    /// Whether the relay has stopped taking lines.
    pub(crate) fn is_over(&self) -> bool {
        self.lines.is_closed() || self.is_stopping()
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the relay stops.
    pub(super) async fn stopping(&self) {
        // A relay that is gone has stopped.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// The longest line.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Hands lines over, waiting while there is no room: for sources that can wait. Returns whether the relay still takes lines.
    pub(super) async fn wait(&self, lines: Vec<Incoming>) -> bool {
        let count = u32::try_from(lines.len()).unwrap_or(QUEUE_LINES).min(QUEUE_LINES);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(count).await else { return false };
        self.lines.send(Batch { lines, _room: room }).is_ok()
    }

    /// Hands lines of a file over, waiting while too many batches wait. Returns whether the relay still takes lines.
    pub(super) async fn hand_over(&self, batch: FileBatch) -> bool {
        self.files.send(batch).await.is_ok()
    }

    /// Hands a line over, or sheds it and counts it: for sources that would lose it anyway.
    pub(super) fn offer(&self, source: Bytes, line: &[u8], rate: &mut Rate) {
        let (received_us, arrived_us) = (clock::date_us(), clock::steady_us());
        if !rate.allows(&source, arrived_us) {
            self.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            self.counters.shed_overrun.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let cut = line.len() > self.bytes_max;
        let line = Bytes::copy_from_slice(&line[..line.len().min(self.bytes_max)]);
        // A stopped relay takes nothing, and the input notices that elsewhere.
        let _ = self
            .lines
            .send(Batch { lines: vec![Incoming { source, line, cut, received_us, arrived_us }], _room: room });
    }
}

/// The rate limit of sources: a burst of one second, then a steady rate.
pub(super) struct Rate {
    per_second_max: Option<u32>,
    /// Remaining allowance of each source in millionths of a line, and the time of the last update.
    sources: HashMap<Bytes, (u64, u64)>,
}

impl Rate {
    pub(super) fn new(per_second_max: Option<u32>) -> Self {
        Self { per_second_max, sources: HashMap::new() }
    }

    pub(super) fn allows(&mut self, source: &Bytes, now_us: u64) -> bool {
        let Some(most) = self.per_second_max.map(u64::from) else { return true };
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(source) {
            self.sources.clear();
        }
        let full = most * 1_000_000;
        let (left, at) = self.sources.entry(source.clone()).or_insert((full, now_us));
        *left = full.min(left.saturating_add(now_us.saturating_sub(*at).saturating_mul(most)));
        *at = now_us;
        let allowed = *left >= 1_000_000;
        *left -= if allowed { 1_000_000 } else { 0 };
        allowed
    }
}

#[cfg(test)]
impl Intake {
    pub(super) fn for_tests() -> (Self, Taking) {
        Self::new(8 << 10, Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_rate_and_others_are_not_held_up_by_it() {
        let mut rate = Rate::new(Some(10));
        let (loud, quiet) = (Bytes::from_static(b"loud"), Bytes::from_static(b"quiet"));
        let allowed = (0..1_000).filter(|&line| rate.allows(&loud, line * 10_000)).count();
        assert!((105..=111).contains(&allowed), "{allowed} lines in 10 s");
        assert!(rate.allows(&quiet, 10_000_000));
    }
}

//! The lines of a run: when the application had each, and when it arrived.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use festina_lab::scenario::{Line, LineFate};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The headers of important lines and of the others: severities err and debug.
const HEADERS: [&str; 2] = ["<131>", "<135>"];
/// Digits of a line's number, which follow the header.
const DIGITS: usize = 9;
/// Shorter lines are padded.
const LINE_BYTES_MIN: usize = HEADERS[0].len() + DIGITS + 1;

/// All lines of a run.
pub(super) struct Course {
    lines: Vec<Line>,
    /// When the first line may come, once that is known.
    begins: OnceLock<Instant>,
    lasts: Duration,
    notes: Mutex<Notes>,
}

struct Notes {
    had_at: Vec<Option<Instant>>,
    delays: Vec<Option<Duration>>,
    arrived: usize,
    unexpected: usize,
}

impl Course {
    /// Lines of a time that `lasts` so long and has not begun.
    pub(super) fn new(lines: Vec<Line>, lasts: Duration) -> Self {
        let count = lines.len();
        let notes = Notes { had_at: vec![None; count], delays: vec![None; count], arrived: 0, unexpected: 0 };
        Self { lines, begins: OnceLock::new(), lasts, notes: Mutex::new(notes) }
    }

    /// Has lines begin after this time, and returns when that is and when they end.
    pub(super) fn begin_after(&self, lead: Duration) -> [Instant; 2] {
        let begins = *self.begins.get_or_init(|| Instant::now() + lead);
        [begins, begins + self.lasts]
    }

    /// Returns whether this is the time of the lines.
    pub(super) fn is_under_way(&self) -> bool {
        self.begins.get().is_some_and(|begins| (*begins..*begins + self.lasts).contains(&Instant::now()))
    }

    pub(super) fn lasts(&self) -> Duration {
        self.lasts
    }

    pub(super) fn is_important(&self, number: usize) -> bool {
        self.lines.get(number).is_some_and(|line| line.is_important)
    }

    /// The text of a line, which ends with a line feed.
    pub(super) fn text(&self, number: usize) -> Vec<u8> {
        let header = HEADERS[usize::from(!self.is_important(number))];
        let size = self.lines.get(number).map_or(0, |line| usize::try_from(line.size.bytes()).unwrap_or(usize::MAX));
        let mut text = format!("{header}{number:0DIGITS$}").into_bytes();
        text.resize(size.max(LINE_BYTES_MIN) - 1, b'-');
        text.push(b'\n');
        text
    }

    /// Gives each line to the sender at its time, however long the sender takes for those before it.
    pub(super) async fn write(&self, lines: mpsc::UnboundedSender<usize>) {
        let [begins, _] = self.begin_after(Duration::ZERO);
        for (number, line) in self.lines.iter().enumerate() {
            sleep_until(begins + line.at).await;
            self.notes().had_at[number] = Some(Instant::now());
            // A sender that has failed takes no more.
            if lines.send(number).is_err() {
                return;
            }
        }
    }

    /// Notes that a line has arrived now.
    pub(super) fn note_arrival(&self, text: &[u8]) {
        let now = Instant::now();
        let number = number_of(text);
        let mut notes = self.notes();
        let had_at = number.and_then(|number| Some((number, (*notes.had_at.get(number)?)?)));
        match had_at.filter(|(number, _)| notes.delays[*number].is_none()) {
            Some((number, had_at)) => {
                notes.delays[number] = Some(now - had_at);
                notes.arrived += 1;
            }
            None => notes.unexpected += 1,
        }
    }

    pub(super) fn have_all_arrived(&self) -> bool {
        self.notes().arrived == self.lines.len()
    }

    /// Returns how many lines arrived twice or were never sent; there must be none.
    pub(super) fn unexpected(&self) -> usize {
        self.notes().unexpected
    }

    pub(super) fn fates(&self) -> Vec<LineFate> {
        let delays = self.notes().delays.clone();
        self.lines.iter().zip(delays).map(|(line, delay)| LineFate { is_important: line.is_important, delay }).collect()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Nothing that holds the lock can fail halfway.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a line.
fn number_of(text: &[u8]) -> Option<usize> {
    let digits = text.get(HEADERS[0].len()..)?.get(..DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use festina_units::ByteCount;

    use super::*;

    #[tokio::test]
    async fn each_line_counts_once_and_strangers_are_told_apart() {
        let line = |size, is_important| Line { at: Duration::ZERO, size: ByteCount::from_bytes(size), is_important };
        let course = Course::new(vec![line(250, true), line(3, false)], Duration::from_secs(1));
        let texts = [course.text(0), course.text(1)];
        assert_eq!(texts.each_ref().map(Vec::len), [250, LINE_BYTES_MIN]);
        assert!(texts[0].starts_with(b"<131>000000000-") && texts[1].starts_with(b"<135>000000001"));
        course.note_arrival(&texts[0]);
        assert_eq!((course.unexpected(), course.is_under_way()), (1, false), "it was not due yet");
        let (lines_in, mut lines) = mpsc::unbounded_channel();
        course.write(lines_in).await;
        assert!(course.is_under_way());
        assert_eq!((lines.recv().await, lines.recv().await, lines.recv().await), (Some(0), Some(1), None));
        course.note_arrival(&texts[1]);
        course.note_arrival(&texts[1]);
        course.note_arrival(b"short");
        assert_eq!((course.unexpected(), course.have_all_arrived()), (3, false));
        let fates = course.fates();
        assert_eq!((fates[0].delay, fates[1].delay.is_some()), (None, true));
        assert!(fates[0].is_important && !fates[1].is_important);
    }
}

//! The pause after an attempt to receive that failed.

use std::io;

use festina_units::{Duration, Instant};

use super::socket::is_about_the_past;

/// The first pause; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Failures in a row that may be echoes of datagrams sent earlier (ICMP). The system reports each of them once.
const ECHOES_MAX: u32 = 8;

/// The back-off of a driver whose socket fails. A failure may pass, or last as long as the socket; retrying without a pause would take a whole core.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: u32,
    until: Option<Instant>,
}

impl Pause {
    /// Notes a failure. Returns whether a pause follows.
    pub(super) fn fail(&mut self, now: Instant, error: &io::Error) -> bool {
        self.failures = self.failures.saturating_add(1);
        let mut doublings = self.failures - 1;
        if is_about_the_past(error) {
            if self.failures <= ECHOES_MAX {
                return false;
            }
            doublings -= ECHOES_MAX;
        }
        self.until = Some(now + PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX));
        true
    }

    /// Takes note that the socket works.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// When the pause ends, if there is one now. The clock is read only after a failure.
    pub(super) fn until(&self, now: impl FnOnce() -> Instant) -> Option<Instant> {
        self.until.filter(|until| now() < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(kind: io::ErrorKind) -> Vec<u128> {
        let (mut pause, mut now) = (Pause::default(), Instant::from_secs(1));
        let mut pauses = Vec::new();
        for _ in 0..14 {
            pause.fail(now, &kind.into());
            let until = pause.until(|| now).unwrap_or(now);
            pauses.push((until - now).as_millis());
            now = until;
        }
        assert_eq!(pause.until(|| now), None, "it is over when it ends");
        pauses
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        assert_eq!(
            pauses(io::ErrorKind::OutOfMemory),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000, 1_000, 1_000]
        );
    }

    #[test]
    fn echoes_of_earlier_datagrams_cost_no_pause_unless_they_never_end() {
        assert_eq!(pauses(io::ErrorKind::ConnectionRefused), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn a_socket_that_works_again_begins_anew() {
        let (mut pause, now) = (Pause::default(), Instant::from_secs(1));
        assert!((0..10).all(|_| pause.fail(now, &io::ErrorKind::OutOfMemory.into())));
        pause.succeed();
        assert_eq!(pause.until(|| now), None);
        pause.fail(now, &io::ErrorKind::OutOfMemory.into());
        assert_eq!(pause.until(|| now), Some(now + PAUSE_MIN));
    }
}

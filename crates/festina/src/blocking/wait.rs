//! Waiting with a time limit in a thread that has no runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use festina_units::{Duration, Instant};

use super::TimedOut;
use crate::clock;

/// Time limit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// As long as it takes.
    None,
    /// Until then.
    Until(Instant),
}

impl Limit {
    /// Creates a limit that starts now.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        limit.map_or(Self::None, |limit| Self::Until(clock::now().saturating_add(limit)))
    }

    /// Returns the time left: `None` if there is none.
    fn left(self) -> Option<Duration> {
        match self {
            Self::None => Some(Duration::MAX),
            Self::Until(end) => Some(end.saturating_duration_since(clock::now())).filter(|left| !left.is_zero()),
        }
    }

    /// Waits for a condition variable. Returns `None`, without the lock, if the time is up.
    pub(super) fn wait<'a, T>(self, changed: &Condvar, guard: MutexGuard<'a, T>) -> Option<MutexGuard<'a, T>> {
        let left = self.left()?;
        Some(match self {
            Self::None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Self::Until(_) => changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0,
        })
    }
}

struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Waits for a future. It is polled at least once.
pub(super) fn wait<F: Future>(future: F, limit: Option<Duration>) -> Result<F::Output, TimedOut> {
    let mut future = pin!(future);
    let limit = Limit::new(limit);
    let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        while !parked.woken.swap(false, Ordering::Acquire) {
            let left = limit.left().ok_or(TimedOut)?;
            match limit {
                Limit::None => thread::park(),
                Limit::Until(_) => thread::park_timeout(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_no_longer_than_it_may() {
        let begun = clock::now();
        assert_eq!(wait(std::future::pending::<()>(), Some(Duration::from_millis(50))), Err(TimedOut));
        assert!(clock::now() - begun >= Duration::from_millis(50));
        assert_eq!(wait(std::future::pending::<()>(), Some(Duration::ZERO)), Err(TimedOut));
        assert_eq!(wait(async { 3 }, Some(Duration::ZERO)), Ok(3));
    }

    #[test]
    fn a_woken_future_is_polled_again() {
        let mut polls = 0;
        let third = std::future::poll_fn(|context| {
            polls += 1;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        });
        assert_eq!(wait(third, None), Ok(3));
    }
}

//! Waiting with a time limit in a thread that has no runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use festina::{Duration, Instant};

use crate::status::Failure;

/// The time limit that is none.
pub(crate) const FOREVER: i32 = -1;

/// A time limit in milliseconds; `None` for [`FOREVER`]. Other negative numbers, mostly of a miscalculated limit, are refused.
pub(crate) fn duration(timeout_ms: i32) -> Result<Option<Duration>, Failure> {
    match u64::try_from(timeout_ms) {
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        Err(_) if timeout_ms == FOREVER => Ok(None),
        Err(_) => Err(Failure::invalid(format_args!(
            "timeout_ms is {timeout_ms}, but must be FESTINA_FOREVER (-1), FESTINA_NOW (0) or more"
        ))),
    }
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// As long as it takes.
    None,
    /// Until then.
    Until(Instant),
}

impl Limit {
    /// From milliseconds; [`FOREVER`] sets no limit.
    pub(crate) fn from_ms(timeout_ms: i32) -> Result<Self, Failure> {
        duration(timeout_ms).map(Self::from_now)
    }

    /// From a duration that begins now.
    pub(crate) fn from_now(limit: Option<Duration>) -> Self {
        limit.map_or(Self::None, |limit| Self::Until(festina::now().saturating_add(limit)))
    }

    /// What is left: `None` if the time is over.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Self::None => Some(Duration::MAX),
            Self::Until(end) => Some(end.saturating_duration_since(festina::now())).filter(|left| !left.is_zero()),
        }
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

/// Waits for a future; `None` if the time is over before. It is looked at once at least.
pub(crate) fn wait<F: Future>(future: F, limit: Limit) -> Option<F::Output> {
    let mut future = pin!(future);
    let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        while !parked.woken.swap(false, Ordering::Acquire) {
            match limit {
                Limit::None => thread::park(),
                Limit::Until(_) => thread::park_timeout(limit.left()?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_no_longer_than_it_may() {
        let begun = festina::now();
        assert_eq!(wait(std::future::pending::<()>(), Limit::from_ms(50).unwrap()), None);
        assert!(festina::now() - begun >= Duration::from_millis(50));
        assert_eq!(wait(std::future::pending::<()>(), Limit::from_ms(0).unwrap()), None);
        assert_eq!(wait(async { 3 }, Limit::from_ms(0).unwrap()), Some(3));
    }

    #[test]
    fn who_is_woken_looks_again() {
        let mut looks = 0;
        let third = std::future::poll_fn(|context| {
            looks += 1;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            if looks == 3 { Poll::Ready(looks) } else { Poll::Pending }
        });
        assert_eq!(wait(third, Limit::None), Some(3));
    }
}

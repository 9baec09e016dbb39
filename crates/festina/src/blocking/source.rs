//! Items that arrive again and again, for which threads wait with a time limit and event loops by a descriptor.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use futures_core::Stream;

use super::TimedOut;
use super::notifier::Notifier;
use super::readiness::Signal;
use super::wait::Limit;
use crate::locks::lock;

/// A stream from which any number of threads take items.
#[derive(Debug)]
pub(super) struct Source<S> {
    stream: Mutex<S>,
    arrivals: Arc<Arrivals>,
    waker: Waker,
}

/// Notifies that something may have arrived.
#[derive(Debug)]
struct Arrivals {
    count: Mutex<Count>,
    changed: Condvar,
    notifier: OnceLock<Notifier>,
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Count {
    wakes: u64,
    threads_waiting: u32,
}

impl Arrivals {
    fn announce(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
        self.signal.raise();
    }
}

impl Wake for Arrivals {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First, or a thread that the count wakes could take everything and make the descriptor unreadable before this makes it readable.
        self.announce();
        let mut count = lock(&self.count);
        count.wakes += 1;
        let waiting = count.threads_waiting > 0;
        drop(count);
        if waiting {
            self.changed.notify_all();
        }
    }
}

impl<S: Stream + Unpin> Source<S> {
    /// The signal is raised at once, since the stream was not polled yet.
    pub(super) fn new(stream: S, signal: Arc<Signal>) -> Self {
        signal.raise();
        let arrivals =
            Arc::new(Arrivals { count: Mutex::default(), changed: Condvar::new(), notifier: OnceLock::new(), signal });
        Self { stream: Mutex::new(stream), waker: Waker::from(arrivals.clone()), arrivals }
    }

    /// Waits for the next item; `None` after the last one.
    pub(super) fn next(&self, limit: Option<festina_units::Duration>) -> Result<Option<S::Item>, TimedOut> {
        if let Poll::Ready(item) = self.poll() {
            return Ok(item);
        }
        let limit = Limit::new(limit);
        loop {
            let seen = lock(&self.arrivals.count).wakes;
            if let Poll::Ready(item) = self.poll() {
                return Ok(item);
            }
            self.wait_for_more_than(seen, limit)?;
        }
    }

    /// Looks once. If nothing was there the descriptor is unreadable afterwards; otherwise it is readable, since there may be more.
    pub(super) fn poll(&self) -> Poll<Option<S::Item>> {
        let mut stream = lock(&self.stream);
        let mut context = Context::from_waker(&self.waker);
        let mut poll = |stream: &mut S| Pin::new(stream).poll_next(&mut context);
        let mut polled = poll(&mut stream);
        if polled.is_pending() && self.arrivals.notifier.get().is_some_and(Notifier::clear) {
            polled = poll(&mut stream);
        }
        if polled.is_ready() {
            self.arrivals.announce();
        }
        polled
    }

    fn wait_for_more_than(&self, seen: u64, limit: Limit) -> Result<(), TimedOut> {
        let mut count = lock(&self.arrivals.count);
        count.threads_waiting += 1;
        while count.wakes == seen {
            match limit.wait(&self.arrivals.changed, count) {
                Some(woken) => count = woken,
                None => {
                    lock(&self.arrivals.count).threads_waiting -= 1;
                    return Err(TimedOut);
                }
            }
        }
        count.threads_waiting -= 1;
        Ok(())
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.arrivals.signal
    }

    /// Returns a descriptor that is readable when [`Source::next`] would not have to wait. It may be readable too early once, and is at first.
    #[cfg(unix)]
    pub(super) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        // No poll runs meanwhile that could miss the new descriptor.
        let _stream = lock(&self.stream);
        if let Some(notifier) = self.arrivals.notifier.get() {
            return Ok(notifier.as_fd());
        }
        let notifier = Notifier::new()?;
        notifier.notify();
        Ok(self.arrivals.notifier.get_or_init(|| notifier).as_fd())
    }
}

impl<S> Drop for Source<S> {
    fn drop(&mut self) {
        self.arrivals.signal.withdraw();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::AsRawFd;

    use festina_units::Duration;

    use super::super::readiness::{Readiness, ReadyKind};
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    /// The results of polls, one after the other; then nothing.
    struct Script(VecDeque<Poll<Option<u8>>>);

    impl Stream for Script {
        type Item = u8;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u8>> {
            self.0.pop_front().unwrap_or(Poll::Pending)
        }
    }

    fn scripted<const N: usize>(polls: [Poll<Option<u8>>; N]) -> (Source<Script>, Arc<Readiness>) {
        let readiness = Readiness::new();
        (Source::new(Script(polls.into()), Signal::new(&readiness, ReadyKind::Message, 7)), readiness)
    }

    fn is_readable(source: &Source<Script>) -> bool {
        source.arrivals.notifier.get().is_some_and(|notifier| {
            let is_readable = notifier.clear();
            if is_readable {
                notifier.notify();
            }
            is_readable
        })
    }

    fn is_listed(readiness: &Readiness) -> bool {
        let mut ready = Vec::new();
        readiness.take(&mut ready, 9);
        !ready.is_empty()
    }

    #[test]
    fn an_arrival_while_the_descriptor_is_cleared_makes_it_readable_again() {
        let (source, readiness) =
            scripted([Poll::Pending, Poll::Ready(Some(1)), Poll::Pending, Poll::Pending, Poll::Pending]);
        source.descriptor().unwrap();
        assert!(is_readable(&source) && is_listed(&readiness), "a new reader looks first");
        assert_eq!(source.next(NOW), Ok(Some(1)));
        assert!(is_readable(&source) && is_listed(&readiness), "there may be more");
        assert_eq!(source.next(NOW), Err(TimedOut));
        assert!(!is_readable(&source) && !is_listed(&readiness));
        source.waker.wake_by_ref();
        assert!(is_readable(&source) && is_listed(&readiness));
        source.waker.wake_by_ref();
        drop(source);
        assert!(!is_listed(&readiness));
    }

    #[test]
    fn the_end_stays() {
        let (source, _readiness) = scripted([Poll::Ready(None)]);
        source.descriptor().unwrap();
        assert_eq!(source.next(None), Ok(None));
        assert!(is_readable(&source));
    }

    #[test]
    fn a_wake_up_between_look_and_wait_is_not_missed() {
        let (source, _readiness) = scripted([Poll::Pending, Poll::Ready(Some(2))]);
        let seen = lock(&source.arrivals.count).wakes;
        assert!(source.poll().is_pending());
        source.waker.wake_by_ref();
        assert_eq!(source.wait_for_more_than(seen, Limit::new(NOW)), Ok(()));
        assert_eq!(source.next(None), Ok(Some(2)));
        assert_eq!(source.next(Some(Duration::from_millis(1))), Err(TimedOut));
        assert_eq!(lock(&source.arrivals.count).threads_waiting, 0);
    }

    #[test]
    fn the_same_descriptor_is_returned_again() {
        let (source, _readiness) = scripted([]);
        let descriptor = source.descriptor().unwrap().as_raw_fd();
        assert_eq!(source.descriptor().unwrap().as_raw_fd(), descriptor);
    }
}

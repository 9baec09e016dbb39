//! Something that arrives again and again, for which threads wait with a time limit and event loops by a descriptor.

use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use festina_bridge::Bell;
use futures_core::Stream;

use crate::status::{Failure, Status};
use crate::wait::Limit;

/// A stream as a C program takes from it. Any number of threads may.
#[derive(Debug)]
pub(crate) struct Source<S> {
    stream: Mutex<S>,
    arrivals: Arc<Arrivals>,
    waker: Waker,
}

/// What [`Source::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    Item(T),
    /// Nothing comes any more.
    End,
    /// Nothing came within the time limit.
    TimedOut,
}

/// Tells that something may have arrived.
#[derive(Debug, Default)]
struct Arrivals {
    count: Mutex<Count>,
    changed: Condvar,
    bell: OnceLock<Bell>,
}

#[derive(Debug, Default)]
struct Count {
    wakes: u64,
    threads_waiting: u32,
}

impl Wake for Arrivals {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut count = lock(&self.count);
        count.wakes += 1;
        let waiting = count.threads_waiting > 0;
        drop(count);
        if waiting {
            self.changed.notify_all();
        }
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }
}

impl<S: Stream + Unpin> Source<S> {
    pub(crate) fn new(stream: S) -> Self {
        let arrivals = Arc::<Arrivals>::default();
        Self { stream: Mutex::new(stream), waker: Waker::from(arrivals.clone()), arrivals }
    }

    /// The next item.
    pub(crate) fn next(&self, limit: Limit) -> Next<S::Item> {
        loop {
            let seen = lock(&self.arrivals.count).wakes;
            match self.poll() {
                Poll::Ready(Some(item)) => return Next::Item(item),
                Poll::Ready(None) => return Next::End,
                Poll::Pending => {}
            }
            if !self.wait_for_more_than(seen, limit) {
                return Next::TimedOut;
            }
        }
    }

    /// Looks once. The bell is silent afterwards if nothing was there, and rings otherwise: there may be more.
    fn poll(&self) -> Poll<Option<S::Item>> {
        let mut stream = lock(&self.stream);
        let mut context = Context::from_waker(&self.waker);
        let mut poll = |stream: &mut S| Pin::new(stream).poll_next(&mut context);
        let mut polled = poll(&mut stream);
        let Some(bell) = self.arrivals.bell.get() else { return polled };
        if polled.is_pending() && bell.silence() {
            polled = poll(&mut stream);
        }
        if polled.is_ready() {
            bell.ring();
        }
        polled
    }

    /// Returns false if the time is over before.
    fn wait_for_more_than(&self, seen: u64, limit: Limit) -> bool {
        let mut count = lock(&self.arrivals.count);
        count.threads_waiting += 1;
        while count.wakes == seen {
            let Some(left) = limit.left() else { break };
            count = match limit {
                Limit::None => self.arrivals.changed.wait(count).unwrap_or_else(PoisonError::into_inner),
                Limit::Until(_) => {
                    let waited = self.arrivals.changed.wait_timeout(count, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        count.threads_waiting -= 1;
        count.wakes != seen
    }

    /// A descriptor that is readable when [`Source::next`] would not have to wait. It may be readable too early once, and is at first.
    pub(crate) fn descriptor(&self) -> Result<RawFd, Failure> {
        // Nobody looks meanwhile, so nobody misses that there is a bell now.
        let _stream = lock(&self.stream);
        if let Some(bell) = self.arrivals.bell.get() {
            return Ok(bell.as_raw_fd());
        }
        let bell = Bell::new().map_err(|error| Failure::new(Status::System, format_args!("no descriptor: {error}")))?;
        bell.ring();
        Ok(self.arrivals.bell.get_or_init(|| bell).as_raw_fd())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What polls find, one after the other; nothing once all are told.
    struct Script(VecDeque<Poll<Option<u8>>>);

    impl Stream for Script {
        type Item = u8;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u8>> {
            self.0.pop_front().unwrap_or(Poll::Pending)
        }
    }

    fn scripted<const N: usize>(polls: [Poll<Option<u8>>; N]) -> Source<Script> {
        Source::new(Script(polls.into()))
    }

    fn rings(source: &Source<Script>) -> bool {
        source.arrivals.bell.get().is_some_and(|bell| {
            let rings = bell.silence();
            if rings {
                bell.ring();
            }
            rings
        })
    }

    #[test]
    fn what_arrives_while_the_bell_is_silenced_rings_it_again() {
        let source = scripted([Poll::Pending, Poll::Ready(Some(1)), Poll::Pending, Poll::Pending]);
        source.descriptor().unwrap();
        assert!(rings(&source), "who has a descriptor looks first");
        assert_eq!(source.next(Limit::from_ms(0).unwrap()), Next::Item(1));
        assert!(rings(&source), "there may be more");
        assert_eq!(source.next(Limit::from_ms(0).unwrap()), Next::TimedOut);
        assert!(!rings(&source));
        source.waker.wake_by_ref();
        assert!(rings(&source));
    }

    #[test]
    fn the_end_stays() {
        let source = scripted([Poll::Ready(None)]);
        source.descriptor().unwrap();
        assert_eq!(source.next(Limit::None), Next::End);
        assert!(rings(&source));
    }

    #[test]
    fn a_wake_up_between_look_and_wait_is_not_missed() {
        let source = scripted([Poll::Pending, Poll::Ready(Some(2))]);
        let seen = lock(&source.arrivals.count).wakes;
        assert!(source.poll().is_pending());
        source.waker.wake_by_ref();
        assert!(source.wait_for_more_than(seen, Limit::from_ms(0).unwrap()));
        assert_eq!(source.next(Limit::None), Next::Item(2));
    }

    #[test]
    fn the_same_descriptor_is_told_again() {
        let source = scripted([]);
        let descriptor = source.descriptor().unwrap();
        assert_eq!(source.descriptor().unwrap(), descriptor);
        assert_eq!(source.arrivals.bell.get().map(AsRawFd::as_raw_fd), Some(descriptor));
    }
}

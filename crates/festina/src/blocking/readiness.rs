//! Readiness of many objects.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

use festina_units::Duration;

use super::TimedOut;
use super::notifier::Notifier;
use super::wait::Limit;
use crate::locks::lock;

/// A ready object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// The token that the program set for the object, 0 by default.
    pub token: u64,
    /// The call that would not wait.
    pub kind: ReadyKind,
}

/// The kind of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadyKind {
    /// [`Listener::try_accept`](super::Listener::try_accept).
    Accept,
    /// [`Connecting::try_finish`](super::Connecting::try_finish).
    Connect,
    /// [`Association::try_recv`](super::Association::try_recv).
    Message,
    /// [`Association::try_event`](super::Association::try_event).
    Event,
    /// [`Listener::try_request`](super::Listener::try_request).
    Request,
    /// A future of a binding: see [`Readiness::waker`](super::bindings::Readiness::waker).
    Other,
}

/// Collects ready objects, and wakes a thread or an event loop that waits for any of them. Each object is reported once, and again after the next
/// wake-up.
///
/// An [`Endpoint`](super::Endpoint) has one for all its objects. Programs with futures of their own, such as bindings to other languages, create one
/// and poll those futures with its [`waker`](Self::waker).
#[derive(Debug, Default)]
pub struct Readiness {
    woken: Mutex<Vec<Arc<Signal>>>,
    changed: Condvar,
    notifier: OnceLock<Notifier>,
}

/// The signal by which one object reports its readiness.
#[derive(Debug)]
pub(super) struct Signal {
    token: AtomicU64,
    kind: ReadyKind,
    /// It is in the list, so that it need not be added again.
    is_listed: AtomicBool,
    is_gone: AtomicBool,
    /// Weak, since the list holds signals.
    readiness: Weak<Readiness>,
}

impl Signal {
    pub(super) fn new(readiness: &Arc<Readiness>, kind: ReadyKind, token: u64) -> Arc<Self> {
        let readiness = Arc::downgrade(readiness);
        let (is_listed, is_gone) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { token: AtomicU64::new(token), kind, is_listed, is_gone, readiness })
    }

    pub(super) fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    pub(super) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Relaxed);
    }

    /// Lists the object.
    pub(super) fn raise(self: &Arc<Self>) {
        if self.is_listed.load(Ordering::SeqCst) {
            return;
        }
        let Some(readiness) = self.readiness.upgrade() else { return };
        let mut woken = lock(&readiness.woken);
        // Under the lock, so that an object that is gone is never listed afterwards: its token may be a pointer.
        if self.is_gone.load(Ordering::SeqCst) || self.is_listed.swap(true, Ordering::SeqCst) {
            return;
        }
        woken.push(self.clone());
        // Under the lock, so that the descriptor does not become readable after the object was taken.
        if let Some(notifier) = readiness.notifier.get() {
            notifier.notify();
        }
        drop(woken);
        readiness.changed.notify_one();
    }

    /// The object is gone: takes it off the list.
    pub(super) fn withdraw(self: &Arc<Self>) {
        let Some(readiness) = self.readiness.upgrade() else { return };
        let mut woken = lock(&readiness.woken);
        self.is_gone.store(true, Ordering::SeqCst);
        if self.is_listed.load(Ordering::SeqCst) {
            woken.retain(|listed| !Arc::ptr_eq(listed, self));
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

impl Readiness {
    /// Returns one without objects.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a waker that reports this token, with [`ReadyKind::Other`].
    #[must_use]
    pub fn waker(self: &Arc<Self>, token: u64) -> Waker {
        Waker::from(Signal::new(self, ReadyKind::Other, token))
    }

    /// Appends at most `count` ready objects to `ready`. They are reported again after their next wake-up.
    pub fn take(&self, ready: &mut Vec<Ready>, count: usize) {
        self.take_from(&mut lock(&self.woken), ready, count);
    }

    fn take_from(&self, woken: &mut Vec<Arc<Signal>>, ready: &mut Vec<Ready>, count: usize) {
        let taken = count.min(woken.len());
        for signal in woken.drain(..taken) {
            // From here on a further wake-up lists it again.
            signal.is_listed.store(false, Ordering::SeqCst);
            ready.push(Ready { token: signal.token(), kind: signal.kind });
        }
        self.clear_if_empty(woken);
    }

    /// Makes the descriptor unreadable if no object is ready. The caller holds the lock: objects that are listed later make it readable again.
    fn clear_if_empty(&self, woken: &[Arc<Signal>]) {
        if woken.is_empty()
            && let Some(notifier) = self.notifier.get()
        {
            notifier.clear();
        }
    }

    /// Waits until an object is ready, and then does the same as [`Readiness::take`].
    ///
    /// # Errors
    /// The time limit has passed.
    pub fn wait(
        &self,
        ready: &mut Vec<Ready>,
        count: usize,
        limit: impl Into<Option<Duration>>,
    ) -> Result<(), TimedOut> {
        let limit = Limit::new(limit.into());
        let mut woken = lock(&self.woken);
        while woken.is_empty() {
            self.clear_if_empty(&woken);
            woken = limit.wait(&self.changed, woken).ok_or(TimedOut)?;
        }
        // Under the same lock, so that no other thread takes the object first.
        self.take_from(&mut woken, ready, count);
        Ok(())
    }

    /// Returns a descriptor that is readable while an object is ready. It may be readable too early, until [`Readiness::take`] or
    /// [`Readiness::wait`] has found nothing. Do not read from it or close it.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(notifier) = self.notifier.get() {
            return Ok(notifier.as_fd());
        }
        let notifier = Notifier::new()?;
        // Something may have been listed before there was a descriptor.
        notifier.notify();
        Ok(self.notifier.get_or_init(|| notifier).as_fd())
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        // Listed objects may be woken later, by wakers that are still held.
        self.woken.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(readiness: &Readiness, count: usize) -> Vec<u64> {
        let mut ready = Vec::new();
        readiness.take(&mut ready, count);
        ready.into_iter().map(|ready| ready.token).collect()
    }

    #[test]
    fn each_object_is_reported_once_per_wake_up() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.waker(1), readiness.waker(2));
        assert_eq!(tokens(&readiness, 9), [0; 0]);
        first.wake_by_ref();
        second.wake_by_ref();
        first.wake_by_ref();
        assert_eq!(tokens(&readiness, 1), [1]);
        first.wake_by_ref();
        assert_eq!(tokens(&readiness, 9), [2, 1]);
        assert_eq!(readiness.wait(&mut Vec::new(), 9, Duration::ZERO), Err(TimedOut));
        let weak = Arc::downgrade(&readiness);
        first.wake_by_ref();
        drop(readiness);
        assert!(weak.upgrade().is_none(), "listed objects keep nothing alive");
        first.wake();
    }

    #[test]
    fn an_object_that_is_gone_is_not_reported() {
        let readiness = Readiness::new();
        let signal = Signal::new(&readiness, ReadyKind::Accept, 7);
        signal.raise();
        signal.withdraw();
        signal.raise();
        assert_eq!(tokens(&readiness, 9), [0; 0]);
    }

    #[test]
    fn threads_that_wait_at_the_same_time_each_get_an_object() {
        const WAKE_UPS: usize = 50_000;
        let readiness = Readiness::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let mut ready = Vec::new();
                        readiness.wait(&mut ready, 1, None::<Duration>).unwrap();
                        assert_eq!(ready.len(), 1);
                        if ready[0].token == 0 {
                            return;
                        }
                    }
                });
            }
            for _ in 0..WAKE_UPS {
                readiness.waker(1).wake();
                // Only the last object of a list can be missing.
                while lock(&readiness.woken).len() > 1 {
                    std::thread::yield_now();
                }
            }
            for _ in 0..4 {
                readiness.waker(0).wake();
            }
        });
    }

    #[cfg(unix)]
    fn is_readable(readiness: &Readiness) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let descriptor = readiness.descriptor().unwrap();
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::try_from(Duration::ZERO).unwrap())).unwrap() == 1
    }

    #[cfg(unix)]
    #[test]
    fn the_descriptor_is_unreadable_after_a_wait_that_found_nothing() {
        let readiness = Readiness::new();
        let nothing = || assert_eq!(readiness.wait(&mut Vec::new(), 9, Duration::ZERO), Err(TimedOut));
        assert!(is_readable(&readiness), "a new reader looks first");
        nothing();
        assert!(!is_readable(&readiness));
        let signal = Signal::new(&readiness, ReadyKind::Accept, 7);
        signal.raise();
        assert!(is_readable(&readiness));
        signal.withdraw();
        nothing();
        assert!(!is_readable(&readiness));
    }

    #[cfg(unix)]
    #[test]
    fn the_descriptor_stays_readable_until_everything_was_taken() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.waker(1), readiness.waker(2));
        first.wake();
        assert!(is_readable(&readiness));
        second.wake();
        assert_eq!(tokens(&readiness, 1), [1]);
        assert!(is_readable(&readiness));
        assert_eq!(tokens(&readiness, 1), [2]);
        assert!(!is_readable(&readiness));
    }
}

//! A thread that runs until it is stopped, and its counters.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A running thread. Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub(crate) struct Worker<C> {
    counters: Shared<C>,
    /// Closing it wakes the thread and asks it to end.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The thread's side: the request to stop, and its counters.
#[derive(Debug)]
pub(crate) struct Strings<C> {
    /// Becomes readable, with nothing to read, when the thread should stop.
    pub(crate) stop_requested: PipeReader,
    /// Its published counters.
    pub(crate) published: Shared<C>,
}

/// The other ends of [`Strings`].
#[derive(Debug)]
pub(crate) struct Handle<C> {
    stop: PipeWriter,
    counters: Shared<C>,
}

/// Creates both ends of the connection between a thread and its starter.
///
/// # Errors
/// If the system has no pipe to give.
pub(crate) fn strings<C: Default>() -> io::Result<(Strings<C>, Handle<C>)> {
    let (stop_requested, stop) = io::pipe()?;
    let counters = Shared::default();
    Ok((Strings { stop_requested, published: counters.clone() }, Handle { stop, counters }))
}

impl<C: Copy> Worker<C> {
    /// Starts a thread that runs `work`, which must end when its [`Strings`] request it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn spawn(
        name: &str,
        handle: Handle<C>,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { counters: handle.counters, stop: Some(handle.stop), thread: Some(thread) })
    }

    /// Returns the thread's counters so far.
    pub(crate) fn counters(&self) -> C {
        *self.counters.lock()
    }

    /// Returns whether the thread has ended by itself.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread and returns its final counters.
    ///
    /// # Errors
    /// The error that ended the thread.
    pub(crate) fn stop(mut self) -> io::Result<C> {
        self.end()?;
        Ok(self.counters())
    }
}

impl<C> Worker<C> {
    fn end(&mut self) -> io::Result<()> {
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(io::Error::other("the emulator's thread panicked")),
            None => Ok(()),
        }
    }
}

impl<C> Drop for Worker<C> {
    fn drop(&mut self) {
        // To learn of an error, call `stop`.
        let _ = self.end();
    }
}

/// Counters that the thread writes and anyone reads.
#[derive(Debug, Default)]
pub(crate) struct Shared<C>(Arc<Mutex<C>>);

impl<C> Clone for Shared<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Shared<C> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, C> {
        // A reader cannot leave the counters half written, so a poisoned lock means nothing here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

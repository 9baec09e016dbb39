//! What wakes an event loop, and operations that it waits for.

use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina::blocking::Endpoint;
use festina::blocking::bindings::{ForkGuard, Readiness};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failure::Failure;
use crate::locks::lock;
use crate::logs;

/// Tells an event loop which of the things that it waits for may go on.
#[pyclass(frozen)]
pub(crate) struct Hub {
    shared: ForkGuard<Arc<Shared>>,
}

/// The part of a hub that the objects of an endpoint share.
#[derive(Debug)]
pub(crate) struct Shared {
    readiness: Arc<Readiness>,
    numbers: AtomicU64,
}

/// The number under which a hub reports log records.
const LOGS: u64 = 0;

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Arc::new(Self { readiness: Readiness::new(), numbers: AtomicU64::new(LOGS + 1) });
        logs::register(shared.identity(), shared.readiness.waker(LOGS));
        shared
    }

    /// Its address, unique among living hubs.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the number and the waker of one thing that the event loop waits for.
    pub(crate) fn waker(&self) -> (u64, Waker) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        (number, self.readiness.waker(number))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        logs::unregister(self.identity());
    }
}

impl Hub {
    pub(crate) fn shared(&self) -> Result<&Arc<Shared>, Failure> {
        Ok(self.shared.get()?)
    }
}

#[pymethods]
impl Hub {
    /// The number under which `woken` reports that there are log records.
    #[classattr]
    const LOGS: u64 = LOGS;

    #[new]
    fn new() -> PyResult<Self> {
        let shared = Shared::new();
        // A system without descriptors fails here rather than later.
        shared.readiness.descriptor().map_err(Failure::from)?;
        Ok(Self { shared: ForkGuard::new(shared) })
    }

    /// The descriptor to watch: readable when something was woken.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.shared()?.readiness.descriptor().map_err(Failure::from)?.as_raw_fd())
    }

    /// The numbers of everything that was woken since the last call.
    fn woken(&self) -> PyResult<Vec<u64>> {
        let mut ready = Vec::new();
        self.shared()?.readiness.take(&mut ready, usize::MAX);
        Ok(ready.into_iter().map(|ready| ready.token).collect())
    }
}

/// Makes a Python object of what an operation has come to.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Result<Finish, Failure>> + Send>>;

/// Something that takes time.
#[pyclass(frozen)]
pub(crate) struct Operation {
    number: u64,
    waiting: ForkGuard<Waiting>,
}

/// The native operation.
struct Waiting {
    work: Mutex<Option<Work>>,
    waker: Waker,
    /// Keeps the thread on which the endpoint receives.
    _endpoint: Arc<Endpoint>,
}

impl Operation {
    /// `finish` makes a Python object of the result.
    pub(crate) fn new<T: Send + 'static>(
        hub: &Arc<Shared>,
        endpoint: &Arc<Endpoint>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work: Work = Box::pin(async move {
            let result = work.await?;
            Ok(Box::new(move |py: Python<'_>| finish(py, result)) as Finish)
        });
        let (number, waker) = hub.waker();
        let waiting = Waiting { work: Mutex::new(Some(work)), waker, _endpoint: endpoint.clone() };
        Self { number, waiting: ForkGuard::new(waiting) }
    }
}

#[pymethods]
impl Operation {
    /// The number under which the hub tells that it may go on.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Goes on: the result in a tuple of one, or None if it has to wait.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let waiting = self.waiting.get().map_err(Failure::from)?;
        let mut work = lock(&waiting.work);
        let Some(future) = work.as_mut() else { return Err(Failure::over().into()) };
        match future.as_mut().poll(&mut Context::from_waker(&waiting.waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(result) => {
                *work = None;
                drop(work);
                PyTuple::new(py, [result?(py)?]).map(Some)
            }
        }
    }

    /// Gives it up.
    fn cancel(&self) {
        // In a child made by fork() there is nothing to give up.
        let Ok(waiting) = self.waiting.get() else { return };
        let work = lock(&waiting.work).take();
        drop(work);
    }
}

//! What wakes an event loop, and operations that it waits for.

use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use festina_bridge::{Bell, Home};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failure::Failure;

/// Tells an event loop which of the things that it waits for may go on.
#[pyclass(frozen)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
}

/// What wakers know of a hub.
#[derive(Debug)]
pub(crate) struct Shared {
    bell: Bell,
    woken: Mutex<Vec<Arc<Alarm>>>,
    numbers: AtomicU64,
}

/// The waker of one thing that an event loop waits for.
#[derive(Debug)]
pub(crate) struct Alarm {
    number: u64,
    /// It waits in the hub's list, so that it need not be put there again.
    listed: AtomicBool,
    hub: Arc<Shared>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.listed.swap(true, Ordering::SeqCst) {
            return;
        }
        lock(&self.hub.woken).push(self.clone());
        self.hub.bell.ring();
    }
}

impl Alarm {
    pub(crate) fn new(hub: &Arc<Shared>) -> Arc<Self> {
        let number = hub.numbers.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, listed: AtomicBool::new(false), hub: hub.clone() })
    }

    /// Names it to the event loop.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Hub {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

#[pymethods]
impl Hub {
    #[new]
    fn new() -> PyResult<Self> {
        let shared = Shared { bell: Bell::new()?, woken: Mutex::default(), numbers: AtomicU64::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The descriptor to watch: readable when somebody was woken.
    fn fileno(&self) -> RawFd {
        self.shared.bell.as_raw_fd()
    }

    /// The numbers of those who were woken since the last call.
    fn woken(&self) -> Vec<u64> {
        self.shared.bell.silence();
        let woken = std::mem::take(&mut *lock(&self.shared.woken));
        // From here on a further wake-up lists it again: it is looked at after this.
        woken.iter().for_each(|alarm| alarm.listed.store(false, Ordering::SeqCst));
        woken.iter().map(|alarm| alarm.number).collect()
    }
}

/// Makes a Python object of what an operation has come to.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Result<Finish, Failure>> + Send>>;

/// Something that takes time.
#[pyclass(frozen)]
pub(crate) struct Operation {
    work: Mutex<Option<Work>>,
    alarm: Arc<Alarm>,
    home: Arc<Home>,
}

impl Operation {
    /// `finish` makes a Python object of the result.
    pub(crate) fn new<T: Send + 'static>(
        hub: &Arc<Shared>,
        home: &Arc<Home>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work: Work = Box::pin(async move {
            let result = work.await?;
            Ok(Box::new(move |py: Python<'_>| finish(py, result)) as Finish)
        });
        Self { work: Mutex::new(Some(work)), alarm: Alarm::new(hub), home: home.clone() }
    }
}

#[pymethods]
impl Operation {
    /// The number under which the hub tells that it may go on.
    #[getter]
    fn number(&self) -> u64 {
        self.alarm.number()
    }

    /// Goes on: the result in a tuple of one, or None if it has to wait.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut work = lock(&self.work);
        let Some(future) = work.as_mut() else { return Err(Failure::over().into()) };
        let waker = Waker::from(self.alarm.clone());
        let polled = {
            let _runtime = self.home.enter();
            future.as_mut().poll(&mut Context::from_waker(&waker))
        };
        match polled {
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
        let work = lock(&self.work).take();
        drop(work);
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

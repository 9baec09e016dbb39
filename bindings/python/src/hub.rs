//! What wakes an event loop, and operations that it waits for.

use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use festina_bridge::{Bell, Home, Owned};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failure::Failure;

/// Tells an event loop which of the things that it waits for may go on.
#[pyclass(frozen)]
pub(crate) struct Hub {
    shared: Owned<Arc<Shared>>,
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
    /// Weak: the hub's list of those woken would keep the hub, and its descriptor, if nothing reads the list any more.
    hub: Weak<Shared>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.listed.swap(true, Ordering::SeqCst) {
            return;
        }
        let Some(hub) = self.hub.upgrade() else { return };
        lock(&hub.woken).push(self.clone());
        hub.bell.ring();
    }
}

impl Alarm {
    pub(crate) fn new(hub: &Arc<Shared>) -> Arc<Self> {
        let number = hub.numbers.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, listed: AtomicBool::new(false), hub: Arc::downgrade(hub) })
    }

    /// Names it to the event loop.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Hub {
    pub(crate) fn shared(&self) -> Result<&Arc<Shared>, Failure> {
        Ok(self.shared.get()?)
    }
}

#[pymethods]
impl Hub {
    #[new]
    fn new() -> PyResult<Self> {
        let shared = Shared { bell: Bell::new()?, woken: Mutex::default(), numbers: AtomicU64::new(0) };
        Ok(Self { shared: Owned::new(Arc::new(shared)) })
    }

    /// The descriptor to watch: readable when somebody was woken.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.shared()?.bell.as_raw_fd())
    }

    /// The numbers of those who were woken since the last call.
    fn woken(&self) -> PyResult<Vec<u64>> {
        let shared = self.shared()?;
        shared.bell.silence();
        let woken = std::mem::take(&mut *lock(&shared.woken));
        // From here on a further wake-up lists it again: it is looked at after this.
        woken.iter().for_each(|alarm| alarm.listed.store(false, Ordering::SeqCst));
        Ok(woken.iter().map(|alarm| alarm.number).collect())
    }
}

/// Makes a Python object of what an operation has come to.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Result<Finish, Failure>> + Send>>;

/// Something that takes time.
#[pyclass(frozen)]
pub(crate) struct Operation {
    number: u64,
    waiting: Owned<Waiting>,
}

/// The native operation.
struct Waiting {
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
        let alarm = Alarm::new(hub);
        let number = alarm.number();
        Self { number, waiting: Owned::new(Waiting { work: Mutex::new(Some(work)), alarm, home: home.clone() }) }
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
        let waker = Waker::from(waiting.alarm.clone());
        let polled = {
            let _runtime = waiting.home.enter();
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
        // In a child made by fork() there is nothing to give up.
        let Ok(waiting) = self.waiting.get() else { return };
        let work = lock(&waiting.work).take();
        drop(work);
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

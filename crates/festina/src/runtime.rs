//! The runtime that an endpoint lives on: it runs one task, watches descriptors, and waits.
//!
//! Without another choice this is tokio's that the caller is inside. The example `runtime` has another one, of threads and `async-io`.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io;
use std::net::UdpSocket;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use festina_units::Duration;
use tokio::io::Interest;

use crate::error::BindError;

/// A task without a result.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What an endpoint asks of an async runtime. Its calls may come from any thread, and from outside the runtime.
pub trait Runtime: Debug + Send + Sync {
    /// Runs a task to its end in the background.
    fn spawn(&self, task: Task);

    /// Runs work that may take long, such as the look-up of a name, where it keeps no task waiting.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// Ready after `delay`, however long that is. Milliseconds late is early enough: timers of associations do not use it on Linux.
    fn sleep(&self, delay: Duration) -> Task;

    /// Watches a socket that does not block.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    fn watch_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn WatchedSocket>>;

    /// Watches a descriptor for reading: on Linux, the timer of the endpoint.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    #[cfg(unix)]
    fn watch_descriptor(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Watched>>;
}

/// A direction of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Receive.
    Read,
    /// Send.
    Write,
}

/// A socket or descriptor that a runtime watches. Dropping it ends that.
pub trait Watched: Debug + Send + Sync {
    /// Ready if an operation in this direction is worth trying. Otherwise the task is woken when it is; for each direction the last task that
    /// asked.
    ///
    /// # Errors
    /// The runtime shuts down.
    fn poll_ready(&self, direction: Direction, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tries an operation. After [`WouldBlock`](io::ErrorKind::WouldBlock) the next [`poll_ready`](Self::poll_ready) waits until the system reports
    /// readiness. A runtime that knows that nothing is there may return it without trying.
    ///
    /// # Errors
    /// That of the operation.
    fn try_io(&self, direction: Direction, operation: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

/// A socket that a runtime watches.
#[cfg(unix)]
pub trait WatchedSocket: Watched + std::os::fd::AsFd {}

#[cfg(unix)]
impl<T: Watched + std::os::fd::AsFd> WatchedSocket for T {}

/// A socket that a runtime watches.
#[cfg(windows)]
pub trait WatchedSocket: Watched + std::os::windows::io::AsSocket {}

#[cfg(windows)]
impl<T: Watched + std::os::windows::io::AsSocket> WatchedSocket for T {}

/// tokio.
#[derive(Clone, Debug)]
pub(crate) struct Tokio(tokio::runtime::Handle);

impl Tokio {
    /// The one that the caller is inside, with I/O and time.
    pub(crate) fn current() -> Result<Arc<dyn Runtime>, BindError> {
        let handle = tokio::runtime::Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        // tokio reports a missing part by a panic alone.
        let panics = |probe: fn()| catch_unwind(probe).is_err();
        if panics(|| drop(tokio::time::sleep(Duration::ZERO))) {
            return Err(BindError::RuntimeWithoutTime);
        }
        if panics(watch_any_socket) {
            return Err(BindError::RuntimeWithoutIo);
        }
        Ok(Arc::new(Self(handle)))
    }
}

/// Has tokio watch a new socket, whose own errors do not matter.
fn watch_any_socket() {
    #[cfg(unix)]
    drop(tokio::net::UnixDatagram::unbound());
    #[cfg(not(unix))]
    if let Ok(socket) = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)) {
        drop(socket.set_nonblocking(true).and_then(|()| tokio::net::UdpSocket::from_std(socket)));
    }
}

impl Runtime for Tokio {
    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.spawn_blocking(work);
    }

    fn sleep(&self, delay: Duration) -> Task {
        let _inside = self.0.enter();
        Box::pin(tokio::time::sleep(delay))
    }

    fn watch_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn WatchedSocket>> {
        let _inside = self.0.enter();
        Ok(Box::new(tokio::net::UdpSocket::from_std(socket)?))
    }

    #[cfg(unix)]
    fn watch_descriptor(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Watched>> {
        let _inside = self.0.enter();
        // To tokio it is a special file.
        Ok(Box::new(tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(descriptor)?))
    }
}

impl Watched for tokio::net::UdpSocket {
    fn poll_ready(&self, direction: Direction, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match direction {
            Direction::Read => self.poll_recv_ready(context),
            Direction::Write => self.poll_send_ready(context),
        }
    }

    fn try_io(&self, direction: Direction, operation: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        Self::try_io(self, interest, operation)
    }
}

#[cfg(unix)]
impl Watched for tokio::net::unix::pipe::Receiver {
    fn poll_ready(&self, _: Direction, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn try_io(&self, _: Direction, operation: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        Self::try_io(self, operation)
    }
}

/// Waits for a future at most `limit`. `None` if the time is over first.
pub(crate) async fn within<T>(runtime: &dyn Runtime, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut over) = (pin!(future), runtime.sleep(limit));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => over.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Runs work that may take long. `None` if the runtime drops it, as it does when it shuts down.
pub(crate) async fn blocking<T: Send + 'static>(
    runtime: &dyn Runtime,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (answer, question) = tokio::sync::oneshot::channel();
    runtime.run_blocking(Box::new(move || drop(answer.send(work()))));
    question.await.ok()
}

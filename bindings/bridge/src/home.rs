//! The thread on which an endpoint receives and keeps time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use festina::{BindError, Config, Endpoint};
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;

/// A thread with a tokio runtime for one endpoint. Keep it as long as anything that belongs to the endpoint.
///
/// When it is dropped the endpoint closes in the background and in good order, and the thread ends.
#[derive(Debug)]
pub struct Home {
    handle: Handle,
    /// Dropping it ends the thread.
    stay: Option<oneshot::Sender<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
}

/// Why there is no endpoint.
#[derive(Debug)]
pub enum OpenError {
    /// The system gave no thread or no descriptor for the runtime.
    Runtime(io::Error),
    /// The endpoint could not be bound.
    Bind(BindError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(error) => write!(f, "cannot start a thread for the endpoint: {error}"),
            Self::Bind(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl Home {
    /// Binds an endpoint on a thread of its own.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(address: SocketAddr, config: Config) -> Result<(Self, Endpoint), OpenError> {
        let (stay, gone) = oneshot::channel();
        let (ready, bound) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("festina".to_owned())
            .spawn(move || live(address, config, &ready, gone))
            .map_err(OpenError::Runtime)?;
        let died = || Err(OpenError::Runtime(io::Error::other("the thread ended")));
        let (handle, endpoint) = bound.recv().unwrap_or_else(|_| died())?;
        let (stay, thread) = (Some(stay), Mutex::new(Some(thread)));
        Ok((Self { handle, stay, thread, closed: AtomicBool::new(false) }, endpoint))
    }

    /// Lets this thread use the runtime's time, until the guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// The endpoint has been closed to the end: dropping this waits for the thread, which has nothing more to do.
    pub fn closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.stay = None;
        let thread = self.thread.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread
            && *self.closed.get_mut()
            && thread.thread().id() != thread::current().id()
        {
            // A panic there was a bug, and it is over.
            let _over = thread.join();
        }
    }
}

type Bound = Result<(Handle, Endpoint), OpenError>;

fn live(address: SocketAddr, config: Config, ready: &mpsc::SyncSender<Bound>, gone: oneshot::Receiver<()>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Who asked is waiting, or there is nobody to tell.
            let _asked = ready.send(Err(OpenError::Runtime(error)));
            return;
        }
    };
    runtime.block_on(async move {
        let endpoint = match Endpoint::bind(address, config).await {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let _asked = ready.send(Err(OpenError::Bind(error)));
                return;
            }
        };
        let _asked = ready.send(Ok((Handle::current(), endpoint.clone())));
        // An error is what is waited for: the sender was dropped.
        let _dropped = gone.await;
        endpoint.close().await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_lives_as_long_as_its_home_and_then_closes() {
        let (home, endpoint) = Home::open("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
        let address = endpoint.local_addr();
        assert_ne!(address.port(), 0);
        assert!(matches!(Home::open(address, Config::default()), Err(OpenError::Bind(BindError::Socket { .. }))));
        let listener = endpoint.listen(7).unwrap();
        drop((listener, endpoint));
        home.closed();
        drop(home);
        // The thread was waited for, so the socket is gone.
        drop(Home::open(address, Config::default()).unwrap());
    }
}

//! The thread on which an endpoint receives packets and runs timers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};

use thiserror::Error;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::config::EndpointConfig;
use crate::endpoint::Endpoint;
use crate::error::BindError;

/// A thread with a tokio runtime for one endpoint. It is kept as long as any object of the endpoint.
///
/// Dropping it closes the endpoint gracefully in the background, and ends the thread.
#[derive(Debug)]
pub(super) struct RuntimeThread {
    handle: Handle,
    /// Dropping it ends the thread.
    stay: Option<oneshot::Sender<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
}

/// Why an endpoint could not be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system could not provide a thread or a descriptor for the runtime.
    #[error("cannot start a thread for the endpoint: {0}")]
    Runtime(#[source] io::Error),
    /// The endpoint could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
}

festina_units::debug_is_display!(OpenError);

impl RuntimeThread {
    /// Binds an endpoint on a thread of its own.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(super) fn open(address: SocketAddr, config: EndpointConfig) -> Result<(Self, Endpoint), OpenError> {
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

    /// The runtime, to run tasks on.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Notes that the endpoint is closed: dropping this then waits for the thread, which has nothing more to do.
    pub(super) fn closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        self.stay = None;
        let thread = self.thread.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread
            && *self.closed.get_mut()
            && thread.thread().id() != thread::current().id()
        {
            // A panic there was a bug, and has been reported.
            let _over = thread.join();
        }
    }
}

type Bound = Result<(Handle, Endpoint), OpenError>;

fn live(address: SocketAddr, config: EndpointConfig, ready: &mpsc::SyncSender<Bound>, gone: oneshot::Receiver<()>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // The opener is waiting.
            let _asked = ready.send(Err(OpenError::Runtime(error)));
            return;
        }
    };
    runtime.block_on(serve(address, config, ready, gone));
    // The look-up of a name may still run in a thread of the runtime, which cannot be interrupted.
    runtime.shutdown_background();
}

async fn serve(
    address: SocketAddr,
    config: EndpointConfig,
    ready: &mpsc::SyncSender<Bound>,
    gone: oneshot::Receiver<()>,
) {
    let endpoint = match Endpoint::open(address, config).await {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let _asked = ready.send(Err(OpenError::Bind(error)));
            return;
        }
    };
    let _asked = ready.send(Ok((Handle::current(), endpoint.clone())));
    // The sender is only ever dropped, which is an error here.
    let _dropped = gone.await;
    endpoint.close().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    #[test]
    fn an_endpoint_lives_as_long_as_its_thread_and_then_closes() {
        let (thread, endpoint) =
            RuntimeThread::open("127.0.0.1:0".parse().unwrap(), ServerConfig::plain().into()).unwrap();
        let address = endpoint.local_addr();
        assert_ne!(address.port(), 0);
        assert!(matches!(
            RuntimeThread::open(address, ServerConfig::plain().into()),
            Err(OpenError::Bind(BindError::Socket { .. }))
        ));
        let listener = endpoint.listen(7).unwrap();
        drop((listener, endpoint));
        thread.closed();
        drop(thread);
        // The thread was waited for, so the socket is gone.
        drop(RuntimeThread::open(address, ServerConfig::plain().into()).unwrap());
    }
}

//! Ctrl-C and its like.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the program has been asked to end.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// From this call on neither the user (Ctrl-C) nor the system (SIGTERM) ends the program; the future ends when one of them has
/// asked for it. Call this before announcing that something is ready.
#[cfg(unix)]
pub(crate) fn interruption() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    async fn received(signal: Option<Signal>) {
        match signal {
            Some(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the signal ends the program by itself.
            None => pending().await,
        }
    }

    let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok());
    async {
        tokio::select! {
            () = received(interrupt) => {}
            () = received(terminate) => {}
        }
        IS_REQUESTED.store(true, Ordering::Relaxed);
    }
}

/// The future ends when the user (Ctrl-C) has asked the program to end.
#[cfg(not(unix))]
pub(crate) fn interruption() -> impl Future<Output = ()> {
    async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler the signal ends the program by itself.
            pending().await
        }
        IS_REQUESTED.store(true, Ordering::Relaxed);
    }
}

/// Waits until the user or the system asks the program to end.
pub(crate) async fn interrupted() {
    interruption().await;
}

/// Waits until the program has been asked to end and this time has passed since, or since the call.
pub(crate) async fn overdue(patience: Duration) {
    if !IS_REQUESTED.load(Ordering::Relaxed) {
        interruption().await;
    }
    tokio::time::sleep(patience).await;
}

/// Requests of the system to read the configuration again and to open files again (SIGHUP).
#[cfg(unix)]
pub(crate) struct Hangups(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Hangups {
    /// From this call on SIGHUP does not end the program.
    pub(crate) fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};

        Self(signal(SignalKind::hangup()).ok())
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => pending().await,
        }
    }
}

//! Ctrl-C and its like.

/// Waits until the user (Ctrl-C) or the system (SIGTERM) asks the program to end.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            () = ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => ctrl_c().await,
    }
}

/// Waits until the user (Ctrl-C) asks the program to end.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    ctrl_c().await;
}

async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the program by itself.
        std::future::pending::<()>().await;
    }
}

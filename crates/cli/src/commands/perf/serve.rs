//! The server: does on each association what the client asks for first.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use festina::{Association, Config, Listener, Message};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};

use super::hello::Hello;
use crate::address::{self, HostPort};
use crate::commands::recording::Recording;
use crate::commands::say_goodbye;
use crate::{output, signal};

/// How long a client may take to say what it wants: it makes all its associations first.
const HELLO_MAX: Duration = Duration::from_secs(60);
/// How often the server says how many bytes have come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// More associations at the same time are refused: each may ask for all that this machine can send.
const ASSOCIATIONS_MAX: usize = 1_000;

/// Serves until interrupted, or once until the first client has left.
pub(super) async fn run(listen: &HostPort, config: Config, once: bool, recording: &Recording) -> Result<()> {
    let endpoint = address::bind_to_listen(listen, config).await?;
    recording.watch(&endpoint);
    let listener = endpoint.listen(festina::DEFAULT_SCTP_PORT)?;
    let interruption = signal::interruption();
    output::notice(&format!("measuring with whoever comes to {}", endpoint.local_addr()));
    tokio::select! {
        () = attend(&listener, once) => {}
        () = interruption => {}
    }
    say_goodbye(&endpoint).await;
    Ok(())
}

async fn attend(listener: &Listener, once: bool) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) if tasks.len() < ASSOCIATIONS_MAX => {
                    tasks.spawn(serve(association));
                }
                Some(association) => association.abort("too many associations"),
                None => return,
            },
            Some(_) = tasks.join_next() => {
                if once && tasks.is_empty() {
                    return;
                }
            }
        }
    }
}

async fn serve(association: Association) {
    let remote = address::canonical(association.remote_addr());
    let hello = match timeout(HELLO_MAX, association.recv()).await {
        Ok(Ok(message)) => Hello::decode(message.payload),
        Ok(Err(_)) => return,
        Err(_) => None,
    };
    match hello {
        Some(Hello::Echo) => echo(&association).await,
        Some(Hello::Upload) => count(&association).await,
        Some(Hello::Download { message_bytes, time }) => send(&association, message_bytes, time).await,
        None => {
            output::complain(&format!("{remote} did not say what it wants; is it `festina perf -c`?"));
            association.abort("this is festina perf");
        }
    }
}

async fn echo(association: &Association) {
    while let Ok(message) = association.recv().await {
        // The next `recv` reports a peer that leaves before its echo.
        let _ = association.send(Message::new(message.payload)).await;
    }
}

/// Counts what comes, and says so until the peer leaves.
async fn count(association: &Association) {
    let mut received_bytes = 0u64;
    let mut progress = interval(PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            message = association.recv() => match message {
                Ok(message) => received_bytes += message.payload.len() as u64,
                Err(_) => return,
            },
            _ = progress.tick() => {
                // If there is no room for it, the next one says more.
                let _ = association.try_send(Message::new(Bytes::copy_from_slice(&received_bytes.to_be_bytes())));
            }
        }
    }
}

/// Sends until the time is over or the peer leaves.
async fn send(association: &Association, message_bytes: u32, time: Duration) {
    let end = Instant::now() + time;
    let payload = Bytes::from(vec![0; usize::try_from(message_bytes).unwrap_or_default()]);
    while Instant::now() < end && association.send(Message::new(payload.clone())).await.is_ok() {}
    // The client ends the association; what has not arrived by then does not count.
    association.closed().await;
}

//! The server: does on each association what the client asks for first.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use festina::security::Fingerprint;
use festina::{Association, Message, ServerConfig};
use tokio::time::{Instant, interval, timeout};

use super::hello::Hello;
use crate::address::{self, HostPort};
use crate::commands::reception::Reception;
use crate::commands::recording::Recording;
use crate::commands::{next_message, say_goodbye};
use crate::{keys, output, signal};

/// How associations are received. A client makes all its associations before it loads any. More at the same time are refused: each may ask
/// for all that this machine can send.
const RECEPTION: Reception<Hello> = Reception {
    associations_max: 1_000,
    hello_max: Duration::from_secs(60),
    decode: Hello::decode,
    this: "festina perf",
    caller: "festina perf -c",
};
/// How long a client may be silent in between, or stay when it has nothing more to get.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How often the server says how many bytes have come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Serves until interrupted, or once until the first client has left.
pub(super) async fn run(
    listen: &HostPort,
    (config, fingerprint): (ServerConfig, Option<Fingerprint>),
    once: bool,
    recording: &Recording,
) -> Result<()> {
    let endpoint = address::bind_to_listen(listen, config).await?;
    recording.watch(&endpoint);
    let listener = endpoint.listen(festina::DEFAULT_SCTP_PORT)?;
    let interruption = signal::interruption();
    output::notice(&format!("measuring with any client that connects to {}", endpoint.local_addr()));
    keys::show(fingerprint);
    tokio::select! {
        () = RECEPTION.attend(&listener, once, serve) => {}
        () = interruption => {}
    }
    say_goodbye(&endpoint).await;
    Ok(())
}

async fn serve(association: Association, hello: Hello) {
    match hello {
        Hello::Echo => echo(&association).await,
        Hello::Upload => count(&association).await,
        Hello::Download { message_bytes, time } => send(&association, message_bytes, time).await,
    }
}

/// Returns the next message; `None` if the client has left, or is silent for [`SILENCE_MAX`] and is therefore made to leave.
async fn next(association: &Association) -> Option<Bytes> {
    match timeout(SILENCE_MAX, next_message(association)).await {
        Ok(message) => Some(message.ok()?.into_payload()),
        Err(_) => {
            association.abort("nothing came for too long");
            None
        }
    }
}

async fn echo(association: &Association) {
    while let Some(payload) = next(association).await {
        // The next `recv` reports a peer that leaves before its echo.
        let _ = association.send(Message::new(payload)).await;
    }
}

/// Counts received bytes and reports them until the peer leaves.
async fn count(association: &Association) {
    let mut received_bytes = 0u64;
    let mut last_at = Instant::now();
    let mut progress = interval(PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            message = association.recv() => match message {
                Ok(Some(message)) => {
                    received_bytes += message.payload().len() as u64;
                    last_at = Instant::now();
                }
                Ok(None) | Err(_) => return,
            },
            _ = progress.tick() => {
                if last_at.elapsed() > SILENCE_MAX {
                    return association.abort("nothing came for too long");
                }
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
    // The client ends the association; data that has not arrived by then does not count.
    if timeout(SILENCE_MAX, association.closed()).await.is_err() {
        association.abort("the time is over");
    }
}

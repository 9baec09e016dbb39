//! What the second host receives, and how late.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::{ELEPHANT, MEDIA, MESSAGE_BYTES, MOUSE, Profile};

/// Maximum size of one read.
const READ_BYTES: usize = 1 << 16;

/// The data read before the profile ended.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// From the write of each whole message to its read.
    pub(super) delays: Vec<Duration>,
    pub(super) media_bytes: u64,
    pub(super) elephant_bytes: u64,
    pub(super) mouse_bytes: u64,
}

impl Received {
    fn add(&mut self, other: Self) {
        self.delays.extend(other.delays);
        self.media_bytes += other.media_bytes;
        self.elephant_bytes += other.elephant_bytes;
        self.mouse_bytes += other.mouse_bytes;
    }
}

/// Takes every connection, and reads until the profile ends, or until the sender has failed: it then drops the other end of `sender`.
pub(super) async fn receive(
    listener: std::net::TcpListener,
    profile: Profile,
    sender: oneshot::Receiver<()>,
) -> io::Result<Received> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (mut connections, mut received) = (JoinSet::new(), Received::default());
    let failed = async {
        match sender.await {
            // It has ended as it should, and the profile with it.
            Ok(()) => std::future::pending().await,
            Err(_) => io::Error::other("the sender failed"),
        }
    };
    tokio::pin!(failed);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(read(stream, profile));
                }
                // It came and went.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
                Err(error) => return Err(error),
            },
            Some(ended) = connections.join_next() => received.add(ended.map_err(io::Error::other)?),
            error = &mut failed => return Err(error),
            () = sleep_until(profile.ends()) => break,
        }
    }
    while let Some(ended) = connections.join_next().await {
        received.add(ended.map_err(io::Error::other)?);
    }
    Ok(received)
}

/// Reads a connection to its end or that of the profile.
async fn read(mut stream: TcpStream, profile: Profile) -> Received {
    let mut received = Received::default();
    let reading = async {
        let kind = stream.read_u8().await?;
        match kind {
            MEDIA => read_media(&mut stream, profile, &mut received).await,
            // The first byte of these is of the transfer itself.
            ELEPHANT => count(&mut stream, &mut received.elephant_bytes).await,
            MOUSE => count(&mut stream, &mut received.mouse_bytes).await,
            _ => Ok(()),
        }
    };
    // Data that was read counts however the connection ended.
    let _: Result<io::Result<()>, _> = timeout_at(profile.ends(), reading).await;
    received
}

async fn count(stream: &mut TcpStream, bytes: &mut u64) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    *bytes += 1;
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        *bytes += read as u64;
    }
}

async fn read_media(stream: &mut TcpStream, profile: Profile, received: &mut Received) -> io::Result<()> {
    let (mut buffer, mut filled) = (vec![0; READ_BYTES], 0);
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        let since_beginning = profile.begins.elapsed();
        received.media_bytes += read as u64;
        filled += read;
        let whole = filled - filled % MESSAGE_BYTES;
        received.delays.extend(delays(&buffer[..whole], since_beginning));
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// How late whole messages are that were read at this time of the profile.
fn delays(messages: &[u8], since_beginning: Duration) -> impl Iterator<Item = Duration> {
    messages.chunks_exact(MESSAGE_BYTES).map(move |message| {
        let mut written_ns = [0; 8];
        written_ns.copy_from_slice(&message[..8]);
        since_beginning.saturating_sub(Duration::from_nanos(u64::from_be_bytes(written_ns)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_as_late_as_it_says_itself() {
        let mut messages = vec![0; 2 * MESSAGE_BYTES];
        messages[..8].copy_from_slice(&30_000_000_u64.to_be_bytes());
        messages[MESSAGE_BYTES..MESSAGE_BYTES + 8].copy_from_slice(&45_000_000_u64.to_be_bytes());
        let found: Vec<u128> = delays(&messages, Duration::from_millis(50)).map(|delay| delay.as_millis()).collect();
        assert_eq!(found, [20, 5]);
    }
}

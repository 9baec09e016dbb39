//! What the second host receives, and how late.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{ELEPHANT, MEDIA, MESSAGE_BYTES, MOUSE, Profile};

/// Maximum size of one read.
const READ_BYTES: usize = 1 << 16;

/// The data read before the profile ended.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// From the write of each whole message to its read.
    pub(super) delays: Vec<Duration>,
    pub(super) media: Volume,
    pub(super) elephants: Volume,
    pub(super) mice: Volume,
}

impl Received {
    fn add(&mut self, other: Self) {
        self.delays.extend(other.delays);
        self.media.add(other.media);
        self.elephants.add(other.elephants);
        self.mice.add(other.mice);
    }
}

/// Payload of the flows of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) bytes: u64,
    /// Those read while all cross traffic is there.
    pub(super) crowded_bytes: u64,
}

impl Volume {
    /// Adds a read at this instant.
    fn note(&mut self, read: usize, profile: Profile, now: Instant) {
        self.bytes += read as u64;
        if profile.is_crowded(now) {
            self.crowded_bytes += read as u64;
        }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.crowded_bytes += other.crowded_bytes;
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
            ELEPHANT => count(&mut stream, profile, &mut received.elephants).await,
            MOUSE => count(&mut stream, profile, &mut received.mice).await,
            _ => Ok(()),
        }
    };
    // Data that was read counts however the connection ended.
    let _: Result<io::Result<()>, _> = timeout_at(profile.ends(), reading).await;
    received
}

async fn count(stream: &mut TcpStream, profile: Profile, volume: &mut Volume) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    volume.note(1, profile, Instant::now());
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        volume.note(read, profile, Instant::now());
    }
}

async fn read_media(stream: &mut TcpStream, profile: Profile, received: &mut Received) -> io::Result<()> {
    let (mut buffer, mut filled) = (vec![0; READ_BYTES], 0);
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let since_beginning = now.saturating_duration_since(profile.begins);
        received.media.note(read, profile, now);
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

    #[test]
    fn bytes_count_as_crowded_from_42_to_60_eightieths_of_the_profile() {
        let profile = Profile { begins: Instant::now(), lasts: Duration::from_secs(8) };
        let mut volume = Volume::default();
        for (eightieths, bytes) in [(41, 1), (42, 10), (59, 100), (60, 1_000)] {
            volume.note(bytes, profile, profile.at(eightieths));
        }
        assert_eq!(volume, Volume { bytes: 1_111, crowded_bytes: 110 });
    }
}

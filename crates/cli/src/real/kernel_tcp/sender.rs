//! The traffic of the first host: a media stream, elephants, mice and constant bit rate (G02 §3.2 and §4.1).

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use festina_minbuf::{MinBufStream, SendBufferLimit, SenderShare};
use festina_netsim::RandomStream;
use festina_units::Bandwidth;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{ELEPHANT, MEDIA, MESSAGE_BYTES, MOUSE, Profile};

/// When a kind of cross traffic begins and ends, in eightieths of the profile.
const ELEPHANTS_AT: [u32; 2] = [5, 60];
const MICE_AT: [u32; 2] = [20, 75];
const CONSTANT_AT: [u32; 2] = [40, 75];

/// What an elephant writes at once.
const BLOCK_BYTES: usize = 1 << 16;
/// Payload of a datagram.
const DATAGRAM_BYTES: usize = 1_000;
/// The congestion control of everything but the media stream, independent of the machine's default.
const CROSS_CONGESTION: &str = "cubic";

/// How the media stream's send buffer is limited.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// By the kernel alone, with `TCP_NOTSENT_LOWAT` if it is set.
    Kernel { lowat_bytes: Option<u32> },
    /// By this project's library.
    Library(SendBufferLimit),
}

/// The cross traffic at the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrossTraffic {
    pub(super) elephants: u64,
    pub(super) mice: u64,
    /// What each mouse transfers at a time.
    pub(super) mouse_bytes: usize,
    pub(super) constant: Bandwidth,
    /// Each flow begins within this time of its turn, at random.
    pub(super) spread: Duration,
}

/// Everything that the host sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) to: SocketAddr,
    /// The destination of datagrams, which are never read.
    pub(super) datagrams_to: SocketAddr,
    pub(super) profile: Profile,
    pub(super) limit: Limit,
    /// The media stream's congestion control, as the kernel calls it.
    pub(super) congestion: &'static str,
    pub(super) cross: CrossTraffic,
    pub(super) seed: u64,
}

impl Load {
    /// Sends it all, until the profile ends. Returns how long the media stream's packets waited in the send buffer, if that was
    /// measured.
    pub(super) async fn send(self) -> io::Result<Option<SenderShare>> {
        let mut flows = JoinSet::new();
        let mut random = RandomStream::new(self.seed, "kernel tcp/cross traffic");
        let spread_ns = u64::try_from(self.cross.spread.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mut soon_after = |part| self.profile.at(part) + Duration::from_nanos(random.below(spread_ns));
        for _ in 0..self.cross.elephants {
            flows.spawn(self.elephant(soon_after(ELEPHANTS_AT[0])));
        }
        for _ in 0..self.cross.mice {
            flows.spawn(self.mouse(soon_after(MICE_AT[0])));
        }
        flows.spawn(self.constant_bit_rate());
        let share = self.media().await?;
        flows.abort_all();
        while let Some(ended) = flows.join_next().await {
            // Remaining connections were aborted.
            if let Ok(outcome) = ended {
                outcome?;
            }
        }
        Ok(share)
    }

    async fn media(self) -> io::Result<Option<SenderShare>> {
        sleep_until(self.profile.begins).await;
        let mut stream = self.connect(self.congestion).await?;
        stream.set_nodelay(true)?;
        stream.write_u8(MEDIA).await?;
        match self.limit {
            Limit::Kernel { lowat_bytes } => {
                if let Some(bytes) = lowat_bytes {
                    SockRef::from(&stream).set_tcp_notsent_lowat(bytes)?;
                }
                let_go(timeout_at(self.profile.ends(), self.write_to_kernel(&mut stream)).await)?;
                abandon(&stream)?;
                Ok(None)
            }
            Limit::Library(limit) => {
                let mut stream = MinBufStream::new(stream, limit)?;
                let writing = async {
                    loop {
                        stream.writable().await?;
                        stream.write_all(&self.message()).await?;
                    }
                };
                let_go(timeout_at(self.profile.ends(), writing).await)?;
                let share = stream.sender_share()?;
                abandon(stream.get_ref())?;
                Ok(Some(share))
            }
        }
    }

    /// Writes whenever the kernel takes something. The time of a message is that of the first write that takes some of it.
    async fn write_to_kernel(&self, stream: &mut TcpStream) -> io::Result<()> {
        loop {
            stream.writable().await?;
            let message = self.message();
            match stream.try_write(&message) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                taken => stream.write_all(&message[taken?..]).await?,
            }
        }
    }

    /// A message that says when it was written, in nanoseconds since the profile began.
    fn message(&self) -> [u8; MESSAGE_BYTES] {
        let mut message = [0; MESSAGE_BYTES];
        let written_ns = u64::try_from(self.profile.begins.elapsed().as_nanos()).unwrap_or(u64::MAX);
        message[..8].copy_from_slice(&written_ns.to_be_bytes());
        message
    }

    async fn elephant(self, from: Instant) -> io::Result<()> {
        let until = self.profile.at(ELEPHANTS_AT[1]);
        let block = vec![ELEPHANT; BLOCK_BYTES];
        sleep_until(from).await;
        let Ok(connected) = timeout_at(until, self.connect(CROSS_CONGESTION)).await else { return Ok(()) };
        let mut stream = connected?;
        let writing = async {
            loop {
                stream.write_all(&block).await?;
            }
        };
        let_go(timeout_at(until, writing).await)?;
        // What still waits must not go on.
        abandon(&stream)
    }

    async fn mouse(self, from: Instant) -> io::Result<()> {
        let until = self.profile.at(MICE_AT[1]);
        let transfer = vec![MOUSE; self.cross.mouse_bytes];
        sleep_until(from).await;
        let running = async {
            loop {
                let mut stream = self.connect(CROSS_CONGESTION).await?;
                stream.write_all(&transfer).await?;
                stream.shutdown().await?;
                // The receiver closes when it has read all, and has nothing to say.
                if stream.read(&mut [0]).await? > 0 {
                    return Ok(());
                }
                abandon(&stream)?;
            }
        };
        let_go(timeout_at(until, running).await)
    }

    async fn constant_bit_rate(self) -> io::Result<()> {
        let [from, until] = CONSTANT_AT.map(|part| self.profile.at(part));
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        let bits = u64::try_from(DATAGRAM_BYTES * 8).unwrap_or(u64::MAX);
        let gap = Duration::from_nanos(bits * 1_000_000_000 / self.cross.constant.bits_per_second().max(1));
        let mut next = from;
        while next < until {
            sleep_until(next).await;
            socket.send_to(&[0; DATAGRAM_BYTES], self.datagrams_to).await?;
            next += gap;
        }
        Ok(())
    }

    async fn connect(&self, congestion: &str) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.to).await?;
        SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes())?;
        Ok(stream)
    }
}

/// Closes a connection at once: what waits in it is thrown away.
fn abandon(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// That the time was over is no error, nor is a connection that the network or the peer gave up.
fn let_go(outcome: Result<io::Result<()>, tokio::time::error::Elapsed>) -> io::Result<()> {
    match outcome {
        Ok(Err(error)) if !is_of_the_network(error.kind()) => Err(error),
        _ => Ok(()),
    }
}

fn is_of_the_network(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_network_did_is_let_go() {
        let outcome = |kind: ErrorKind| let_go(Ok(Err(kind.into())));
        assert!(outcome(ErrorKind::ConnectionReset).is_ok());
        // Without descriptors there would be fewer mice, unnoticed.
        assert!(let_go(Ok(Err(io::Error::from_raw_os_error(24)))).is_err());
        assert!(outcome(ErrorKind::PermissionDenied).is_err());
    }
}

//! Two joined connections: data of one is read only when it can be sent on to the other.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Result};
use festina_minbuf::{MinBufStream, SendBufferLimit};
use festina_units::Bandwidth;
use socket2::SockRef;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use crate::address;

/// Maximum size of one read.
const BUFFER_BYTES: usize = 1 << 16;
/// What a program on this machine may have on its way to the proxy; more would wait here instead of in its own hands.
const LOCAL_RECEIVE_BYTES: usize = 1 << 15;

/// A client and the server that it is passed on to.
#[derive(Debug)]
pub(super) struct Relay {
    client: MinBufStream,
    upstream: MinBufStream,
    there: Pump,
    back: Pump,
}

/// One direction.
#[derive(Debug)]
struct Pump {
    buffer: Vec<u8>,
    /// Start of the unwritten part of the buffer.
    start: usize,
    end: usize,
    has_ended: bool,
    is_done: bool,
    bytes: u64,
}

impl Relay {
    pub(super) fn new(
        client: TcpStream,
        upstream: TcpStream,
        limit: SendBufferLimit,
        pace: Option<Bandwidth>,
    ) -> Result<Self> {
        let limited = |stream: TcpStream| -> io::Result<MinBufStream> {
            let socket = SockRef::from(&stream);
            address::reset_when_dropped(&stream);
            address::keep_alive(&stream)?;
            address::read_urgent_data(&stream)?;
            if stream.peer_addr()?.ip().to_canonical().is_loopback() {
                socket.set_recv_buffer_size(LOCAL_RECEIVE_BYTES)?;
            }
            let stream = MinBufStream::new(stream, limit)?;
            pace.map_or(Ok(()), |rate| stream.set_pacing_max(rate))?;
            Ok(stream)
        };
        let cannot = "cannot limit the send buffer";
        let (client, upstream) = (limited(client).context(cannot)?, limited(upstream).context(cannot)?);
        Ok(Self { client, upstream, there: Pump::new(), back: Pump::new() })
    }

    /// Passes on until both directions have ended. When one fails, the peer of the other learns by a reset that the stream is not
    /// whole.
    pub(super) async fn run(&mut self) -> Result<()> {
        std::future::poll_fn(|cx| self.poll(cx)).await?;
        for stream in [&self.client, &self.upstream] {
            SockRef::from(stream.get_ref()).set_linger(None)?;
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let there = self.there.poll(cx, &mut self.client, &mut self.upstream);
        if let Poll::Ready(Err(error)) = there {
            return Poll::Ready(Err(error).context("the way there broke"));
        }
        let back = self.back.poll(cx, &mut self.upstream, &mut self.client);
        if let Poll::Ready(Err(error)) = back {
            return Poll::Ready(Err(error).context("the way back broke"));
        }
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// The bytes passed on, and how long they waited in the send buffers.
    pub(super) fn report(&mut self) -> String {
        let waited = |stream: &mut MinBufStream| {
            let waited = stream.sender_share().ok()?.waited;
            let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
            let quantile = |per_mille| waited.quantile(per_mille).map(ms);
            Some(format!(" (waited p50/p90/max {}/{}/{} ms)", quantile(500)?, quantile(900)?, ms(waited.longest())))
        };
        let there = waited(&mut self.upstream).unwrap_or_default();
        let back = waited(&mut self.client).unwrap_or_default();
        format!("{} bytes there{there}, {} bytes back{back}", self.there.bytes, self.back.bytes)
    }
}

impl Pump {
    fn new() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, has_ended: false, is_done: false, bytes: 0 }
    }

    fn poll(&mut self, cx: &mut Context<'_>, from: &mut MinBufStream, to: &mut MinBufStream) -> Poll<io::Result<()>> {
        while !self.is_done {
            if self.start < self.end {
                let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.buffer[self.start..self.end]))?;
                self.start += written;
                self.bytes += written as u64;
            } else if self.has_ended {
                ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                self.is_done = true;
            } else {
                // Data that was not read yet may still be replaced by the sender.
                let room = ready!(to.poll_writable(cx))?;
                self.buffer.resize(BUFFER_BYTES, 0);
                let most = usize::try_from(room.bytes).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
                let mut read = ReadBuf::new(&mut self.buffer[..most]);
                ready!(Pin::new(&mut *from).poll_read(cx, &mut read))?;
                (self.start, self.end) = (0, read.filled().len());
                self.has_ended = self.end == 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

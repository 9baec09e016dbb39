//! A tokio stream with a limited send buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use festina_recovery::send_buffer::SendBufferLimit;
use festina_units::Bandwidth;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::kernel::{self, Writing};
use crate::{Limiter, Room, SenderShare};

/// A [`TcpStream`] with a limited send buffer.
///
/// Reading is unchanged. Writing takes whole packets while they fit, and waits until the next one does; data shorter
/// than a packet is written as it is. An application that decides late what to send waits with
/// [`writable`](Self::writable), decides, and writes.
#[derive(Debug)]
pub struct MinBufStream {
    stream: TcpStream,
    limiter: Limiter,
}

impl MinBufStream {
    /// Limits the send buffer of `stream`.
    ///
    /// # Errors
    /// If the system cannot report unsent data: systems other than Linux, and Linux before 4.9.
    pub fn new(stream: TcpStream, limit: SendBufferLimit) -> io::Result<Self> {
        let limiter = Limiter::new(&stream, limit)?;
        Ok(Self { stream, limiter })
    }

    /// Changes the limit from now on.
    pub fn set_limit(&mut self, limit: SendBufferLimit) {
        self.limiter.set_limit(limit);
    }

    /// Sets the maximum rate at which the kernel sends. It spaces packets evenly, for little jitter
    /// (`SO_MAX_PACING_RATE`).
    ///
    /// # Errors
    /// If the kernel rejects the option.
    pub fn set_pacing_max(&self, rate: Bandwidth) -> io::Result<()> {
        self.limiter.set_pacing_max(&self.stream, rate)
    }

    /// Waits until a packet fits, and returns how much does. Cancel-safe.
    ///
    /// # Errors
    /// If the kernel cannot be asked for the state of the socket.
    pub async fn writable(&mut self) -> io::Result<Room> {
        std::future::poll_fn(|cx| self.poll_writable(cx)).await
    }

    /// Polls for the condition that [`writable`](Self::writable) waits for.
    ///
    /// # Errors
    /// If the kernel cannot be asked for the state of the socket.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Room>> {
        let room = ready!(self.poll_room(cx))?;
        // The kernel may have had no memory for the last write.
        ready!(self.stream.poll_write_ready(cx))?;
        Poll::Ready(Ok(room))
    }

    /// Returns the sender's share of the latency, at present and since the start.
    ///
    /// # Errors
    /// If the kernel cannot be asked for the state of the socket.
    pub fn sender_share(&mut self) -> io::Result<SenderShare> {
        self.limiter.sender_share(&self.stream)
    }

    /// Returns the underlying stream.
    #[must_use]
    pub fn get_ref(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the stream with the kernel's default limits restored.
    ///
    /// # Errors
    /// If the kernel rejects the options.
    pub fn into_inner(self) -> io::Result<TcpStream> {
        #[cfg(target_os = "linux")]
        socket2::SockRef::from(&self.stream).set_tcp_notsent_lowat(0)?;
        Ok(self.stream)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Room>> {
        loop {
            let room = self.limiter.room(&self.stream)?;
            if room.is_open() {
                return Poll::Ready(Ok(room));
            }
            // tokio's readiness state predates the limit: ask the kernel, which reports when it changes.
            let stream = &self.stream;
            let asked = stream.try_io(Interest::WRITABLE, || match kernel::poll_writing(stream)? {
                Writing::Full => Err(io::ErrorKind::WouldBlock.into()),
                writing => Ok(writing),
            });
            match asked {
                Ok(Writing::Broken) => return Poll::Ready(Ok(self.limiter.one_packet())),
                // A packet was sent in the meantime.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.poll_write_ready(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for MinBufStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let room = ready!(this.poll_room(cx))?;
        let admitted = usize::try_from(room.admit(bytes.len() as u64)).unwrap_or(usize::MAX);
        let Poll::Ready(result) = Pin::new(&mut this.stream).poll_write(cx, &bytes[..admitted.min(bytes.len())]) else {
            // The kernel has no memory for more, regardless of the window. It reports when it has, and a packet fits.
            this.limiter.ring_when_a_packet_fits(&this.stream)?;
            return Poll::Pending;
        };
        let written = result?;
        this.limiter.wrote(written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl AsyncRead for MinBufStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // tokio's own takes a read that fills less than the buffer for the last one, and waits for more; but a read also ends at urgent data.
        let stream = &self.get_mut().stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|length| buffer.advance(length))),
            }
        }
    }
}

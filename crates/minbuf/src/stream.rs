//! A tokio stream whose send buffer is limited.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use festina_recovery::send_buffer::SendBufferLimit;
use festina_units::Bandwidth;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::kernel::{self, Writing};
use crate::{Limiter, Room, SenderShare};

/// A [`TcpStream`] in whose send buffer little waits.
///
/// Reading is as ever. Writing takes whole packets while they fit, and waits until the next one does; what is shorter than a packet
/// leaves as it is. An application that decides late what to send waits with [`writable`](Self::writable), decides, and writes.
#[derive(Debug)]
pub struct MinBufStream {
    stream: TcpStream,
    limiter: Limiter,
}

impl MinBufStream {
    /// Limits what waits in the send buffer of `stream`.
    ///
    /// # Errors
    /// If the system cannot report what is unsent: anything but Linux, and Linux before 4.9.
    pub fn new(stream: TcpStream, limit: SendBufferLimit) -> io::Result<Self> {
        let limiter = Limiter::new(&stream, limit)?;
        Ok(Self { stream, limiter })
    }

    /// Changes the limit from now on.
    pub fn set_limit(&mut self, limit: SendBufferLimit) {
        self.limiter.set_limit(limit);
    }

    /// The most that the kernel sends at, for little jitter: it spaces packets evenly (`SO_MAX_PACING_RATE`).
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_pacing_max(&self, rate: Bandwidth) -> io::Result<()> {
        self.limiter.set_pacing_max(&self.stream, rate)
    }

    /// Waits until a packet fits, and returns how much does. Cancel-safe.
    ///
    /// # Errors
    /// Those of the kernel.
    pub async fn writable(&mut self) -> io::Result<Room> {
        std::future::poll_fn(|cx| self.poll_writable(cx)).await
    }

    /// What [`writable`](Self::writable) waits for.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Room>> {
        let room = ready!(self.poll_room(cx))?;
        // The last write may have met a kernel that had no memory for more.
        ready!(self.stream.poll_write_ready(cx))?;
        Poll::Ready(Ok(room))
    }

    /// The sender's share of the latency, now and so far.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn sender_share(&mut self) -> io::Result<SenderShare> {
        self.limiter.sender_share(&self.stream)
    }

    /// The stream.
    #[must_use]
    pub fn get_ref(&self) -> &TcpStream {
        &self.stream
    }

    /// The stream, with the kernel's own limits again.
    ///
    /// # Errors
    /// Those of the kernel.
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
            // What tokio knows of the socket is from before the limit: the kernel is asked, and reports when that changes.
            let stream = &self.stream;
            let asked = stream.try_io(Interest::WRITABLE, || match kernel::poll_writing(stream)? {
                Writing::Full => Err(io::ErrorKind::WouldBlock.into()),
                writing => Ok(writing),
            });
            match asked {
                Ok(Writing::Broken) => return Poll::Ready(Ok(self.limiter.one_packet())),
                // A packet left in the meantime.
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
            // The kernel has no memory for more, whatever the window is. It reports when it has, and a packet fits.
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
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

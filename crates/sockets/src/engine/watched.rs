//! A Unix socket of any type, watched by tokio.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::net::UnixStream;

/// A socket of the type `SOCK_SEQPACKET`, for which tokio has no type. Only its readiness is asked for, which is the same for all types.
#[derive(Debug)]
pub(super) struct Watched(UnixStream);

impl Watched {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self(UnixStream::from_std(socket.into())?))
    }

    /// Performs a call that reads, waiting until the socket is readable.
    pub(super) async fn read<R>(&self, mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.0.async_io(Interest::READABLE, || call(self.0.as_fd())).await
    }

    /// Performs a call that writes, waiting until the socket is writable.
    pub(super) async fn write<R>(&self, mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.0.async_io(Interest::WRITABLE, || call(self.0.as_fd())).await
    }

    /// Waits until the socket may be readable.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Performs a call that reads, without waiting. `None` if there was nothing.
    pub(super) fn try_read<R>(&self, call: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> Option<io::Result<R>> {
        match self.0.try_io(Interest::READABLE, || call(self.0.as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

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

    /// Has [`Self::readable`] wait for something new, such as the end, although there is something to read. [`Self::try_read`] still finds that.
    pub(super) fn forget_readable(&self) {
        let _forgotten = self.0.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }

    /// Performs a call that reads, without waiting. `None` if there was nothing; then [`Self::readable`] waits.
    pub(super) fn try_read<R>(&self, call: impl Fn(BorrowedFd<'_>) -> io::Result<R>) -> Option<io::Result<R>> {
        let something = |done: io::Result<R>| match done {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        };
        // Not by tokio, which would not look after `forget_readable`; then by tokio, which waits from here on if there is nothing.
        something(call(self.0.as_fd()))
            .or_else(|| something(self.0.try_io(Interest::READABLE, || call(self.0.as_fd()))))
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

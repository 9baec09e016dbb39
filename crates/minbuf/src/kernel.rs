//! System calls. All unsafe code of the crate is here: two socket options that no safe crate provides.

#[cfg(target_os = "linux")]
pub(crate) use linux::{poll_writing, read_info, set_max_pacing_rate};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{poll_writing, read_info, set_max_pacing_rate};

/// The writability of a socket, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems report an error"))]
pub(crate) enum Writing {
    /// The backlog has reached the limit.
    Full,
    /// There is room.
    Open,
    /// The connection is closed or in error, which the next write reports.
    Broken,
}

#[cfg(target_os = "linux")]
mod linux {
    //! Linux.
    #![expect(unsafe_code, reason = "TCP_INFO and SO_MAX_PACING_RATE are in neither socket2 nor rustix")]

    use std::io;
    use std::os::fd::{AsFd, AsRawFd as _};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::Writing;
    use crate::TcpInfo;

    /// Larger than any kernel's `struct tcp_info`; the kernel truncates a longer one.
    const INFO_BYTES_MAX: usize = 512;

    /// `getsockopt(TCP_INFO)`.
    pub(crate) fn read_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
        // Aligned like the structure.
        let mut words = [0_u64; INFO_BYTES_MAX / 8];
        let mut length = libc::socklen_t::try_from(INFO_BYTES_MAX).unwrap_or(0);
        let fd = socket.as_fd();
        // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes, which `words` has,
        // and every pattern of bits is a `u64`.
        let result = unsafe {
            let (buffer, length) = (words.as_mut_ptr().cast(), &raw mut length);
            libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, buffer, length)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut bytes = [0; INFO_BYTES_MAX];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        TcpInfo::parse(&bytes[..usize::try_from(length).unwrap_or(0).min(INFO_BYTES_MAX)])
    }

    /// `setsockopt(SO_MAX_PACING_RATE)`, in bytes per second; `u64::MAX` for no limit.
    pub(crate) fn set_max_pacing_rate(socket: &impl AsFd, bytes_per_second: u64) -> io::Result<()> {
        let length = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or(0);
        let fd = socket.as_fd();
        // SAFETY: the descriptor is open while it is borrowed, and the kernel reads `length` bytes of a `u64` that outlives the call.
        let result = unsafe {
            let value = (&raw const bytes_per_second).cast();
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value, length)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the writability. If the socket is full, the kernel reports when that changes.
    pub(crate) fn poll_writing(socket: &impl AsFd) -> io::Result<Writing> {
        let mut fds = [PollFd::new(socket, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let found = fds[0].revents();
        Ok(match () {
            () if found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => Writing::Broken,
            () if found.is_empty() => Writing::Full,
            () => Writing::Open,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    //! Other systems: every call returns an error.

    use std::io;

    use super::Writing;
    use crate::{Socket, TcpInfo};

    fn unsupported<T>() -> io::Result<T> {
        let problem = "limiting the send buffer requires Linux; use a plain TcpStream on this system";
        Err(io::Error::new(io::ErrorKind::Unsupported, problem))
    }

    pub(crate) fn read_info(_socket: &impl Socket) -> io::Result<TcpInfo> {
        unsupported()
    }

    pub(crate) fn set_max_pacing_rate(_socket: &impl Socket, _bytes_per_second: u64) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn poll_writing(_socket: &impl Socket) -> io::Result<Writing> {
        unsupported()
    }
}

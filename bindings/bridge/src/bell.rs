//! A file descriptor that is readable while it is rung: an eventfd on Linux, a pipe elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

/// Rings from any thread until somebody silences it.
///
/// Who silences it has to look afterwards for what it was rung for: a ring that comes at the same time may be silenced with it.
#[derive(Debug)]
pub struct Bell {
    readable: OwnedFd,
    /// The end of the pipe to write to; an eventfd has one end.
    writable: Option<OwnedFd>,
    /// Whether it rings, so that a second ring costs no system call.
    rings: AtomicBool,
}

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let (readable, writable) = open()?;
        Ok(Self { readable, writable, rings: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        if self.rings.swap(true, Ordering::SeqCst) {
            return;
        }
        let end = self.writable.as_ref().unwrap_or(&self.readable);
        // An eventfd takes eight bytes. It is empty, so there is room.
        retry(|| rustix::io::write(end, &1_u64.to_ne_bytes()));
    }

    /// Makes the descriptor unreadable. Returns whether it was rung.
    pub fn silence(&self) -> bool {
        if !self.rings.load(Ordering::SeqCst) {
            return false;
        }
        let mut bytes = [0; 8];
        retry(|| rustix::io::read(&self.readable, &mut bytes));
        // After the read: who rings before this finds it ringing and adds nothing that would stay behind.
        self.rings.store(false, Ordering::SeqCst);
        true
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.readable.as_raw_fd()
    }
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) {
    while call() == Err(Errno::INTR) {}
}

#[cfg(target_os = "linux")]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    use rustix::event::{EventfdFlags, eventfd};
    Ok((eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, None))
}

#[cfg(not(target_os = "linux"))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (readable, writable) = rustix::pipe::pipe()?;
    for end in [&readable, &writable] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok((readable, Some(writable)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(bell: &Bell) -> bool {
        let mut descriptors = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::try_from(Duration::ZERO).unwrap())).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_the_first_ring_until_it_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!is_readable(&bell));
        for _ in 0..2 {
            assert!(!bell.silence());
            bell.ring();
            bell.ring();
            assert!(is_readable(&bell));
            assert!(bell.silence());
            assert!(!is_readable(&bell));
        }
    }

    #[test]
    fn who_looks_after_silencing_it_misses_nothing() {
        const WORK: u64 = 200_000;
        let bell = Bell::new().unwrap();
        let (done, todo) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..WORK {
                    todo.fetch_add(1, Ordering::SeqCst);
                    bell.ring();
                }
            });
            while done.load(Ordering::SeqCst) < WORK {
                let mut descriptors = [PollFd::new(&bell, PollFlags::IN)];
                let woken = poll(&mut descriptors, Some(&Timespec::try_from(Duration::from_secs(20)).unwrap()));
                assert_eq!(woken, Ok(1), "work is left and the bell is silent");
                bell.silence();
                done.store(todo.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        });
    }
}

//! A file descriptor that is readable while it is notified: an eventfd on Linux, a pipe on other Unix systems. Windows has none.

#[cfg(unix)]
pub(super) use self::unix::Notifier;

/// There are none on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) enum Notifier {}

#[cfg(not(unix))]
impl Notifier {
    pub(super) fn notify(&self) {
        match *self {}
    }

    pub(super) fn clear(&self) -> bool {
        match *self {}
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::io::retry_on_intr;

    /// A descriptor that any thread makes readable and the reader makes unreadable again.
    ///
    /// After clearing it, the reader must look for the cause of the notification: another one at the same time may be cleared with it.
    #[derive(Debug)]
    pub(crate) struct Notifier {
        readable: OwnedFd,
        /// The end of the pipe to write to; an eventfd has one end.
        writable: Option<OwnedFd>,
        /// The descriptor is readable or about to be, so that a second notification costs no system call. Only the thread that reads the bytes
        /// resets it.
        pub(super) is_notified: AtomicBool,
    }

    impl Notifier {
        /// Returns a notifier whose descriptor is not readable.
        ///
        /// # Errors
        /// The system has no descriptor left.
        pub(crate) fn new() -> io::Result<Self> {
            let (readable, writable) = open()?;
            Ok(Self { readable, writable, is_notified: AtomicBool::new(false) })
        }

        /// Makes the descriptor readable.
        pub(crate) fn notify(&self) {
            if !self.is_notified.swap(true, Ordering::SeqCst) {
                self.write();
            }
        }

        pub(super) fn write(&self) {
            let end = self.writable.as_ref().unwrap_or(&self.readable);
            // An eventfd takes eight bytes. It is empty, so there is room.
            let _written = retry_on_intr(|| rustix::io::write(end, &1_u64.to_ne_bytes()));
        }

        /// Makes the descriptor unreadable. Returns whether it was readable.
        pub(crate) fn clear(&self) -> bool {
            if !self.is_notified.load(Ordering::SeqCst) {
                return false;
            }
            let mut bytes = [0; 8];
            // Nothing to read: another thread has set the flag and is about to write. The next call reads that.
            let was_readable = retry_on_intr(|| rustix::io::read(&self.readable, &mut bytes)).is_ok();
            if was_readable {
                // After the read: a notification before this finds the flag set, and writes nothing that would stay behind.
                self.is_notified.store(false, Ordering::SeqCst);
            }
            was_readable
        }
    }

    impl AsFd for Notifier {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.readable.as_fd()
        }
    }

    impl AsRawFd for Notifier {
        fn as_raw_fd(&self) -> RawFd {
            self.readable.as_raw_fd()
        }
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
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(notifier: &Notifier) -> bool {
        let mut descriptors = [PollFd::new(notifier, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::try_from(Duration::ZERO).unwrap())).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_the_first_notification_until_it_is_cleared() {
        let notifier = Notifier::new().unwrap();
        assert!(!is_readable(&notifier));
        for _ in 0..2 {
            assert!(!notifier.clear());
            notifier.notify();
            notifier.notify();
            assert!(is_readable(&notifier));
            assert!(notifier.clear());
            assert!(!is_readable(&notifier));
        }
    }

    #[test]
    fn a_notification_that_is_cleared_before_it_is_written_does_not_stay_behind() {
        let notifier = Notifier::new().unwrap();
        notifier.is_notified.store(true, Ordering::SeqCst);
        notifier.clear();
        notifier.write();
        assert!(is_readable(&notifier));
        assert!(notifier.clear());
        assert!(!is_readable(&notifier));
    }

    #[test]
    fn a_reader_that_looks_after_clearing_misses_nothing() {
        const WORK: u64 = 200_000;
        let notifier = Notifier::new().unwrap();
        let (done, todo) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..WORK {
                    todo.fetch_add(1, Ordering::SeqCst);
                    notifier.notify();
                }
            });
            while done.load(Ordering::SeqCst) < WORK {
                let mut descriptors = [PollFd::new(&notifier, PollFlags::IN)];
                let woken = poll(&mut descriptors, Some(&Timespec::try_from(Duration::from_secs(20)).unwrap()));
                assert_eq!(woken, Ok(1), "work is left and nothing is readable");
                notifier.clear();
                done.store(todo.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        });
    }
}

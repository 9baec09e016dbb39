//! Network namespaces: each has its own devices, addresses and routes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::loopback;

/// The folder of iproute2 for named namespaces.
const NAMED: &str = "/run/netns";
/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace. It exists at least as long as this value.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// If the system has no network namespaces.
    pub fn current() -> io::Result<Self> {
        Self::open(Path::new(OWN))
    }

    /// Opens the namespace that `ip netns add NAME` created.
    ///
    /// # Errors
    /// If there is none of that name, or the name is a path.
    pub fn named(name: &str) -> io::Result<Self> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a namespace's name has no slashes"));
        }
        Self::open(&Path::new(NAMED).join(name))
    }

    /// Creates a namespace with only a loopback device, which is up. It ends with the last thread, socket and
    /// `Namespace` in it.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN, or if the system has run out of a resource.
    pub fn fresh() -> io::Result<Self> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            loopback::set_up()?;
            Self::current()
        })
    }

    /// Another handle of the same namespace.
    ///
    /// # Errors
    /// If this process cannot open another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// Returns the namespace behind a descriptor of a thread; `None` if the descriptor or the thread is gone.
    pub(crate) fn of_thread(process: u32, thread: u32, descriptor: i32) -> Option<Self> {
        Self::open(Path::new(&format!("/proc/{process}/task/{thread}/fd/{descriptor}"))).ok()
    }

    /// Returns the descriptor by which this process holds it.
    pub(crate) fn descriptor(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: File::open(path)?.into() })
    }

    /// Runs a function in the namespace, on a separate thread, and waits for it. Sockets created there belong to the
    /// namespace permanently.
    ///
    /// # Errors
    /// If the thread cannot be started or moved into the namespace, which takes privilege.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        })
    }
}

/// Runs `work` on a separate thread, so that no other thread's namespace changes, and waits for it.
fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for name in ["", ".", "..", "../../proc/self/ns/net", "/etc/passwd"] {
            assert_eq!(Namespace::named(name).expect_err("no name").kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(Namespace::named("no such namespace").expect_err("none").kind(), io::ErrorKind::NotFound);
    }
}

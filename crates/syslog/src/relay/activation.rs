//! Socket activation: systemd opens the sockets and starts the relay with them (`sd_listen_fds(3)`). Data that programs write before the relay runs,
//! or during its restart, waits in the socket.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first descriptor that is passed (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// Maximum number of descriptors that are checked.
const DESCRIPTORS_MAX: RawFd = 64;

/// Returns the datagram socket with this path that the process was started with, if there is one.
///
/// # Errors
/// If the system cannot duplicate one of the passed descriptors (`pidfd_getfd`, Linux 5.6).
pub(super) fn passed_datagram_socket(path: &Path) -> io::Result<Option<UnixDatagram>> {
    let count = passed(std::env::var("LISTEN_PID").ok().as_deref(), std::env::var("LISTEN_FDS").ok().as_deref());
    if count == 0 {
        return Ok(None);
    }
    // Nothing owns a descriptor that is known by its number alone, so use a copy.
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    for number in FIRST..FIRST + count {
        let socket = UnixDatagram::from(pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?);
        // Other sockets have no such address.
        if socket.local_addr().is_ok_and(|address| address.as_pathname() == Some(path)) {
            return Ok(Some(socket));
        }
    }
    Ok(None)
}

/// Returns the number of descriptors passed to this process, according to the environment.
fn passed(pid: Option<&str>, count: Option<&str>) -> RawFd {
    let ours = pid.is_some_and(|pid| pid == getpid().as_raw_nonzero().to_string());
    let count = count.filter(|_| ours).and_then(|count| count.parse().ok());
    count.unwrap_or(0).clamp(0, DESCRIPTORS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_to_another_process_is_not_taken() {
        let ours = getpid().as_raw_nonzero().to_string();
        assert_eq!(passed(Some(&ours), Some("2")), 2);
        assert_eq!(passed(Some("1"), Some("2")), 0);
        assert_eq!(passed(None, Some("2")), 0);
        assert_eq!(passed(Some(&ours), Some("-1")), 0);
        assert_eq!(passed(Some(&ours), Some("many")), 0);
        assert_eq!(passed(Some(&ours), Some("2000000000")), DESCRIPTORS_MAX);
    }
}

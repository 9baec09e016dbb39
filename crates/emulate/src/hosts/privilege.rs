//! The privileges that namespaces and devices require, for users without them.

use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, capabilities};
use thiserror::Error;

/// The reason why a user could not get the privileges.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// Neither the user nor a user namespace has the privileges.
    #[error(
        "network namespaces take root's privileges, and this system lets {user} make no user namespace that would have them; \
         run it as root"
    )]
    Refused {
        /// The user.
        user: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The user namespace exists, but the user could not be mapped into it.
    #[error("cannot become root of a user namespace")]
    Mapping(#[source] io::Error),
}

/// Makes sure that this process may create network namespaces. Does nothing with root's privileges; otherwise the process
/// moves into a user namespace of its own, where the user appears as root.
///
/// The process must have only one thread.
///
/// # Errors
/// If the kernel forbids user namespaces, or if this process has threads.
pub fn gain_privilege() -> Result<(), PrivilegeError> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if capabilities(None).is_ok_and(|sets| sets.effective.contains(needed)) {
        return Ok(());
    }
    let (user, group) = (getuid(), getgid());
    let who = if user.is_root() { "a root without capabilities" } else { "an ordinary user" };
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| PrivilegeError::Refused { user: who.to_owned(), source: errno.into() })?;
    // To map a group without privilege, a process must first give up the right to change groups (user_namespaces(7)).
    for (file, line) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {} 1", user.as_raw())),
        ("gid_map", format!("0 {} 1", group.as_raw())),
    ] {
        std::fs::write(format!("/proc/self/{file}"), line).map_err(PrivilegeError::Mapping)?;
    }
    Ok(())
}

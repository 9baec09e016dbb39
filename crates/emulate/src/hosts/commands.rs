//! The commands that run on the hosts.

use std::ffi::OsString;

/// Shells add the signal's number to this.
pub(super) const SIGNALLED: i32 = 128;

/// The commands to run on the two hosts.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// A line for the shell of the [`SERVER`](super::SERVER), if any. It starts first, and is ended when
    /// the client has ended.
    pub server: Option<OsString>,
    /// A program and its arguments for the [`CLIENT`](super::CLIENT). When it ends, everything ends.
    pub client: Vec<OsString>,
}

//! Festina without `async`: blocking calls with time limits, calls that never wait, and descriptors for event loops.
//!
//! An [`Endpoint`] of this module has a thread of its own, which receives packets and runs timers. Messages are sent from the caller's thread. There
//! are three kinds of calls:
//!
//! - **With a time limit**, a [`Duration`](crate::Duration) or `None` for no limit. `Duration::ZERO` never waits.
//! - **Without waiting**, for frame loops: [`Association::try_recv`], [`Association::try_event`], [`Listener::try_accept`],
//!   [`Connecting::try_finish`], and those of [`festina::Association`](crate::Association) that are not `async`, to which an [`Association`]
//!   dereferences.
//! - **By readiness**: [`Endpoint::ready`] waits for all objects of an endpoint at once and returns those that are ready, by tokens that the
//!   program chose. For poll(2), epoll and similar calls, the endpoint and each object have a descriptor.
//!
//! ```
//! use festina::blocking::Endpoint;
//! use festina::security::Identity;
//! use festina::{ClientConfig, DEFAULT_SCTP_PORT, Duration, ServerConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let second = Duration::from_secs(1);
//! let identity = Identity::self_signed("game.example")?;
//! let known = identity.fingerprint();
//! let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::new(identity))?;
//! let listener = server.listen(DEFAULT_SCTP_PORT)?;
//! let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::new(known))?;
//! let near = client.connect(server.local_addr())?;
//! let far = listener.accept(second)?.ok_or("the endpoint is closed")?;
//!
//! near.send("make haste slowly", second)?;
//! let message = far.recv(second)?.ok_or("the peer is gone")?;
//! assert_eq!(message.payload, "make haste slowly");
//! near.shutdown(second)?;
//! assert!(far.recv(second)?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! **`fork()`.** The thread of an endpoint exists only in the process that opened it. Programs that fork keep objects in a [`ForkGuard`].
//!
//! **Threads.** Several threads may use an object at the same time.

mod association;
mod endpoint;
mod fork;
mod notifier;
mod readiness;
mod runtime;
mod source;
mod wait;

use std::fmt;

use thiserror::Error;

pub use self::association::Association;
pub use self::endpoint::{Connecting, Endpoint, Listener};
pub use self::fork::{ForkGuard, Forked};
pub use self::readiness::{Readiness, Ready, ReadyKind};
pub use self::runtime::OpenError;

/// The time limit has passed.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("the time limit has passed")]
pub struct TimedOut;

festina_units::debug_is_display!(TimedOut);

/// Why a call with a time limit did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum WaitError<E> {
    /// The time limit has passed. Nothing was lost or changed, and the call can be repeated.
    #[error("the time limit has passed")]
    TimedOut,
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] E),
}

impl<E: fmt::Display> fmt::Debug for WaitError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

//! Festina without `async`: blocking calls with time limits, calls that never wait, and descriptors for event loops.
//!
//! An [`Endpoint`] of this module has a thread of its own, which receives packets and runs timers. Messages are sent from the caller's thread. There
//! are three kinds of calls:
//!
//! - **With a time limit**, a [`Duration`](crate::Duration) or `None` for no limit. `Duration::ZERO` never waits.
//! - **Without waiting**, for frame loops: all others, such as [`Association::try_recv`], [`Listener::try_accept`] and [`Connecting::try_finish`].
//!   A [`Link`] connects again by itself.
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
//! assert_eq!(message.payload(), "make haste slowly");
//! near.shutdown(second)?;
//! assert!(far.recv(second)?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! **`fork()`.** The thread of an endpoint exists only in the process that opened it: objects must not be used or dropped in a child.
//!
//! **Threads.** Several threads may use an object at the same time.

mod association;
pub mod bindings;
mod endpoint;
mod fork;
mod forward;
mod link;
mod notifier;
mod readiness;
mod runtime;
mod shared;
mod source;
mod wait;

use std::fmt;

use thiserror::Error;

pub use self::association::Association;
pub use self::endpoint::{Connecting, Endpoint, Listener};
pub use self::link::{Link, LinkDown, LinkEvent, LinkState};
pub use self::readiness::{Ready, ReadyKind};
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

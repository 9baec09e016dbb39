//! What the bindings have in common: programs in other languages have no tokio runtime, and their event loops watch file descriptors.
//!
//! | room | what lives there |
//! |---|---|
//! | [`Home`] | the thread on which an endpoint receives and keeps time |
//! | [`Bell`] | a file descriptor that is readable while it is rung |
//! | [`Owned`] | a value that is inert in a child made by `fork()` |
//!
//! Messages leave from the caller's thread, as with the library itself. Those that arrive wake the program through a [`std::task::Waker`] that
//! rings a [`Bell`], with no task in between.

#![forbid(unsafe_code)]

mod bell;
mod home;
mod process;

pub use bell::Bell;
pub use home::{Home, OpenError};
pub use process::{Forked, Owned};

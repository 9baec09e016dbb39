//! Parts for Festina's bindings to other languages. **Unstable**: any version may change them. Programs in Rust need none of them.

use std::collections::VecDeque;
use std::future::Future;

use festina_sctp::{Message, SendError, SendErrorKind};

use super::endpoint::Endpoint;
pub use super::fork::{ForkGuard, Forked};
pub use super::readiness::Readiness;
use crate::address::Host;
use crate::endpoint::{ConnectOptions, ListenOptions};
use crate::error::{ConnectError, ListenError};

/// Sets up an association as [`Endpoint::connect`] does. The future needs no runtime. Dropping it cancels the handshake.
pub fn connect(
    endpoint: &Endpoint,
    host: Host,
    options: ConnectOptions,
) -> impl Future<Output = Result<crate::Association, ConnectError>> + Send + use<> {
    endpoint.handshake(host, options)
}

/// Listens as [`Endpoint::listen_with`] does, with a listener whose calls are `async`.
///
/// # Errors
/// As [`Endpoint::listen_with`].
pub fn listen(endpoint: &Endpoint, port: u16, options: ListenOptions) -> Result<crate::Listener, ListenError> {
    endpoint.listen_natively(port, options)
}

/// Closes the endpoint as [`Endpoint::close`] does. The future needs no runtime.
pub fn close(endpoint: &Endpoint) -> impl Future<Output = ()> + Send + use<> {
    endpoint.closing()
}

/// Returns the association whose calls are `async`.
pub fn native(association: &super::Association) -> &crate::Association {
    association.native()
}

/// Checks whether the peer can receive these messages, for calls that send all messages or none.
///
/// # Errors
/// The first message that it cannot receive, with the reason.
pub fn check_messages(association: &crate::Association, messages: &VecDeque<Message>) -> Result<(), SendError> {
    let streams = association.streams().outbound;
    if let Some(message) = messages.iter().find(|message| message.stream().0 >= streams) {
        return Err(SendError::new(message.clone(), SendErrorKind::NoSuchStream { streams }));
    }
    let Some(longest) = messages.iter().max_by_key(|message| message.payload().len()) else { return Ok(()) };
    // The core alone knows the peer's limit. It looks at the length first, and no association has this stream. A refused message changes nothing.
    match association.inner().queue(longest.clone().on_stream(u16::MAX)) {
        Err(error @ SendError { kind: SendErrorKind::TooLong { .. }, .. }) => Err(error),
        _ => Ok(()),
    }
}

//! Encryption and identity of an association.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{c_char, c_int, c_void};

use crate::association::{Association, here};
use crate::boundary::{Slot, guard_text, write_bytes};
use crate::message::Message;
use crate::status::{Failure, Status, guard, guard_value};

/// Whether an association is encrypted.
#[unsafe(no_mangle)]
pub extern "C" fn festina_is_encrypted(association: Option<&Association>) -> c_int {
    guard_value(0, || Ok(here(association)?.is_encrypted().into()))
}

/// Whether an earlier session was resumed.
#[unsafe(no_mangle)]
pub extern "C" fn festina_is_resumed(association: Option<&Association>) -> c_int {
    guard_value(0, || Ok(here(association)?.is_resumed().into()))
}

/// Writes the fingerprint of the peer's certificate.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_peer_fingerprint(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || {
        let peer = here(association)?.peer_identity();
        let fingerprint = peer.map(|peer| peer.fingerprint().to_string()).unwrap_or_default();
        Ok(fingerprint)
    })
}

/// Writes the peer's certificate chain as PEM.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_peer_pem(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || {
        let chain = here(association)?.peer_identity().map(|peer| peer.to_pem()).unwrap_or_default();
        Ok(chain)
    })
}

/// Writes the application protocol that both sides have agreed on.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_alpn(association: Option<&Association>, buffer: *mut c_char, capacity: usize) -> usize {
    guard_text(buffer, capacity, || {
        let protocol = here(association)?.alpn().unwrap_or_default();
        Ok(String::from_utf8_lossy(&protocol).into_owned())
    })
}

/// Writes the client's token.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_client_token(
    association: Option<&Association>,
    buffer: *mut c_void,
    capacity: usize,
) -> usize {
    guard_value(0, || {
        let token = here(association)?.request().map(|request| request.token).unwrap_or_default();
        Ok(write_bytes(&token, buffer, capacity))
    })
}

/// Takes the next early message of the client.
#[unsafe(no_mangle)]
pub extern "C" fn festina_recv_early(association: Option<&Association>, message: *mut Message) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("message", message)?;
        let early = association.try_recv_early().ok_or_else(|| Failure::timeout("there is no early message"))?;
        let (stream, ppid, unordered) = (early.stream(), early.ppid(), early.is_unordered());
        slot.fill(Message::holding(early.into_payload(), stream, ppid, unordered));
        Ok(())
    })
}
